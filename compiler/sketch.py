"""Sketches: programs written as Python expressions, for tests, benchmarks and notebooks.

    reward = signal("reward", "traj")
    program = program(advantage=normalise("zscore", reward, "traj", ddof=1, epsilon=1e-6))

Python's operators and comparisons make elementwise steps (`==` too, so sketches are not hashable); levels
follow from the operands. What a spec file says is elaborated elsewhere; this makes the same programs without
a file.
"""

from __future__ import annotations

from rlspec.compiler.builder import Builder
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.pools import level_of
from rlspec.compiler.program import Program, Step
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """An expression that is not yet in a program."""

    op: str
    args: tuple[Sketch, ...]
    attrs: dict[str, Any]
    level: Level | None = None

    def __add__(self, other: Sketch | float) -> Sketch:
        return element("add", self, other)

    def __radd__(self, other: float) -> Sketch:
        return element("add", other, self)

    def __sub__(self, other: Sketch | float) -> Sketch:
        return element("sub", self, other)

    def __rsub__(self, other: float) -> Sketch:
        return element("sub", other, self)

    def __mul__(self, other: Sketch | float) -> Sketch:
        return element("mul", self, other)

    def __rmul__(self, other: float) -> Sketch:
        return element("mul", other, self)

    def __truediv__(self, other: Sketch | float) -> Sketch:
        return element("div", self, other)

    def __rtruediv__(self, other: float) -> Sketch:
        return element("div", other, self)

    def __pow__(self, other: Sketch | float) -> Sketch:
        return element("pow", self, other)

    def __rpow__(self, other: float) -> Sketch:
        return element("pow", other, self)

    def __neg__(self) -> Sketch:
        return element("neg", self)

    def __eq__(self, other: object) -> Sketch:  # type: ignore[override]
        return element("eq", self, _operand(other))

    def __ne__(self, other: object) -> Sketch:  # type: ignore[override]
        return element("ne", self, _operand(other))

    def __lt__(self, other: Sketch | float) -> Sketch:
        return element("lt", self, other)

    def __gt__(self, other: Sketch | float) -> Sketch:
        return element("gt", self, other)

    def __and__(self, other: Sketch | float) -> Sketch:
        return element("and", self, other)

    def __or__(self, other: Sketch | float) -> Sketch:
        return element("or", self, other)

    def __invert__(self) -> Sketch:
        return element("not", self)


def _operand(value: Any) -> Sketch:
    return value if isinstance(value, Sketch) else Sketch("const", (), {"value": float(value)})


def element(op: str, *args: Sketch | float) -> Sketch:
    """Any elementwise operation by its name in `rlspec.compiler.program`."""
    return Sketch(op, tuple(_operand(a) for a in args), {})


def signal(name: str, level: str, kind: str = "real") -> Sketch:
    return Sketch("input", (), {"name": name, "kind": kind}, BY_LABEL[level])


def index(axis: str) -> Sketch:
    return Sketch("index", (), {"axis": axis})


def num(axis: str) -> Sketch:
    return Sketch("num", (), {"axis": axis})


def reduce(fn: str, x: Sketch | float, *axes: str, where: Sketch | None = None, empty: float | None = None) -> Sketch:
    """`fn(x over axes where ...)`; `empty` is what it is over no member."""
    usual = 1.0 if fn == "all" else 0.0
    args = (_operand(x),) if where is None else (_operand(x), where)
    return Sketch("reduce", args, {"fn": fn, "axes": list(axes), "empty": usual if empty is None else empty})


def normalise(
    fn: str, x: Sketch | float, *axes: str, ddof: int = 1, epsilon: float = 1e-6, singleton: str = "zero",
    zero_variance: float = 0.0, align: str = "", missing: str = "absent",
) -> Sketch:  # fmt: skip
    """`zscore`, `center` or `rank` of x over the axes."""
    rules: dict[str, Any] = {"singleton": singleton, "zero_variance": zero_variance, "align": align}
    rules |= {"ddof": ddof, "epsilon": epsilon} if fn == "zscore" else {}
    rules |= {"missing": missing} if align else {}
    return Sketch("normalise", (_operand(x),), {"fn": fn, "axes": list(axes), **rules})


def scan(fn: str, x: Sketch | float, axis: str, discount: Sketch | float = 1.0) -> Sketch:
    return Sketch("scan", (_operand(x), _operand(discount)), {"fn": fn, "axis": axis})


def gae(reward: Sketch | float, value: Sketch | float, axis: str, gamma: Sketch | float, lam: Sketch | float) -> Sketch:
    args = tuple(_operand(a) for a in (reward, value, gamma, lam))
    return Sketch("gae", args, {"axis": axis})


def top(x: Sketch | float, *axes: str, share: float) -> Sketch:
    """1 for this share of x's members over the axes, the largest."""
    return Sketch("top", (_operand(x),), {"axes": list(axes), "share": share})


def lookup(table: str, code: Sketch, values: list[float] | None, size: int | None = None) -> Sketch:
    """A table's value of a code; `size` only where its values are not known yet."""
    found = len(values) if values is not None else size
    return Sketch("lookup", (code,), {"table": table, "size": found, "values": values})


def anneal(start: Sketch | float, end: Sketch | float, over: float, shape: str = "linear") -> Sketch:
    """From start to end over so many steps of training."""
    args = (signal("step", "step"), _operand(start), _operand(end))
    return Sketch("anneal", args, {"over": float(over), "shape": shape})


def program(**outputs: Sketch) -> Program:
    """The program of these results.

    Raises:
        ValueError: an expression that no level fits.
    """
    builder = Builder()
    placed: dict[int, int] = {}

    def place(sketch: Sketch) -> int:
        if id(sketch) not in placed:
            args = tuple(place(a) for a in sketch.args)
            if sketch.op == "const":
                placed[id(sketch)] = builder.const(sketch.attrs["value"])
            elif sketch.op == "input":
                assert sketch.level is not None
                placed[id(sketch)] = builder.input(sketch.attrs["name"], sketch.level, sketch.attrs["kind"])
            else:
                draft = Step(op=sketch.op, args=args, level="const", attrs=sketch.attrs)
                level = level_of(draft, tuple(builder.level(a) for a in args))
                placed[id(sketch)] = builder.apply(sketch.op, *args, level=level, **sketch.attrs)
        return placed[id(sketch)]

    return builder.program({name: place(sketch) for name, sketch in outputs.items()})
