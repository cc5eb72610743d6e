"""CodeGym as a world: tasks of admitted environments, sessions whose steps are tried in a jailed child.

The tasks of a split are gone through in passes, each in an order of its own, so that every task comes up before one is
seen twice. A configuration belongs to the training or the test split by a hash of its content, under any seed.
"""

from __future__ import annotations

import atexit
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from typing import Any

from rlspec.compiler.catalog.codegym import Gym
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.codegym.comparators import same
from rlspec.runtime.worlds.codegym.environment import SUBMIT, Environment, Row
from rlspec.runtime.worlds.codegym.envstring import EnvString, configuration_text, write
from rlspec.runtime.worlds.codegym.host import Host
from rlspec.runtime.worlds.codegym.jail import Jail, Limits, Sandbox
from rlspec.runtime.worlds.codegym.naming import Names, draw_names
from rlspec.runtime.worlds.codegym.toolschema import Tool, schema_of, signature_of
from rlspec.runtime.worlds.protocol import Call, Message, Observation, Task

SYSTEM = (
    "You solve a task with tools. The inputs of the task are hidden; tools show them. Call one tool at a time and wait "
    f"for what it returns. When you know the answer, submit it with {SUBMIT}; only the first submission counts."
)
SPLITS = ("train", "test")


@cache
def jail_for(sandbox: Sandbox) -> Jail:
    """The jail of this process, made when it is first needed."""
    jail = Jail(sandbox=sandbox)
    atexit.register(jail.close)
    return jail


class GymSession:
    """One trajectory in one environment. Raises `InfraFailure("env", ...)` when the sandbox fails."""

    def __init__(
        self,
        host: Host,
        handle: int,
        environment: Environment,
        row: Row,
        names: Names,
        seen: Sequence[tuple[str, bool]] = (),
    ) -> None:
        self._host, self._handle, self._environment, self._row = host, handle, environment, row
        self._names = names
        self._seen = list(seen)  # the calls so far: name, whether it worked

    def step(self, call: Call) -> Observation:
        """Run a call. The agent's mistakes, and whatever the tool does wrong, are observations of status "error"; they
        leave the state as it was."""
        observation = self._host.step(self._handle, len(self._seen) + 1, self._names.own(call))
        self._seen.append((call.name, observation.status == "ok"))
        return observation

    def fork(self) -> GymSession:
        """A session in the same state, which shares nothing with this one."""
        copy = self._host.copy(self._handle)
        return GymSession(self._host, copy, self._environment, self._row, self._names, self._seen)

    def measure(self) -> dict[str, Any]:
        """The signals of `Gym.MEASURES`."""
        submitted, answer = self._host.submitted(self._handle)
        right = submitted and same(self._environment.comparator, answer, self._row.reference)
        return {
            "verified": int(right),
            "submitted": int(submitted),
            "calls": len(self._seen),
            "tools": len({name for name, worked in self._seen if worked and name != SUBMIT}),
            "errors": sum(not worked for _, worked in self._seen),
            "oracle_calls": len(self._row.calls),
        }

    def close(self) -> None:
        self._host.close(self._handle)


class GymWorld:
    """The environments that the component chooses, of those given."""

    def __init__(self, config: Gym, environments: Sequence[Environment]) -> None:
        self.config = config
        self.environments = {e.id: e for e in _chosen(config, environments)}
        if not self.environments:
            known = ", ".join(sorted({e.family for e in environments})) or "none"
            raise Refusal("RLC0505", f"no environment is left; the families are: {known}", "name others in `families`")
        limits = Limits(wall=config.step_within, cpu=config.step_within, memory=config.memory_mib << 20)
        self._host = Host(jail_for(config.sandbox), limits, config.remembers)
        by_name = {
            name: Call(name, arguments)
            for e in reversed(self.environments.values())
            for name, arguments in e.rows[0].calls[:-1]
        }
        self.calls = [by_name[name] for name in sorted(by_name)]
        """A call of every tool that there is."""
        self._rows: dict[str, list[tuple[str, int]]] = {split: [] for split in SPLITS}
        for environment in self.environments.values():
            for place, row in enumerate(environment.rows):
                self._rows[self._split_of(environment, row)].append((environment.id, place))

    @property
    def system(self) -> str:
        """What every agent is told."""
        return SYSTEM

    @property
    def tools(self) -> Sequence[dict[str, Any]]:
        """No tool is there in every task; a task brings its own."""
        return []

    def _split_of(self, environment: Environment, row: Row) -> str:
        content = json.dumps([environment.id, configuration_text(row.input)])
        draw = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big") / 2**64
        return "test" if draw < self.config.test_share else "train"

    def size(self, split: str) -> int:
        """How many different tasks a split has."""
        return len(self._rows[split])

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task of a split; the same one on every call and machine.

        Raises:
            ValueError: there is no such split or number.
            Refusal: RLC0505, the split has no task.
        """
        if split not in SPLITS or number < 0:
            raise ValueError(f"no task {number} in split {split!r}: splits are {', '.join(SPLITS)}, numbers start at 0")
        rows = self._rows[split]
        if not rows:
            raise Refusal("RLC0505", f"the environments have no task in the split {split}", "change `test_share`")
        turn, place = divmod(number, len(rows))
        order = stream(self.config.seed, "codegym", split, turn).permutation(len(rows))
        identity, row = rows[int(order[place])]
        environment = self.environments[identity]
        return self._task(environment, row, f"codegym.{split}.{number}.{identity}", split)

    def _task(self, environment: Environment, place: int, name: str, split: str) -> Task:
        row, design = environment.rows[place], environment.design
        names = Names()
        if self.config.tool_names == "drawn":
            names = draw_names(design, self.config.seed, name)
        payload = {
            "environment": environment.id,
            "family": environment.family,
            "row": place,
            "level": row.level,
            "env_string": write(EnvString(environment.id, design.class_name, row.input)),
            "reference": row.reference,
            "names": dict(names.drawn),
        }
        gold = tuple(names.shown(Call(name, arguments)) for name, arguments in row.calls)
        schemas = self.config.tool_docs == "schemas"
        told = names.told(design)
        tools = tuple(schema_of(tool) for tool in told) if schemas else None
        return Task(name, split, self._instruction(environment, row, told), gold, payload, tools)

    def _instruction(self, environment: Environment, row: Row, tools: Sequence[Tool]) -> str:
        design = environment.design
        parts = [design.statement]
        if not environment.hide_inputs:
            parts.append(f"inputs : {configuration_text(row.input)}")
        if self.config.tool_docs == "signatures":
            parts.append("Tools:\n\n" + "\n\n".join(signature_of(tool) for tool in tools))
        elif self.config.tool_docs == "names":
            told = " , ".join(f"{t.name} ( {' '.join(p.name for p in t.parameters)} )" for t in tools)
            parts.append("tools : " + told.replace("(  )", "( )"))
        return "\n".join(parts)

    def reset(self, task: Task) -> GymSession:
        """A session of its own, in the state in which the task begins."""
        environment = self.environments[task.payload["environment"]]
        row = environment.rows[task.payload["row"]]
        handle = self._host.open(environment.design, row.input)
        return GymSession(self._host, handle, environment, row, Names(task.payload["names"]))

    # ----------------------------------------------------------------------------------------------- demonstrations

    def demonstration(self, task: Task) -> list[Message]:
        """The oracle trajectory of a task as a dialogue, ending with the submission."""
        row = self.environments[task.payload["environment"]].rows[task.payload["row"]]
        dialogue = [Message("user", task.instruction)]
        for call, seen in zip_longest(task.gold, row.observations):
            dialogue.append(Message("agent", "", call))
            if seen is not None:
                dialogue.append(Message("tool", seen, status="ok"))
        return dialogue

    def all_tasks(self, split: str) -> list[Task]:
        """Every task of a split, once."""
        return [self.task(split, number) for number in range(self.size(split))]

    def lexicon(self) -> list[list[Message]]:
        """A dialogue of every environment, for what the tasks are worded in."""
        return [
            self.demonstration(self._task(environment, 0, environment.id, "train"))
            for environment in self.environments.values()
        ]


def _chosen(config: Gym, environments: Sequence[Environment]) -> list[Environment]:
    """The wanted families' environments; with `most_environments`, the first of each family in turn."""
    wanted = [
        e
        for e in environments
        if (not config.families or e.family in config.families) and e.family not in config.held_out
    ]
    if not config.most_environments:
        return wanted
    by_family: dict[str, list[Environment]] = defaultdict(list)
    for environment in wanted:
        by_family[environment.family].append(environment)
    turns = zip_longest(*by_family.values())
    return [e for turn in turns for e in turn if e is not None][: config.most_environments]
