"""Steps as text: what one cannot tell from the text of another would be no change in a diff."""

from __future__ import annotations

from typing import Any

import pytest

from rlspec.compiler.formula import call_text


@pytest.mark.parametrize(
    ("op", "attrs", "plain", "text"),
    [
        ("anneal", {"shape": "linear", "over": 1234567}, ["stage.step", "a", "b"], "anneal(a, b, over = 1234567steps)"),
        ("top", {"axes": ["group", "traj"], "share": 0.2000001}, ["x"], "top(x over (group, traj), share = 0.2000001)"),
        ("reduce", {"fn": "mean", "axes": ["turn"], "empty": 0.0}, ["x", "c"], "mean(x over turn where c)"),
        ("reduce", {"fn": "mean", "axes": ["turn"], "empty": -1.0}, ["x"], "mean(x over turn, empty = -1)"),
    ],
)
def test_every_digit_that_counts_is_written(op: str, attrs: dict[str, Any], plain: list[str], text: str) -> None:
    assert call_text(op, attrs, plain) == text
