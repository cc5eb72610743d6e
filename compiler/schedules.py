"""Ranges of what follows the training step: exact, because a sum of schedules is checked at their knots.

    w_fmt  = anneal(3, 2, over = 100steps)      in [2, 3]
    w_corr = anneal(2, 3, over = 100steps)      in [2, 3]
    w_fmt * fmt + w_corr * corr                 in [0, 5] for fmt, corr in [0, 1]; intervals alone would say [0, 6]

For any one trajectory such a sum is affine in the schedule between two knots (the steps at which a slope changes), so
it is largest and smallest at a knot. Its range is therefore the union of its ranges at the knots, all schedules taken
at the same step. Where that does not hold (a product of two schedules, a clip, two cosines that end at different steps)
a value keeps the plain interval, which is never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from rlspec.compiler.evaluator import annealed
from rlspec.compiler.ranges import Range
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import dataclass

if TYPE_CHECKING:
    from rlspec.compiler.builder import Value


@dataclass(frozen=True, slots=True)
class Timed:
    """`clocks` are the (shape, over) of the schedules in a value, `at` gives its range at a step."""

    clocks: frozenset[tuple[str, float]]
    at: Callable[[float], Range]


def schedule(start: float, end: float, over: float, shape: str) -> tuple[Range, Timed]:
    """The range of a schedule."""

    def at(step: float) -> Range:
        return Range.of(annealed(step, start, end, {"over": over, "shape": shape}))

    return Range(min(start, end), max(start, end)), Timed(frozenset({(shape, over)}), at)


def combined(reach: Callable[..., Range], operands: Sequence[Value], affine: bool) -> tuple[Range, Timed | None]:
    """The range of an operation on values. `affine`: its result is affine in each operand that follows the step, for
    fixed other ones, and no two of those are multiplied."""
    plain = reach(*[v.range for v in operands])
    if all(v.timed is None for v in operands):
        return plain, None
    timed = [v.timed for v in operands if v.timed is not None]
    clocks = frozenset[tuple[str, float]]().union(*(t.clocks for t in timed))
    if not timed or not affine or not _joint(clocks):
        return plain, None

    @cache
    def at(step: float) -> Range:
        return reach(*(v.range if v.timed is None else v.timed.at(step) for v in operands))

    found = [at(knot) for knot in (0.0, *sorted({over for _, over in clocks}))]
    low, high = min(r.low for r in found), max(r.high for r in found)
    return Range(max(low, plain.low), min(high, plain.high)), Timed(clocks, at)


def _joint(clocks: frozenset[tuple[str, float]]) -> bool:
    """Whether all are affine in one clock between knots: straight lines, or curves of one shape and end."""
    return len(clocks) == 1 or all(shape == "linear" for shape, _ in clocks)
