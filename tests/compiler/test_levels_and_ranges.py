"""Levels, ranges and types: what the compiler knows of a value before anything runs."""

from __future__ import annotations

import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.levels import Level, finest
from rlspec.compiler.ranges import Range, decided

numbers = st.floats(-100, 100, allow_nan=False)


@st.composite
def ranges_with_member(draw: st.DrawFn) -> tuple[Range, float]:
    low, high = sorted((draw(numbers) + 0.0, draw(numbers) + 0.0))  # no negative zero
    return Range(low, high), draw(st.floats(low, high))


def test_levels_run_from_coarse_to_fine() -> None:
    assert Level.CONST < Level.STEP < Level.GROUP < Level.TRAJ < Level.TURN < Level.TOKEN
    assert finest([Level.TRAJ, Level.TURN, Level.CONST]) is Level.TURN
    assert finest([]) is Level.CONST


@given(ranges_with_member(), ranges_with_member())
def test_arithmetic_of_ranges_contains_the_arithmetic_of_their_members(
    left: tuple[Range, float], right: tuple[Range, float]
) -> None:
    (a, x), (b, y) = left, right
    for reach, value in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (-a, -x), (a.union(b), y)):
        assert reach.low - 1e-6 <= value <= reach.high + 1e-6
    if y != 0:
        quotient = a / b
        assert quotient.low - 1e-6 <= x / y <= quotient.high + 1e-6


@given(ranges_with_member(), st.sampled_from([2.0, 4.0]))
def test_an_even_power_contains_those_of_its_members(ranged: tuple[Range, float], exponent: float) -> None:
    reach, value = ranged
    power = reach.power(Range.of(exponent))
    assert power.low - 1e-6 <= value**exponent <= power.high + 1e-6
    assert power.low >= 0.0


def test_finite_sets_stay_sets() -> None:
    assert (Range.of(0, 1) * Range.of(10)).values == {0, 10}
    assert str(Range.of(0, 1) - Range.of(1)) == "{-1, 0}"


def test_a_set_lies_within_a_larger_set_only() -> None:
    assert Range.of(0, 1).within(Range.of(-1, 0, 1))
    assert not Range(0, 1).within(Range.of(0, 1))
    assert Range.of(0, 1).within(Range(0, 1))


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (-math.inf, 0.0)])
def test_products_with_infinity_and_zero_are_zero_not_nan(low: float, high: float) -> None:
    product = Range(low, high) * Range.of(0)
    assert (product.low, product.high) == (0, 0)


HOLDS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@given(st.sets(st.integers(-3, 3), min_size=1), st.sets(st.integers(-3, 3), min_size=1), st.sampled_from(sorted(HOLDS)))
def test_a_comparison_that_ranges_decide_has_that_answer_for_all_values(a: set[int], b: set[int], op: str) -> None:
    answers = {HOLDS[op](x, y) for x in a for y in b}
    sets = decided(op, Range.of(*map(float, a)), Range.of(*map(float, b)))
    hulls = decided(op, Range(min(a), max(a)), Range(min(b), max(b)))
    assert sets in (None, *(answers if len(answers) == 1 else ()))
    assert hulls in (None, sets)
    if len(a) == len(b) == 1 and op not in ("==", "!="):
        assert sets is not None
