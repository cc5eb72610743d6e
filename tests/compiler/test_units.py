"""Units in formulas and params."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import checked

RECOVERY = (Path(__file__).parents[1] / "recovery.rlspec").read_text()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("num(turn) > 30turns", "agent_turns and turns cannot be compared"),
        ("num(turn) + sum(num(token) over turn)", "agent_turns and tokens cannot be added"),
        ("max(num(turn), 30tokens)", "agent_turns and tokens cannot be compared"),
        ("clip(num(turn), 1agent_turns, 5tasks)", "agent_turns and tasks cannot be compared"),
        ("if outcome == 1 then 3steps else 4tokens", "steps and tokens cannot be taken for each other"),
        ("num(turn) in {1agent_turns, 2tokens}", "agent_turns and tokens cannot be compared"),
        ("num(turn) - 3tunrs", "unknown unit `tunrs`"),
        ("anneal(1, 0, over = 30turns)", "`over` counts steps, not turns"),
        ("num(turn) - longest", "agent_turns and tokens cannot be added"),
    ],
)
def test_units_that_do_not_mix_are_refused(expression: str, says: str) -> None:
    text = RECOVERY.replace("  credit", f"  param longest : int = 30tokens\n  let wrong = {expression}\n  credit")
    assert [d.message for d in checked(text).errors if d.code == "RLC0305"] == [says]


@pytest.mark.parametrize(
    "expression",
    [
        "num(turn) > 30agent_turns",
        "num(turn) - index(turn) + 1",
        "0.01 * num(turn) + 0.001 * sum(num(token) over turn)",
        "clip(num(turn) / 30agent_turns, 0, 1) + outcome",
        "sum(num(token) over turn) > longest",
        "min(num(turn), longest / 10tokens)",
        "35% * outcome",
        "stage.step < 10steps",
    ],
)
def test_numbers_without_a_unit_take_the_other_s_and_rates_have_none(expression: str) -> None:
    text = RECOVERY.replace("  credit", f"  param longest : int = 300tokens\n  let right = {expression}\n  credit")
    assert not checked(text).errors


@pytest.mark.parametrize("value", ["3steps * 2tokens", "3steps / 2tokens", "3steps + 2tokens", "3steps + 2"])
def test_units_of_params_do_not_mix_either(value: str) -> None:
    text = RECOVERY.replace("  credit", f"  param x : real = {value}\n  credit")
    assert "RLC0305" in [d.code for d in checked(text).errors]
