"""Tables that are known after a stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import checked, codes, plan_of, replaced
from rlspec.cli.compile import overview
from rlspec.compiler.binding import tables_of
from rlspec.compiler.check import run_tests
from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side
from rlspec.compiler.spectest import evaluated

CALIBRATED = (Path(__file__).parents[1] / "calibrated.rlspec").read_text()


def test_a_table_is_known_after_its_stage() -> None:
    plan = plan_of(CALIBRATED)
    text = overview(plan)
    assert "calibrate.weight[tier] : known after calibrate" in text
    assert "r : real@turn in [-1, 1]  per sample, after calibrate" in text
    assert ("calibrate/table", "train/scorer", "weights") in [(e.source, e.target, e.what) for e in plan.graph.edges]
    assert [s.policy_from for s in plan.stages] == [None, "coldstart", "coldstart"]
    assert tables_of(plan.sources[0].program) == {"calibrate.weight": 7}


def test_the_table_s_bounds_are_the_stage_s() -> None:
    wider = replaced(CALIBRATED, ("episodes = 64trajs", "scale = 2.5"), ("real@turn in [-1, 1]", "real@turn"))
    assert plan_of(wider).sources[0].ranges["r"] == "real@turn in [-2.5, 2.5]"
    assert "RLC0402" in codes(replaced(CALIBRATED, ("episodes = 64trajs", "scale = 2.5")))


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ([("calibrate.weight[tier]", "calibrate.weight")], "RLC0201", "write `calibrate.weight[tier]`"),
        ([("calibrate.weight[tier]", "calibrate.wieght[tier]")], "RLC0109", "did you mean `weight`?"),
        ([("calibrate.weight[tier]", "calibrat.weight[tier]")], "RLC0101", "did you mean `calibrate`?"),
        ([("calibrate.weight[tier]", "calibrate.weight[outcome]")], "RLC0202", "has a value for each of gold, soft"),
        ([("calibrate.weight[tier]", "tier[tier]")], "RLC0201", "only a table"),
        ([("signal = tier ", "signal = outcome ")], "RLC0505", "which has none"),
        ([("signal = tier ", "signal = tiers ")], "RLC0101", "did you mean `tier`?"),
        ([("signal = tier  outcome = outcome", "signal = tier")], "RLC0203", "`outcome` has no default"),
    ],
)
def test_mistakes_with_tables_are_named(changes: list[tuple[str, str]], code: str, says: str) -> None:
    found = checked(replaced(CALIBRATED, *changes))
    assert code in [d.code for d in found.errors]
    assert any(says in f"{d.message} {d.label}" for d in found.errors)


def test_a_definition_takes_a_table_s_value_and_not_the_table() -> None:
    inside = replaced(CALIBRATED, ("  credit", "  def worth(t : {gold, soft, read, state, msg, err, dup}@turn) : "
                                   "real@turn = calibrate.weight[t]\n  credit"),
                      ("= calibrate.weight[tier]", "= worth(tier)"))  # fmt: skip
    assert "RLC0201" in codes(inside)
    outside = replaced(CALIBRATED, ("  credit", "  def twice(w : real@turn) : real@turn = 2 * w\n  credit"),
                       ("in [-1, 1] = calibrate.weight[tier]", "= twice(calibrate.weight[tier])"))  # fmt: skip
    assert plan_of(outside)


def test_a_table_must_be_found_before_it_is_needed() -> None:
    stage = "  stage calibrate : irc { signal = tier  outcome = outcome  episodes = 64trajs }\n"
    late = replaced(CALIBRATED, (stage, "")).replace("\n}\n", f"\n{stage}}}\n")
    (error,) = checked(late).errors
    assert error.code == "RLC0504"
    assert "comes after `train`" in error.message
    assert late[error.span.start : error.span.stop] == "calibrate.weight"  # type: ignore[union-attr]


def test_one_choice_of_a_table_is_a_number_after_the_stage() -> None:
    text = replaced(CALIBRATED, ("  advantage", "  let g : real = calibrate.weight[gold]\n  advantage"))
    experiment = checked(text).experiment
    assert experiment is not None
    assert evaluated(experiment, "g", [], None) == "real, known after calibrate\ngive calibrate.weight for its value"
    given_weights = "calibrate.weight=[0.7, 0.5, 0, 0, 0, 0, 0]"
    assert evaluated(experiment, "g", [given_weights], None).endswith("= 0.7")


def test_tests_give_tables_by_choice_or_in_order() -> None:
    block = """  test "by choice" {
    given.tier = [gold, err]  given.outcome = 1
    given.calibrate.weight { gold = 1  soft = 0.5  read = 0  state = -0.1  msg = 0  err = -0.1  dup = -0.2 }
    expect rewards = r == [1, -0.1]
  }
  test "in order" {
    given.tier = [[soft], [dup, msg]]  given.outcome = [1, 0]  given.calibrate.weight = [1, 0.5, 0, 0, 0.25, 0, -0.2]
    expect rewards = r == [[0.5], [-0.2, 0.25]]
  }
}
"""
    found = checked(CALIBRATED.replace("\n}\n", f"\n{block}"))
    verdicts, mistakes = run_tests(found)
    assert [v.failure for v in verdicts] == [None, None]
    assert not mistakes


@pytest.mark.parametrize(
    ("given_text", "code"),
    [
        ("given.calibrate.weight = [1, 0]", "RLC0803"),
        ("given.calibrate.weight { gold = 1 }", "RLC0803"),
        ("given.calibrate.weight { golf = 1 }", "RLC0202"),
        ("given.calibrate.weight = [9, 0, 0, 0, 0, 0, 0]", "RLC0401"),
        ("given.tier = [gold]", "RLC0203"),
    ],
)
def test_wrong_and_missing_tables_in_tests_are_named(given_text: str, code: str) -> None:
    signal_text = "" if "tier" in given_text else "given.tier = [gold] "
    block = f'  test "t" {{ {signal_text} {given_text}\n expect x = r == [1] }}\n}}\n'
    _, mistakes = run_tests(checked(CALIBRATED.replace("\n}\n", f"\n{block}")))
    assert [m.code for m in mistakes] == [code]


def test_a_renamed_stage_is_the_same_experiment() -> None:
    a, b = (plan_of(t) for t in (CALIBRATED, CALIBRATED.replace("calibrate", "weigh")))
    found = difference(Side("a", a), Side("b", b))
    assert found.verified
    assert [(e.op, e.path) for e in found.edits] == [("rename", ("stage", "calibrate"))]


def test_other_bounds_of_a_table_are_a_field_s_edit_and_other_weights_another_formula() -> None:
    a = plan_of(CALIBRATED)
    by_hand = "by(tier, gold = 1, soft = 0.5, read = 0.3, state = 0.1, msg = 0, err = -0.1, dup = -0.2)"
    b = plan_of(replaced(CALIBRATED, ("calibrate.weight[tier]", by_hand)))
    found = difference(Side("a", a), Side("b", b))
    assert found.verified
    assert {(e.op, e.path[:2]) for e in found.edits} >= {("formula", ("reward", "r"))}
