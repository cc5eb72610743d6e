"""Builds a program step by step, giving equal subexpressions one step and folding constants."""

from __future__ import annotations

from collections.abc import Iterable

from rlspec.compiler.levels import Level, finest
from rlspec.compiler.program import Input, Program, Step
from rlspec.compiler.ranges import Range
from rlspec.compiler.schedules import Timed
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """An elaborated expression: its step, and what is known of it. `members` is set on a sum over an axis: the axis
    and the range of one member (0 included when a `where` may leave members out), so that division by the count of the
    same axis is recognised as a mean. `timed` is set on what follows the training step."""

    step: int
    base: str
    level: Level
    range: Range
    choices: tuple[str, ...] = ()
    members: tuple[str, Range] | None = None
    counts: str | None = None  # this value is `num(axis)`
    timed: Timed | None = None  # how its range follows the training step
    unit: str = ""  # what it counts, where it says so; a product or quotient counts nothing that has a name


class Builder:
    """Collects the steps of one program. `const`, `input` and `apply` return the index of a step."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._levels: list[Level] = []  # of the steps
        self.inputs: dict[str, Input] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self._constants: dict[str, int] = {}  # by their text: 0.0 and -0.0 are two

    def _add(self, op: str, args: tuple[int, ...], level: Level, attrs: dict[str, Any]) -> int:
        key = (op, args, tuple(sorted((k, repr(v)) for k, v in attrs.items()))) if attrs else (op, args)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.steps)
            self.steps.append(Step.model_construct(op=op, args=args, level=level.label, attrs=attrs))
            self._levels.append(level)
        return found

    def const(self, value: float) -> int:
        value = float(value)
        found = self._constants.get(text := repr(value))
        if found is None:
            found = self._constants[text] = self._add("const", (), Level.CONST, {"value": value})
        return found

    def input(self, name: str, level: Level, kind: str) -> int:
        self.inputs.setdefault(name, Input(name=name, level=level.label, type=kind))  # type: ignore[arg-type]
        return self._add("input", (), level, {"name": name})

    def apply(self, op: str, *args: int, level: Level | None = None, **attrs: Any) -> int:
        """An operation; without `level`, the finest of its arguments (elementwise)."""
        if level is None:
            levels = self._levels
            level = finest([levels[a] for a in args])
        return self._add(op, args, level, attrs)

    def level(self, step: int) -> Level:
        return self._levels[step]

    def constant(self, step: int) -> float | None:
        """The value of a constant step, else None."""
        found = self.steps[step]
        return float(found.attrs["value"]) if found.op == "const" else None

    def needed(self, wanted: Iterable[int]) -> set[int]:
        """The steps that these are made of, themselves included."""
        needed: set[int] = set()
        stack = list(wanted)
        while stack:
            step = stack.pop()
            if step not in needed:
                needed.add(step)
                stack.extend(self.steps[step].args)
        return needed

    def program(self, outputs: dict[str, int]) -> Program:
        """The steps that the outputs need, renumbered; inputs that nothing reads are left out."""
        order = sorted(self.needed(outputs.values()))
        place = {old: new for new, old in enumerate(order)}
        steps = tuple(_moved(self.steps[old], place) for old in order)
        read = {s.attrs["name"] for s in steps if s.op == "input"}
        return Program(
            inputs=tuple(i for i in self.inputs.values() if i.name in read),
            steps=steps,
            outputs={name: place[step] for name, step in outputs.items()},
        )


def _moved(step: Step, place: dict[int, int]) -> Step:
    """The step with the new numbers of its arguments."""
    args = tuple([place[a] for a in step.args])
    if args == step.args:
        return step
    return Step.model_construct(op=step.op, args=args, level=step.level, attrs=step.attrs)
