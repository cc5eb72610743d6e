"""Schedules over the steps of a stage: their ranges are exact, their mistakes named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checking import checked, codes, plan_of
from rlspec.cli.compile import overview
from rlspec.compiler.spectest import evaluated

RECOVERY = (Path(__file__).parents[1] / "recovery.rlspec").read_text()


def test_a_sum_of_schedules_has_its_exact_range() -> None:
    plan = plan_of(RECOVERY)
    assert plan.sources[0].ranges["R"] == "real@traj in [0, 2]"
    assert "anneal(3, 2, over = 40steps) : known per step" in overview(plan)
    assert [s.measure for s in plan.sources[0].signals if s.level == "step"] == ["stage.step"]


@pytest.mark.parametrize(
    ("expression", "reach"),
    [
        ("w_fmt", "[2, 3]"),
        ("w_fmt + w_corr", "[5, 5]"),
        ("w_fmt - w_fmt", "[0, 0]"),
        ("w_fmt * outcome + w_corr * (1 - outcome)", "[0, 5]"),
        ("w_fmt * w_corr", "[4, 9]"),  # a product: the plain interval
        ("6 / w_fmt", "[2, 3]"),
        ("w_fmt * outcome / 2", "[0, 1.5]"),
        ("-w_fmt * outcome", "[-3, 0]"),
        ("if outcome == 1 then w_fmt else w_corr", "[2, 3]"),
        ("mean(w_fmt * verdict + w_corr * verdict over turn)", "[-5, 5]"),
        ("anneal(0, 1) + anneal(1, 0)", "[1, 1]"),
        ("anneal(0, 1, over = 10) + anneal(1, 0, over = 20)", "[1, 1.5]"),
        ("anneal(0, 1, shape = cosine) + anneal(1, 0, shape = cosine)", "[1, 1]"),
        ("anneal(0, 1, over = 10, shape = cosine) + anneal(1, 0, over = 20, shape = cosine)", "[0, 2]"),
        ("clip(w_fmt, 0, 2.5) + w_corr", "[4, 5.5]"),
        ("w_fmt * sum(verdict over turn where verdict in {0, 1}) / num(turn)", "[0, 3]"),
        ("std.tarl(outcome, verdict, major_penalty = anneal(0, 5))", "[-5, 11]"),
    ],
)
def test_ranges_of_schedules(expression: str, reach: str) -> None:
    experiment = checked(RECOVERY).experiment
    assert experiment is not None
    assert evaluated(experiment, expression, [], None).split("\n")[0].partition(" in ")[2].startswith(reach)


ENDS = st.integers(-4, 4)


@settings(max_examples=40, deadline=None)
@given(
    terms=st.lists(st.tuples(ENDS, ENDS, st.integers(1, 30), st.sampled_from(["outcome", "fmt", "1", "verdict"])),
                   min_size=1, max_size=3),
    step=st.integers(0, 60), outcome=st.integers(0, 1), verdicts=st.lists(st.integers(-1, 1), min_size=1, max_size=3),
)  # fmt: skip
def test_no_value_of_a_schedule_lies_outside_of_its_range(
    terms: list[tuple[int, int, int, str]], step: int, outcome: int, verdicts: list[int]
) -> None:
    experiment = EXPERIMENT
    text = " + ".join(f"anneal({a}, {b}, over = {n}) * {x}" for a, b, n, x in terms)
    givens = [f"step={step}", f"outcome={outcome}", f"verdict={verdicts}"]
    described, _, shown = evaluated(experiment, f"sum({text} + 0 * verdict over turn) / num(turn)", givens, None
                                    ).partition("\n= ")  # fmt: skip
    low, high = described.partition(" in [")[2].partition("]")[0].split(", ")
    assert float(low) - 1e-9 <= float(shown) <= float(high) + 1e-9


EXPERIMENT = checked(RECOVERY).experiment
assert EXPERIMENT is not None


def test_without_over_a_schedule_ends_with_its_training_stage() -> None:
    experiment = checked(RECOVERY).experiment
    assert experiment is not None
    assert evaluated(experiment, "anneal(0, 1)", ["step=59"], None).endswith("= 1")
    assert evaluated(experiment, "anneal(0, 59)", ["stage.step=1"], None).endswith("= 1")
    two = RECOVERY.replace("over = 40steps", "shape = linear").replace(
        "  stage fission", "  stage more : grpo { steps = 9steps }\n  stage fission"
    )
    assert codes(two).count("RLC0205") >= 1


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("anneal(1, outcome)", "RLC0206"),
        ("anneal(1)", "RLC0205"),
        ("anneal(1, 2, 3)", "RLC0205"),
        ("anneal(1, 2, over = 0)", "RLC0401"),
        ("anneal(1, 2, shape = bent)", "RLC0202"),
        ("anneal(1, 2, slope = 3)", "RLC0205"),
        ("top(policy.entropy, share = 20%)", "RLC0306"),
        ("top(policy.entropy over token, share = 120%)", "RLC0401"),
        ("top(policy.entropy over token)", "RLC0205"),
        ("top(policy.entropy over (group, token), share = 0.2)", "RLC0302"),
        ("top(outcome over turn, share = 0.2)", "RLC0303"),
        ("policy.entrpy", "RLC0109"),
        ("stage.stop", "RLC0101"),
        ("std.tarl(outcome, verdict, process_cap = anneal(0, 5))", "RLC0301"),
    ],
)
def test_mistakes_with_schedules_shares_and_measures_are_named(expression: str, code: str) -> None:
    text = RECOVERY.replace("  credit", f"  let wrong = {expression}\n  credit")
    assert code in [d.code for d in checked(text).errors]
