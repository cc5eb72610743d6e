"""When an answer counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.worlds.codegym.comparators import same
from rlspec.runtime.worlds.codegym.problems import Comparator

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("kind", "answer", "reference", "counts"),
    [
        ("exact", 3, 3.0, True),
        ("exact", True, 1, False),
        ("exact", [1, [2]], [1, [2]], True),
        ("exact", [1, 2], [2, 1], False),
        ("exact", "3", 3, False),
        ("close", 0.3000001, 0.3, True),
        ("close", 0.31, 0.3, False),
        ("unordered", [2, 1, 1], [1, 2, 1], True),
        ("unordered", [2, 1], [1, 2, 1], False),
        ("unordered", {"1": 1}, [1], False),
        ("unordered_rows", [[3, 4], [2, 1]], [[1, 2], [4, 3]], True),
        ("unordered_rows", [[1, 2], [1, 2]], [[1, 2]], False),
        ("text", " Yes ", "yes", True),
        ("text", 1, "1", False),
    ],
)
def test_comparators(kind: Any, answer: Any, reference: Any, counts: bool) -> None:
    assert same(Comparator(kind=kind), answer, reference) is counts


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["exact", "close", "unordered", "unordered_rows", "text"]), values, values)
def test_no_answer_raises(kind: Any, answer: Any, reference: Any) -> None:
    assert same(Comparator(kind=kind), answer, reference) in (True, False)
