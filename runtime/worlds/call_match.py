"""The judge `call_match`: the agent's calls beside the gold calls, counted.

`argument_f1` compares multisets of (tool, argument, value); a call without arguments counts as (tool,). Precision is
the share of the agent's entries that gold has, recall the share of gold's that the agent has (Fission-GRPO, arXiv
2601.15625, reward of correctness).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator

from rlspec.compiler.catalog.calls import CallMatch
from rlspec.runtime.worlds.equality import Form, canonical
from rlspec.runtime.worlds.protocol import Call, Message, Task, answer_to


class Schemas:
    """The tools' schemas, against which calls are checked."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        functions = [tool["function"] for tool in tools]
        self._validators = {f["name"]: Draft202012Validator(f.get("parameters") or {}) for f in functions}

    def accept(self, call: Call) -> bool:
        """Whether there is such a tool and its schema allows these arguments."""
        validator = self._validators.get(call.name)
        return validator is not None and bool(validator.is_valid(call.arguments))


class CallMatchJudge:
    """Measures by `config`. `tools` gives the world's, for tasks that bring none of their own."""

    def __init__(self, config: CallMatch, tools: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self.config, self._tools = config, tools

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self._tools())

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        """The measures of one trajectory. Draws nothing from `rng`."""
        schemas = self._schemas if task.tools is None else Schemas(task.tools)
        spoken = [m for m in dialogue if m.role == "agent"]
        sound = all(m.malformed is None and (m.call is None or schemas.accept(m.call)) for m in spoken)
        made = [(m.call, answer_to(dialogue, place).wrote) for place, m in enumerate(dialogue) if m.call is not None]
        if self.config.counted == "writes":
            names = {call.name for call in task.gold}
            made = [(call, did) for call, did in made if did or call.name in names]
        calls = [call for call, _ in made]
        return {
            "format": int(sound),
            "same_number": int(len(calls) == len(task.gold)),
            "argument_f1": f1(self._entries(calls), self._entries(task.gold)),
            "calls": len(calls),
            "gold_calls": len(task.gold),
        }

    def _entries(self, calls: Iterable[Call]) -> Counter[tuple[str, Form]]:
        found: Counter[tuple[str, Form]] = Counter()
        for call in calls:
            form = canonical(call.arguments, self.config.deep_equal)
            found.update((call.name, entry) for entry in form[1:] or ((),))
        return found


def f1(made: Counter[Any], gold: Counter[Any]) -> float:
    """Harmonic mean of precision and recall of two multisets; 1 where both are empty."""
    both = (made & gold).total()
    return 2 * both / (made.total() + gold.total()) if made or gold else 1.0
