"""The host: many live environments, whose code runs in forked children of a jailed zygote, one child per step.

    with Jail() as jail:
        host = Host(jail)
        handle = host.open(design, {"numbers": [3, 4]})
        host.step(handle, 1, Call("get_numbers", {"index": 0}))     # Observation("3", "ok")
        host.step(handle, 1, Call("get_numbers", {"index": 0}))     # the same one again: a retry is not applied twice

A live environment is its state as text, a few hundred bytes. A step is tried in a child that holds a copy; the host
overwrites the state with what comes back when the child answered in time, and with nothing else. So a crash, an
exception, an endless loop or a call that eats memory leave the state as it was, and what went wrong is the observation.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlspec.runtime.worlds.codegym.environment import SUBMIT, Design
from rlspec.runtime.worlds.codegym.envstring import configuration_text
from rlspec.runtime.worlds.codegym.jail import Jail, Job, Limits, Result
from rlspec.runtime.worlds.codegym.toolschema import fits
from rlspec.runtime.worlds.protocol import Call, Observation

LARGEST_KEPT = 4_096
"""Characters of the largest state whose steps are remembered."""
ERROR = "error : "
UNKNOWN = f"{ERROR}unknown tool"


def first_state(design: Design, configuration: Mapping[str, Any]) -> str:
    """The state in which a configuration begins, hidden inputs and working containers, as the text of an env string's
    configuration: JSON, or a Python literal where JSON cannot say it."""
    working = {name: ast.literal_eval(text) for name, text in design.working.items()}
    return configuration_text({**configuration, **working})


def tool_table(design: Design) -> dict[str, Any]:
    """The tools as the zygote takes them."""
    return {
        t.name: {
            "function": t.function,
            "bound": t.bound,
            "observes": t.observes,
            "takes": {p.name: p.type for p in t.parameters},
        }
        for t in design.tools
    }


@dataclass(slots=True)
class _Live:
    """One live environment. `sequence` is the number of the last step, `last` what it answered."""

    design: Design
    state: str
    sequence: int = 0
    last: Observation | None = None
    submitted: Any = None
    finished: bool = False


class Host:
    """Live environments by handle. Their code runs in `jail`, which several hosts may share.

    What a step does depends on code, state and call alone: there is no clock, no randomness and no file in there. So
    the results of the last `remembers` different steps are kept, and the rollouts of a group, which take the same first
    steps, do not run them eight times. What ended by a limit is never kept."""

    def __init__(self, jail: Jail, limits: Limits | None = None, remembers: int = 0) -> None:
        self.jail, self.limits, self.remembers = jail, limits or Limits(), remembers
        self._results: OrderedDict[tuple[str, str, str, str], Result] = OrderedDict()
        self._live: dict[int, _Live] = {}
        self._handles = itertools.count(1)

    def __len__(self) -> int:
        return len(self._live)

    def open(self, design: Design, configuration: Mapping[str, Any]) -> int:
        """A new environment in its first state; its handle."""
        handle = next(self._handles)
        self._live[handle] = _Live(design, first_state(design, configuration))
        return handle

    def copy(self, handle: int) -> int:
        """Another environment in the same state, which shares nothing with the first."""
        old, new = self._live[handle], next(self._handles)
        self._live[new] = _Live(old.design, old.state, old.sequence, old.last, old.submitted, old.finished)
        return new

    def close(self, handle: int) -> None:
        """Forget an environment; nothing happens to one that is not there."""
        self._live.pop(handle, None)

    def state(self, handle: int) -> str:
        """The state as text."""
        return self._live[handle].state

    def submitted(self, handle: int) -> tuple[bool, Any]:
        """Whether an answer was submitted, and which."""
        live = self._live[handle]
        return live.finished, live.submitted

    def step(self, handle: int, sequence: int, call: Call) -> Observation:
        """Take step number `sequence` (1, 2, ...). The number of the last step again gives its answer again, without
        taking it twice.

        Raises:
            KeyError: there is no such environment.
            ValueError: the number is neither the last one's nor the next.
            InfraFailure: the sandbox failed; the step was not taken.
        """
        live = self._live[handle]
        if sequence == live.sequence and live.last is not None:
            return live.last
        if sequence != live.sequence + 1:
            raise ValueError(f"step {sequence} cannot follow step {live.sequence}")
        observation = self._step(live, call)
        live.sequence, live.last = sequence, observation
        return observation

    def _step(self, live: _Live, call: Call) -> Observation:
        problem = self._mistake(live, call)
        if problem is not None:
            return Observation(f"{ERROR}{problem}", "error")
        if call.name == SUBMIT:
            live.finished, live.submitted = True, call.arguments["answer"]
            return Observation("submitted", "ok", wrote=True, ends=True)
        result = self._result(live, call)
        if result.status != "ok":
            return Observation(f"{ERROR}{result.text}", "error")
        text, state = result.value.get("text"), result.value.get("state")
        if not isinstance(text, str) or not isinstance(state, str) or len(state) > self.limits.state:
            return Observation(f"{ERROR}the call crashed", "error")
        wrote = state != live.state
        live.state = state
        return Observation(text, "ok", wrote=wrote)

    def _result(self, live: _Live, call: Call) -> Result:
        """What the step's child answers, or an equal step's did."""
        key = (live.design.digest, live.state, call.name, json.dumps(call.arguments, sort_keys=True))
        if key in self._results:
            self._results.move_to_end(key)
            return self._results[key]
        body = {
            "op": "step",
            "tools": tool_table(live.design),
            "state": live.state,
            "name": call.name,
            "arguments": call.arguments,
            "state_limit": self.limits.state,
        }
        result = self.jail.run(Job(live.design, 1, body, self.limits))
        plain = result.status == "ok" or (result.status == "error" and not result.text.startswith("MemoryError"))
        if self.remembers and plain and len(live.state) <= LARGEST_KEPT:
            self._results[key] = result
            if len(self._results) > self.remembers:
                self._results.popitem(last=False)
        return result

    @staticmethod
    def _mistake(live: _Live, call: Call) -> str | None:
        """What is wrong with a call before anything runs."""
        if live.finished:
            return "the answer was submitted already"
        tool = live.design.submit if call.name == SUBMIT else None
        tool = tool or next((t.tool for t in live.design.tools if t.name == call.name), None)
        if tool is None:
            return UNKNOWN.removeprefix(ERROR)
        wanted = {p.name: p.type for p in tool.parameters}
        if missing := [name for name in wanted if name not in call.arguments]:
            return f"missing argument {missing[0]}"
        if unknown := [name for name in call.arguments if name not in wanted]:
            return f"unknown argument {unknown[0][:40]}"
        for name, kind in wanted.items():
            if not fits(kind, call.arguments[name]):
                return f"argument {name} is not of type {kind}"
        return None
