"""The plain evaluator: what a program means, written to be read and not to be fast.

Every step becomes one list with a number per member of its level; every sum is `math.fsum`, which rounds
once. The generated kernels must agree with this to 1e-9, so a doubt about a formula is settled here.

    evaluate(program, batch)["advantage"]      # one float per member of the output's level

Not-a-number spreads: it is never compared away, so a pool that holds one comes out as all not-a-number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.pools import NEUTRAL, Pool, axis_level, check, pool, pool_of
from rlspec.compiler.program import Program, Step
from rlspec.dsl.annotations import Any, Protocol

Column = list[float]


class Batch(Protocol):
    """What is scored: offsets as in `rlspec.runtime.record.ragged`, and a sequence of numbers per signal."""

    @property
    def group_offsets(self) -> Sequence[int]: ...
    @property
    def turn_offsets(self) -> Sequence[int]: ...
    @property
    def token_offsets(self) -> Sequence[int]: ...
    @property
    def signals(self) -> Mapping[str, Sequence[float]]: ...


def evaluate(program: Program, batch: Batch) -> dict[str, Column]:
    """Every output of the program, one float per member of its level (one for `const` and `step`).

    Raises:
        ValueError: the program is not well formed, or a signal is missing or has another length than its
        level.
    """
    levels = check(program)
    tree = _Tree(batch)
    for wanted in program.inputs:
        size = tree.size(BY_LABEL[wanted.level])
        if wanted.name not in batch.signals:
            raise ValueError(f"the batch brings no signal {wanted.name!r}")
        if len(batch.signals[wanted.name]) != size:
            raise ValueError(f"signal {wanted.name!r} has {len(batch.signals[wanted.name])} values for {size} members")
    columns: list[Column] = []
    for step, level in zip(program.steps, levels, strict=True):
        args = [(columns[a], levels[a]) for a in step.args]
        columns.append(_step(step, level, args, tree, batch))
    return {name: list(columns[at]) for name, at in program.outputs.items()}


class _Tree:
    """The batch's tree as offsets per level: members of level v + 1 below member m are `below[v][m : m +
    2]`."""

    def __init__(self, batch: Batch) -> None:
        groups = len(batch.group_offsets) - 1
        self.below: dict[Level, list[int]] = {
            Level.STEP: [0, groups],
            Level.GROUP: [int(o) for o in batch.group_offsets],
            Level.TRAJ: [int(o) for o in batch.turn_offsets],
            Level.TURN: [int(o) for o in batch.token_offsets],
        }

    def size(self, level: Level) -> int:
        return 1 if level <= Level.STEP else self.below[Level(level - 1)][-1]

    def members(self, scope: Level, at: int, member: Level) -> range:
        """The members of a level below member `at` of the scope; they are neighbours."""
        first, stop = at, at + 1
        for level in range(scope, member):
            first, stop = self.below[Level(level)][first], self.below[Level(level)][stop]
        return range(first, stop)

    def pools(self, pool: Pool) -> list[range]:
        return [self.members(pool.scope, at, pool.member) for at in range(self.size(pool.scope))]

    def lift(self, column: Column, level: Level, to: Level) -> Column:
        """A coarse value repeated for every member of a finer level."""
        if level is to:
            return column
        if level is Level.CONST:
            return column * self.size(to)
        return [column[at] for at in range(self.size(level)) for _ in self.members(level, at, to)]


def _step(step: Step, level: Level, args: list[tuple[Column, Level]], tree: _Tree, batch: Batch) -> Column:
    """One step's column. Arguments come with their levels and are lifted to where they meet."""
    attrs = step.attrs
    match step.op:
        case "const":
            return [float(attrs["value"])]
        case "input":
            return [float(x) for x in batch.signals[attrs["name"]]]
        case "index":
            parent = Level(axis_level(attrs["axis"]) - 1)
            return [float(k) for members in tree.pools(Pool(parent, level)) for k in range(len(members))]
        case "num":
            return [float(len(members)) for members in tree.pools(pool_of((attrs["axis"],)))]
        case "reduce" | "normalise" | "scan" | "gae" | "top":
            members = pool(step).member
            lifted = [tree.lift(column, at, members) for column, at in args]
            return _CROSSING[step.op](attrs, lifted, tree, pool(step))
        case "lookup":
            return [_looked_up(code, attrs) for code in args[0][0]]
        case "anneal":
            lifted = [tree.lift(column, at, level) for column, at in args]
            return [annealed(at, start, end, attrs) for at, start, end in zip(*lifted, strict=True)]
        case _:
            lifted = [tree.lift(column, at, level) for column, at in args]
            return [ELEMENT[step.op](*values) for values in zip(*lifted, strict=True)]


# ------------------------------------------------------------------------------------------------ elementwise


def divide(x: float, y: float) -> float:
    """x / y; over 0 it is 0 where x is 0, else the infinity of x's sign."""
    if y != 0.0:
        return x / y
    return x if x == 0.0 or math.isnan(x) else math.copysign(math.inf, x)


def power(x: float, y: float) -> float:
    """x ** y in IEEE arithmetic: no exceptions, a fractional power of a negative number is not a number."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        return math.inf if x == 0.0 else math.nan


def exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def log(x: float) -> float:
    return math.log(x) if x > 0 or math.isnan(x) else (-math.inf if x == 0.0 else math.nan)


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _sign(x: float) -> float:
    return 1.0 if x > 0 else -1.0 if x < 0 else x


def _smaller(x: float, y: float) -> float:
    return x if x < y or math.isnan(x) else y


def _larger(x: float, y: float) -> float:
    return x if x > y or math.isnan(x) else y


def unbound(attrs: Mapping[str, Any]) -> ValueError:
    """What is wrong with a table that nobody has bound."""
    return ValueError(f"`{attrs['table']}` is known only after its stage has run: bind it first")


def _looked_up(code: float, attrs: Mapping[str, Any]) -> float:
    if attrs["values"] is None:
        raise unbound(attrs)
    known = 0 <= code < attrs["size"] and code == int(code)
    return float(attrs["values"][int(code)]) if known else math.nan


def annealed(step: float, start: float, end: float, attrs: Mapping[str, Any]) -> float:
    """The value of a schedule at a step."""
    share = _smaller(step / float(attrs["over"]), 1.0)
    if attrs["shape"] == "cosine":
        share = (1.0 - math.cos(math.pi * share)) / 2.0
    return start + (end - start) * share


ELEMENT: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": divide,
    "pow": power,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": _sign,
    "exp": exp,
    "log": log,
    "sqrt": _sqrt,
    "cos": lambda x: math.nan if math.isinf(x) else math.cos(x),
    "min2": _smaller,
    "max2": _larger,
    "clip": lambda x, low, high: _smaller(_larger(x, low), high),
    "eq": lambda x, y: float(x == y),
    "ne": lambda x, y: float(x != y),
    "lt": lambda x, y: float(x < y),
    "le": lambda x, y: float(x <= y),
    "gt": lambda x, y: float(x > y),
    "ge": lambda x, y: float(x >= y),
    "and": lambda x, y: float(x != 0.0 and y != 0.0),
    "or": lambda x, y: float(x != 0.0 or y != 0.0),
    "not": lambda x: float(x == 0.0),
    "select": lambda c, x, y: x if c != 0.0 else y,
}


# ------------------------------------------------------------------------------------------------- over pools


def total(values: Sequence[float]) -> float:
    """The sum, rounded once; infinities and overflow give what IEEE addition gives."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def _reduce(attrs: Mapping[str, Any], args: list[Column], tree: _Tree, pool: Pool) -> Column:
    fn = attrs["fn"]
    empty = attrs.get("empty")
    nothing = NEUTRAL[fn] if empty is None else float(empty)
    results = []
    for members in tree.pools(pool):
        kept = [args[0][m] for m in members if len(args) == 1 or args[1][m] != 0.0]
        results.append(_REDUCE[fn](kept) if kept else nothing)
    return results


def _extreme(pick: Callable[[float, float], float]) -> Callable[[Column], float]:
    return lambda values: list(accumulate(values, pick))[-1]


_REDUCE: dict[str, Callable[[Column], float]] = {
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "min": _extreme(_smaller),
    "max": _extreme(_larger),
    "any": lambda values: float(any(x != 0.0 for x in values)),
    "all": lambda values: float(all(x != 0.0 for x in values)),
    "count": lambda values: float(sum(x != 0.0 for x in values)),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def _normalise(attrs: Mapping[str, Any], args: list[Column], tree: _Tree, pool: Pool) -> Column:
    (x,) = args
    results = [math.nan] * len(x)
    if not attrs.get("align"):
        for members in tree.pools(pool):
            for m, value in zip(members, standardised([x[m] for m in members], attrs), strict=True):
                results[m] = value
        return results
    for parents in tree.pools(pool_of(attrs["axes"])):
        rows = [tree.members(Level(pool.member - 1), parent, pool.member) for parent in parents]
        for k in range(max(map(len, rows), default=0)):
            present = [row[k] for row in rows if k < len(row)]
            zeros = len(rows) - len(present) if attrs["missing"] == "zero" else 0
            values = standardised([x[m] for m in present] + [0.0] * zeros, attrs)
            for m, value in zip(present, values[: len(present)], strict=True):
                results[m] = value
    return results


def standardised(values: Column, attrs: Mapping[str, Any]) -> Column:
    """One pool normalised by the rules in the attributes of its step."""
    if any(math.isnan(x) for x in values):
        return [math.nan] * len(values)
    if len(values) == 1:
        return list(values) if attrs["singleton"] == "raw" else [0.0]
    if not values or max(values) == min(values):
        return [float(attrs["zero_variance"])] * len(values)
    if attrs["fn"] == "rank":
        ordered = sorted(values)
        twice = [bisect_left(ordered, x) + bisect_right(ordered, x) - 1 for x in values]
        return [r / (len(values) - 1) - 1.0 for r in twice]
    mean = total(values) / len(values)
    if attrs["fn"] == "center":
        return [x - mean for x in values]
    std = math.sqrt(total([(x - mean) * (x - mean) for x in values]) / (len(values) - int(attrs["ddof"])))
    return [divide(x - mean, std + float(attrs["epsilon"])) for x in values]


def _scan(attrs: Mapping[str, Any], args: list[Column], tree: _Tree, pool: Pool) -> Column:
    x, discount = args
    results = [0.0] * len(x)
    for members in tree.pools(pool):
        carry = 0.0
        for m in reversed(members) if attrs["fn"] == "suffix_sum" else members:
            carry = x[m] + discount[m] * carry
            results[m] = carry
    return results


def _gae(attrs: Mapping[str, Any], args: list[Column], tree: _Tree, pool: Pool) -> Column:
    """Schulman et al. 2016, equation 16, ended by a value of 0."""
    reward, value, gamma, lam = args
    results = [0.0] * len(reward)
    for members in tree.pools(pool):
        carry = following = 0.0
        for m in reversed(members):
            carry = reward[m] + gamma[m] * following - value[m] + gamma[m] * lam[m] * carry
            following = value[m]
            results[m] = carry
    return results


def _top(attrs: Mapping[str, Any], args: list[Column], tree: _Tree, pool: Pool) -> Column:
    (x,) = args
    results = [math.nan] * len(x)
    for members in tree.pools(pool):
        values = sorted((x[m] for m in members), reverse=True)
        count = math.ceil(float(attrs["share"]) * len(values) - 1e-9)
        if any(math.isnan(v) for v in values):
            continue
        for m in members:
            results[m] = float(count > 0 and x[m] >= values[count - 1])
    return results


_CROSSING: dict[str, Callable[[Mapping[str, Any], list[Column], _Tree, Pool], Column]] = {
    "reduce": _reduce,
    "normalise": _normalise,
    "scan": _scan,
    "gae": _gae,
    "top": _top,
}
