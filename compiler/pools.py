"""Which members meet in a step: the scope and the members of every operation that crosses members.

A *pool* is the set of members that one `reduce`, `normalise`, `scan`, `gae` or `top` looks at together. It is given
by two levels: the members' own, and the scope, whose every member holds one pool. `over (traj, turn)` has
scope `group` and members `turn`; `over traj` has scope `group` and members `traj`.

The evaluator and the kernels both start from here, so they cannot disagree about who is compared with whom;
what is then computed over a pool they write twice, independently.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlspec.compiler.levels import BY_LABEL, Level, finest
from rlspec.compiler.program import CROSSING, ELEMENTWISE, NORMALISERS, REDUCERS, SCANS, SHAPES, Program, Step
from rlspec.dsl.dataclass import dataclass

AXES = (Level.GROUP, Level.TRAJ, Level.TURN, Level.TOKEN)
NEUTRAL = {"sum": 0.0, "count": 0.0, "any": 0.0, "all": 1.0}


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool per member of `scope`, made of all members of level `member` below it."""

    scope: Level
    member: Level


def axis_level(label: str) -> Level:
    """The level that an axis counts.

    Raises:
        ValueError: no such axis.
    """
    level = BY_LABEL.get(label)
    if level not in AXES:
        raise ValueError(f"unknown axis {label!r}; axes are {', '.join(a.label for a in AXES)}")
    return level


def pool_of(axes: Iterable[str]) -> Pool:
    """The pool of `over axes`: from the parent of the coarsest axis down to the finest one. A level that is
    left out between them is passed through: all tokens of a trajectory are in `("traj", "token")`."""
    levels = [axis_level(axis) for axis in axes]
    if not levels:
        raise ValueError("an `over` needs at least one axis")
    return Pool(Level(min(levels) - 1), max(levels))


def pool(step: Step) -> Pool:
    """The pool of a step that crosses members. An aligned `normalise` has the aligned members as its own:
    turn k of every trajectory of a group is one pool of the scope `group`, and there are as many pools as
    turns."""
    match step.op:
        case "reduce" | "top":
            return pool_of(step.attrs["axes"])
        case "normalise":
            found = pool_of(step.attrs["axes"])
            align = step.attrs.get("align")
            return Pool(found.scope, axis_level(align)) if align else found
        case "scan":
            return pool_of((step.attrs["axis"],))
        case "gae":
            member = axis_level(step.attrs["axis"])
            return Pool(Level(min(member - 1, Level.TRAJ)), member)
    raise ValueError(f"`{step.op}` crosses no members")


def level_of(step: Step, args: tuple[Level, ...]) -> Level:
    """The level of a step's result from the levels of its arguments.

    Raises:
        ValueError: an unknown operation, a wrong number of arguments, or an argument finer than the members.
    """
    match step.op:
        case "const":
            allowed, level = (0, 0), Level.CONST
        case "input":
            allowed, level = (0, 0), BY_LABEL[step.level]
        case "index":
            allowed, level = (0, 0), axis_level(step.attrs["axis"])
        case "num":
            allowed, level = (0, 0), Level(axis_level(step.attrs["axis"]) - 1)
        case "reduce":
            _choice(step, "fn", REDUCERS)
            allowed, level = (1, 2), pool(step).scope
            if step.attrs.get("empty") is None and step.attrs["fn"] not in NEUTRAL:
                raise ValueError(f"`{step.attrs['fn']}` needs `empty`, its value over no member")
        case "normalise":
            _normaliser(step)
            allowed, level = (1, 1), pool(step).member
        case "scan":
            _choice(step, "fn", SCANS)
            allowed, level = (2, 2), pool(step).member
        case "gae":
            allowed, level = (4, 4), pool(step).member
        case "top":
            allowed, level = (1, 1), pool(step).member
            if not 0 <= step.attrs["share"] <= 1:
                raise ValueError(f"share = {step.attrs['share']!r} must be in [0, 1]")
        case op if op in ELEMENTWISE:
            _elementwise(step)
            allowed, level = (ELEMENTWISE[op],) * 2, finest(args)
        case _:
            raise ValueError(f"unknown operation {step.op!r}")
    if not allowed[0] <= len(args) <= allowed[1]:
        raise ValueError(f"`{step.op}` got {len(args)} arguments")
    if step.op in CROSSING and finest(args) > pool(step).member:
        raise ValueError(
            f"`{step.op}` over members of level {pool(step).member.label} cannot take a value of level "
            f"{finest(args).label}"
        )
    return level


def check(program: Program) -> tuple[Level, ...]:
    """The level of every step.

    Raises:
        ValueError: with the step's position, when the program is not well formed: a reference forwards, a
        level that
            is not the one that follows from the arguments, an unknown operation, choice, input or axis.
    """
    declared = {i.name: BY_LABEL[i.level] for i in program.inputs}
    levels: list[Level] = []
    for at, step in enumerate(program.steps):
        try:
            if any(not 0 <= a < at for a in step.args):
                raise ValueError("a step may only refer to steps before it")
            if step.op == "input" and declared.get(step.attrs["name"]) is not BY_LABEL[step.level]:
                raise ValueError(f"the program declares no input {step.attrs['name']!r} of level {step.level}")
            level = level_of(step, tuple(levels[a] for a in step.args))
            if level is not BY_LABEL[step.level]:
                raise ValueError(f"it says level {step.level}, but its arguments make it {level.label}")
        except ValueError as error:
            raise ValueError(f"step {at} ({step.op}): {error}") from error
        except KeyError as error:
            raise ValueError(f"step {at} ({step.op}): attribute {error} is missing") from error
        levels.append(level)
    for name, at in program.outputs.items():
        if not 0 <= at < len(levels):
            raise ValueError(f"output {name!r} names step {at} of {len(levels)}")
    return tuple(levels)


def _choice(step: Step, attr: str, allowed: tuple[str, ...]) -> None:
    if step.attrs[attr] not in allowed:
        raise ValueError(f"{attr} = {step.attrs[attr]!r}; one of {', '.join(allowed)}")


def _elementwise(step: Step) -> None:
    """The attributes of those elementwise operations that have some."""
    if step.op == "lookup":
        values = step.attrs["values"]
        if not isinstance(step.attrs["table"], str) or (values is not None and len(values) != step.attrs["size"]):
            raise ValueError(f"table {step.attrs['table']!r} does not hold {step.attrs['size']} values")
    elif step.op == "anneal":
        _choice(step, "shape", SHAPES)
        if not step.attrs["over"] > 0:
            raise ValueError(f"over = {step.attrs['over']!r} must be more than 0")


def _normaliser(step: Step) -> None:
    _choice(step, "fn", NORMALISERS)
    _choice(step, "singleton", ("zero", "raw"))
    float(step.attrs["zero_variance"])
    if step.attrs["fn"] == "zscore":
        if step.attrs["ddof"] not in (0, 1):
            raise ValueError(f"ddof = {step.attrs['ddof']!r}; 0 or 1")
        if not step.attrs["epsilon"] >= 0:
            raise ValueError(f"epsilon = {step.attrs['epsilon']!r} must be at least 0")
    if step.attrs.get("align"):
        _choice(step, "missing", ("absent", "zero"))
        if axis_level(step.attrs["align"]) != pool_of(step.attrs["axes"]).member + 1:
            raise ValueError(f"align = {step.attrs['align']!r} must be one level below the finest axis")
