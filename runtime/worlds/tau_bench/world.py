"""tau-bench as a world: the benchmark's tasks, policy and schemas, its tools as code over its database, its verdict.

    world = TauBenchWorld(TauBench(domain=("airline",), split="test", source="tau_bench"))
    floor(world)                       # {"airline": 0.4}: solved by a policy that does nothing

Only the airline desk has its tools here.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.papers import TauBench
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Observation, Task
from rlspec.runtime.worlds.tau_bench.airline import ENDING, TOOLS, WRITING, Refused
from rlspec.runtime.worlds.tau_bench.database import Database, Original

TABLES = ("users", "reservations", "flights")
VARIABLE = "RLSPEC_TAU_BENCH"


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain's data as it was read. `tasks` are the benchmark's entries."""

    name: str
    original: Original
    initial_hash: str
    tasks: tuple[Mapping[str, Any], ...]
    schemas: tuple[dict[str, Any], ...]
    policy: str


class TauBenchSession:
    """One conversation's database, what the agent has said and what it has written."""

    def __init__(self, config: TauBench, task: Task, database: Database) -> None:
        self._config, self._task, self._database = config, task, database
        self._said: list[str] = []
        self._writes: list[Call] = []
        self._cut = False

    def step(self, call: Call) -> Observation:
        """Run a call. What goes wrong in a tool is an observation, and leaves the database as it was."""
        tool = TOOLS.get(call.name)
        if tool is None:
            return Observation(f"Unknown action {call.name}", "error")
        tried = self._database.fork()
        try:
            text = tool(tried, **copy.deepcopy(call.arguments))
        except (Refused, TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            # arguments of a wrong shape fail somewhere in the tool, as they do in the benchmark
            return Observation(f"Error: {error}", "error")
        self._database = tried
        wrote = call.name in WRITING
        if wrote:
            self._writes.append(call)
        return Observation(text, "ok", wrote=wrote, ends=call.name in ENDING)

    def hear(self, agent_text: str) -> None:
        """What the agent says to the user; the text check reads it."""
        self._said.append(agent_text.lower().replace(",", ""))

    def cut(self) -> None:
        """The conversation ended at a limit and not by anybody's word."""
        self._cut = True

    def fork(self) -> TauBenchSession:
        """A session with the same state, which shares nothing with this one that can change."""
        other = TauBenchSession(self._config, self._task, self._database.fork())
        other._said, other._writes, other._cut = list(self._said), list(self._writes), self._cut
        return other

    def measure(self) -> dict[str, Any]:
        """The signals of `TauBench.MEASURES`. Cut off without `reward_truncated`, there is no final database: its hash
        is empty."""
        found = "" if self._cut and not self._config.reward_truncated else self._database.hash()
        reference = str(self._task.payload["reference_hash"])
        right = found == reference
        if found and self._config.verifier == "write_operations":
            right = _counted(self._writes) == _counted([c for c in self._task.gold if c.name in WRITING])
        outputs = self._task.payload["outputs"]
        said = all(any(text.lower() in line for line in self._said) for text in outputs)
        floor = self._task.payload["initial_hash"] == reference
        out = {"verified": int(right), "db_hash": found, "reference_hash": reference, "outputs_said": int(said)}
        return {**out, "floor": int(floor)}

    def close(self) -> None:
        """There is nothing to close."""


def _counted(calls: Sequence[Call]) -> list[str]:
    """Calls without their order."""
    return sorted(json.dumps([call.name, call.arguments], sort_keys=True) for call in calls)


class TauBenchWorld:
    """The environment `tau_bench`. Its tasks are those of the split that the spec names, whichever split of the
    project is asked for: the published runs train and examine on the same ones."""

    def __init__(self, config: TauBench) -> None:
        if config.calls_per_message != "first":
            raise Refusal("RLC0601", "`calls_per_message = all` has no runtime here: of a message one call is executed",
                          "write `calls_per_message = first`")  # fmt: skip
        self.config = config
        folder = config.source or os.environ.get(VARIABLE, "")
        self.domains = [read(Path(folder), name, config.split) for name in config.domain]
        self._listed = [(domain, entry) for domain in self.domains for entry in domain.tasks]

    @cached_property
    def system(self) -> str:
        """The written policy."""
        return "\n\n".join(domain.policy for domain in self.domains)

    @cached_property
    def tools(self) -> Sequence[dict[str, Any]]:
        """The benchmark's schemas."""
        return [schema for domain in self.domains for schema in domain.schemas]

    def __len__(self) -> int:
        return len(self._listed)

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task, beginning again after the last."""
        domain, entry = self._listed[number % len(self._listed)]
        gold = tuple(Call(action["name"], dict(action["kwargs"])) for action in entry["actions"])
        reference = entry.get("gold_hash") or _replayed(domain, gold)
        payload = {
            "domain": domain.name,
            "outputs": tuple(entry.get("outputs", ())),
            "reference_hash": reference,
            "initial_hash": domain.initial_hash,
        }
        name = f"tau_bench.{self.config.split}.{entry['index']}"
        return Task(name, self.config.split, entry["instruction"], gold, payload)

    def reset(self, task: Task) -> TauBenchSession:
        """A session of its own over the benchmark's first database."""
        domain = next(d for d in self.domains if d.name == task.payload["domain"])
        return TauBenchSession(self.config, task, Database(domain.original))


def floor(world: TauBenchWorld) -> dict[str, float]:
    """What a policy that does nothing solves, as a share of each domain's tasks: those whose first database is the
    wanted one already. A list of gold calls does not show it, because some gold writes change nothing."""
    counts: dict[str, list[bool]] = {}
    for number in range(len(world)):
        task = world.task("test", number)
        done = task.payload["initial_hash"] == task.payload["reference_hash"]
        counts.setdefault(task.payload["domain"], []).append(done)
    return {name: sum(found) / len(found) for name, found in counts.items()}


def _replayed(domain: Domain, gold: Sequence[Call]) -> str:
    """The hash that gold calls leave, where the data does not say it."""
    database = Database(domain.original)
    for call in gold:
        if call.name not in ENDING:
            TOOLS[call.name](database, **copy.deepcopy(call.arguments))
    return database.hash()


@cache
def read(folder: Path, name: str, split: str) -> Domain:
    """A domain's data. The tasks of the test split are in `tasks.json`, others in `tasks_<split>.json`.

    Raises:
        Refusal: RLC0601 the domain has no tools here, RLC0505 its data has no such split, RLC0701 the data cannot be
            read, RLC0711 it is something else.
    """
    if name != "airline":
        raise Refusal("RLC0601", f"tau-bench's {name} desk has no tools here", "write `domain = [airline]`")
    at = folder / name
    tables = {table: _json(at / f"{table}.json") for table in TABLES}
    wanted = at / ("tasks.json" if split == "test" else f"tasks_{split}.json")
    if split != "test" and not wanted.exists() and (at / "tasks.json").exists():
        raise Refusal("RLC0505", f"tau-bench's {name} tasks in {at} have no {split} split: there is no {wanted.name}",
                      "write `split = test`")  # fmt: skip
    listed = _json(wanted)
    entries = listed["tasks"] if isinstance(listed, Mapping) else listed
    schemas = _json(at / "tools.json")
    try:
        policy = (at / "policy.md").read_text(encoding="utf-8")
        numbered = tuple({"index": number, **entry} for number, entry in enumerate(entries))
        if not numbered or not all(map(_is_task, numbered)):
            raise ValueError("tasks have an `instruction`, `actions` (`name`, `kwargs`), and perhaps `outputs` (texts)")
        original = Original(tables)
    except OSError as error:
        raise _missing(at / "policy.md", error) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise Refusal(
            "RLC0711", f"{at} does not hold tau-bench's data: {error}", "see `source` of tau_bench"
        ) from error
    return Domain(name, original, Database(original).hash(), numbered, tuple(schemas), policy)


def _is_task(entry: Mapping[str, Any]) -> bool:
    actions, outputs = entry.get("actions"), entry.get("outputs", [])
    return (
        isinstance(entry.get("instruction"), str)
        and isinstance(actions, list)
        and all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in actions)
        and all(isinstance(c.get("kwargs"), dict) for c in actions)
        and isinstance(outputs, list)
        and all(isinstance(text, str) for text in outputs)
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _missing(path, error) from error
    except ValueError as error:
        raise Refusal("RLC0711", f"{path} is no JSON: {error}", "see `source` of tau_bench") from error


def _missing(path: Path, error: OSError) -> Refusal:
    cure = f"name the folder of the benchmark's data in `source` or in ${VARIABLE}"
    return Refusal("RLC0701", f"{path} cannot be read: {error.strerror or error}", cure)
