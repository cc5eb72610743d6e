"""Names of tools that are drawn anew for every task.

What a function is called says what it does, so a policy can learn a family's calls by heart and read nothing. With
other names in every task nothing can be learned by heart: which tool comes next must be found in what the task says of
them. Tools that show inputs, and the submission, keep their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.toolschema import Tool
from rlspec.runtime.worlds.protocol import Call

POOL = tuple(f"tool{number}" for number in range(1, 33))
UNKNOWN = "?"
"""Stands for a name that the task does not have; no function can be called that."""


@dataclass(frozen=True, slots=True)
class Names:
    """Own name -> name in the task; none where tools keep their own."""

    drawn: Mapping[str, str] = field(default_factory=dict)

    def told(self, design: Design) -> list[Tool]:
        """All tools as the agent is told of them."""
        return [
            Tool(self.drawn.get(t.name, t.name), t.doc, t.parameters, t.returns, t.returns_doc) for t in design.told
        ]

    def shown(self, call: Call) -> Call:
        """A call of the environment as it is made in the task."""
        return Call(self.drawn.get(call.name, call.name), call.arguments)

    def own(self, call: Call) -> Call:
        """A call that was made in the task as the environment knows it; an own name is unknown there."""
        if call.name in self.drawn:
            return Call(UNKNOWN, call.arguments)
        own = next((own for own, drawn in self.drawn.items() if drawn == call.name), call.name)
        return Call(own, call.arguments)


def draw_names(design: Design, seed: int, task: str) -> Names:
    """The names of a task, the same for equal arguments.

    Raises:
        ValueError: the environment has more functions than there are names.
    """
    functions = [plan.name for plan in design.tools if not plan.observes]
    if len(functions) > len(POOL):
        raise ValueError(f"{design.class_name} has {len(functions)} functions, there are {len(POOL)} names")
    order = stream(seed, "codegym", "names", task).permutation(len(POOL))
    return Names({name: POOL[int(place)] for name, place in zip(functions, order, strict=False)})
