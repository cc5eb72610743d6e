"""Tools that a language model plays, as a world.

    world = PlayedWorld(Played(tools="tools.json", tasks="tasks.jsonl", model="gpt-4.1"))
    world.reset(world.task("train", 0)).step(Call("get_order", {"order_id": "W12"}))

What the model must answer is one JSON object, `ok` and `result`, and nothing else in it; what is no such object is a
failure of the trajectory and never mended. Calls of tools that do not exist, or with arguments that break the schema,
are refused here, by rule. Even at temperature 0 an endpoint need not give the same answer twice, so two runs of the
same spec need not be the same, which they are with every other environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr, ValidationError

from rlspec.compiler.catalog.tool_sides import Played
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.distilled import read_talks
from rlspec.runtime.worlds.prompting import prompt
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Observation, Task
from rlspec.runtime.worlds.task_file import read_tasks, text_of
from rlspec.runtime.worlds.verdicts import Account

_FENCE = re.compile(r"\A\s*```(?:json)?\s*|\s*```\s*\Z")
LIST = 'a JSON list of objects {"type": "function", "function": {"name", "description", "parameters"}}'


class Result(BaseModel):
    """What the model writes: whether the call succeeded, and what the tool says."""

    model_config = ConfigDict(extra="forbid")
    ok: StrictBool
    result: StrictStr


class PlayedSession:
    """One conversation's calls. There is no state but what the model was shown and said."""

    def __init__(self, world: PlayedWorld, task: Task) -> None:
        self._world, self._task = world, task
        self._account = Account(task, world.writing)
        self._calls: list[tuple[Call, Observation]] = []
        self._requests = 0

    def step(self, call: Call) -> Observation:
        """Have a call played.

        Raises:
            InfraFailure: the endpoint fails, or its answer is no result.
        """
        seen = self._refused(call) or self._played(call)
        self._calls.append((call, seen))
        self._account.count(call, seen)
        return seen

    def _refused(self, call: Call) -> Observation | None:
        """What is said to a call that no tool takes."""
        validator = self._world.validators.get(call.name)
        if validator is None:
            return Observation(json.dumps({"error": "unknown tool"}), "error")
        wrong = next(validator.iter_errors(call.arguments), None)
        return None if wrong is None else Observation(json.dumps({"error": wrong.message}), "error")

    def _played(self, call: Call) -> Observation:
        self._requests += 1
        asked = [{"role": "user", "content": self.text(call)}]
        world = self._world
        try:
            found = world.ask(asked)
        except InfraFailure as failure:
            raise InfraFailure("env", failure.reason) from failure
        return Observation(found.result, "ok" if found.ok else "error", wrote=found.ok and call.name in world.writing)

    def text(self, call: Call) -> str:
        """What the model is asked."""
        schema = next(tool for tool in self._world.tools if tool["function"]["name"] == call.name)
        setup = [(made, None) for made in self._task.payload["setup"]]
        return prompt(
            "tool",
            schema=schema["function"],
            state=self._task.payload["state"],
            calls=[*setup, *((made, seen.text) for made, seen in self._calls)],
            call=call,
        )

    def hear(self, agent_text: str) -> None:
        """What the agent says to its user."""
        self._account.hear(agent_text)

    def cut(self) -> None:
        """The conversation ended at a limit."""
        self._account.cut = True

    def fork(self) -> PlayedSession:
        """A session that has been told the same, and shares nothing with this one that can change."""
        other = PlayedSession(self._world, self._task)
        for call, seen in self._calls:
            other._calls.append((call, seen))
            other._account.count(call, seen)
        other._account.said, other._requests = list(self._account.said), self._requests
        return other

    def measure(self) -> dict[str, Any]:
        """The signals of `Played.MEASURES`."""
        paid = not self._account.cut or self._world.config.reward_truncated
        return {
            **self._account.measure(),
            "verified": int(self._account.right and paid),
            "floor": int(self._account.for_nothing),
            "requests": self._requests,
        }

    def close(self) -> None:
        """Nothing is held."""


class PlayedWorld:
    """The environment `played`. `retries` more tries of each request, within the deadline of one call."""

    slow = True

    def __init__(self, config: Played, retries: int = 0) -> None:
        self.config, self.at_once = config, config.at_once
        self.file = read_tasks(Path(config.tasks), config.test_share)
        self.system = text_of(config.system, "system")
        self._listed = read_tools(Path(config.tools))
        if config.key is not None:
            reveal(config.key)  # from now on its value is kept out of messages
        variable = config.key.secret if config.key is not None else "OPENAI_API_KEY"
        patience = Patience(within=config.timeout, tries=1 + retries)
        self.endpoint = Endpoint(config.model, config.endpoint, variable, patience, config.at_once)
        self._retries = retries

    def ask(self, messages: Sequence[Mapping[str, Any]]) -> Result:
        """A result. One that is none is asked for again, with the same words, as often as `retry(n)` says.

        Raises:
            InfraFailure: the endpoint failed, or its answer is no result.
        """
        problem = ""
        for _ in range(1 + self._retries):
            said = self.endpoint.say(messages, self.config.temperature, max_tokens=self.config.max_new_tokens)
            try:
                return Result.model_validate(json.loads(_FENCE.sub("", said)))
            except ValidationError as error:
                problem = f"{'.'.join(map(str, error.errors()[0]['loc']))}: {error.errors()[0]['msg']}"
            except (ValueError, RecursionError) as error:
                problem = str(error)
        raise InfraFailure("env", f"{self.config.model}: an answer that is no result of a tool: {problem[:200]}")

    @cached_property
    def tools(self) -> Sequence[dict[str, Any]]:
        """The schemas."""
        return [{"type": "function", "function": tool["function"]} for tool in self._listed]

    @cached_property
    def validators(self) -> dict[str, Draft202012Validator]:
        """What arguments each tool takes."""
        return {
            t["function"]["name"]: Draft202012Validator(t["function"].get("parameters") or {}) for t in self._listed
        }

    @cached_property
    def writing(self) -> frozenset[str]:
        """The tools that write: those of `writing`, or all that are not marked `annotations.readOnlyHint`."""
        if self.config.writing:
            return frozenset(self.config.writing)
        return frozenset(
            t["function"]["name"] for t in self._listed if not (t.get("annotations") or {}).get("readOnlyHint")
        )

    def ready(self) -> None:
        """Read what is imitated, and hold the tools against what names them.

        Raises:
            Refusal: RLC0505, there is a tool named that is not in the file; or as `read_talks`.
        """
        if self.config.distilled:
            read_talks(Path(self.config.distilled))
        tasks = [task for found in self.file.tasks.values() for task in found]
        named = dict.fromkeys(self.config.writing, "`writing`")
        named |= {call.name: f"task `{task.id}`" for task in tasks for call in task.gold}
        for name, where in named.items():
            if name not in self.validators:
                raise Refusal("RLC0505", f"{self.config.tools} has no tool `{name}`, which {where} names",
                              f"its tools: {', '.join(sorted(self.validators)) or 'none'}")  # fmt: skip

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task of a split."""
        return self.file.task(split, number)

    def reset(self, task: Task) -> PlayedSession:
        """A session in which nothing has been called."""
        return PlayedSession(self, task)

    def floor(self) -> dict[str, float]:
        """What a policy that does nothing solves, as a share of each split's tasks."""
        splits = {split: found for split, found in self.file.tasks.items() if found}
        return {
            split: sum(Account(t, self.writing).for_nothing for t in found) / len(found)
            for split, found in splits.items()
        }


def read_tools(path: Path) -> list[dict[str, Any]]:
    """Schemas of tools from a file.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 it holds something else.
    """
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error}", "name a JSON file in `tools`") from error
    except (ValueError, RecursionError) as error:
        raise Refusal("RLC0711", f"{path} is no JSON: {error}", LIST) from error
    try:
        names = [tool["function"]["name"] for tool in listed]
        for tool in listed:
            Draft202012Validator.check_schema(tool["function"].get("parameters") or {})
    except (TypeError, KeyError, AttributeError, SchemaError) as error:
        why = error.message if isinstance(error, SchemaError) else repr(error)
        raise Refusal("RLC0711", f"{path} holds no tools: {why}", LIST) from error
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise Refusal("RLC0711", f"{path}: tools need names, each its own", LIST)
    return list(listed)
