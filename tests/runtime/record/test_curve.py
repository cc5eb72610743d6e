"""Curves in characters keep the order and the range of their values."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from rlspec.runtime.record.curve import buckets, plot, sparkline

finite = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


def test_a_rising_line():
    assert plot([0, 1, 2, 3], width=4, height=2) == ["3 │  ▃█", "0 │▁▆██"]


def test_a_constant_is_one_line():
    assert plot([0.5, 0.5], plain=True) == ["0.5 |##"]


def test_nothing_finite_is_no_curve():
    assert plot([]) == []
    assert plot([math.nan, math.inf]) == []


@given(finite, st.integers(1, 80))
def test_a_sparkline_has_its_extremes_at_the_extreme_means(values, width):
    means, line = buckets(values, width), sparkline(values, width)
    assert len(line) == min(width, len(values))
    assert line[means.index(min(means))] == "▁"
    assert line[means.index(max(means))] == ("█" if max(means) > min(means) else "▁")


@given(finite, st.integers(1, 80), st.integers(2, 12))
def test_a_higher_value_is_never_drawn_lower(values, width, height):
    means = buckets(values, width)
    lines = plot(values, width, height)
    columns = [line.partition("│")[2].ljust(len(means)) for line in lines]
    heights = [sum(" ▁▂▃▄▅▆▇█".index(line[i]) for line in columns) for i in range(len(means))]
    order = sorted(range(len(means)), key=lambda i: means[i])
    assert [heights[i] for i in order] == sorted(heights)
    assert min(heights) >= 1


@given(st.lists(st.floats(), max_size=50), st.integers(1, 60))
@example([8.9e307, 8.9e307], 1)
@example([1.7e308, -1e292], 2)
@example([5e-324, 0.0], 2)
def test_any_numbers_can_be_drawn(values, width):
    for line in plot(values, width, plain=True):
        assert line.isascii()
