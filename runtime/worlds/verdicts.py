"""Whether the right writes were made and the right texts said, for environments that have nothing else to go by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlspec.runtime.worlds.protocol import Call, Observation, Task


def written(call: Call) -> str:
    """A call as something to compare."""
    return json.dumps([call.name, call.arguments], sort_keys=True)


def changes(calls: Sequence[Call], writing: frozenset[str]) -> list[str]:
    """The calls that write, without their order."""
    return sorted(written(call) for call in calls if call.name in writing)


def _plain(text: str) -> str:
    return text.lower().replace(",", "")


@dataclass(slots=True)
class Account:
    """What an agent has done in one conversation, against its task."""

    task: Task
    writing: frozenset[str]
    made: list[Call] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    errors: int = 0
    cut: bool = False

    def count(self, call: Call, seen: Observation) -> None:
        """A call and how it went."""
        if seen.status == "error":
            self.errors += 1
        else:
            self.made.append(call)

    def hear(self, agent_text: str) -> None:
        """What the agent said to its user."""
        self.said.append(_plain(agent_text))

    @property
    def right(self) -> bool:
        """Whether the successful writes are those of the gold calls, in any order."""
        return changes(self.made, self.writing) == changes(self.task.gold, self.writing)

    @property
    def for_nothing(self) -> bool:
        """Whether nothing needs to be written."""
        return not changes(self.task.gold, self.writing)

    def measure(self) -> dict[str, int]:
        """Counts, and whether the texts that the task wants were said (letter case and commas do not matter)."""
        writes = sum(call.name in self.writing for call in self.made)
        outputs = self.task.payload["outputs"]
        return {
            "right_writes": int(self.right),
            "outputs_said": int(all(any(_plain(text) in line for line in self.said) for text in outputs)),
            "reads": len(self.made) - writes,
            "writes": writes,
            "errors": self.errors,
        }
