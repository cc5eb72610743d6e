"""Formulas on groups that are sampled again."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import checked, plan_of, replaced
from rlspec.cli.compile import overview
from rlspec.compiler.check import run_tests
from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side

RECOVERY = (Path(__file__).parents[1] / "recovery.rlspec").read_text()


def test_recovery_groups_are_a_source_of_their_own() -> None:
    plan = plan_of(RECOVERY)
    assert [(s.name, s.stage, s.share) for s in plan.sources] == [("desk", None, 1.0), ("fission", "fission", 0.0)]
    assert plan.sources[0].program == plan.sources[1].program
    assert [s.name for s in plan.drawn] == ["desk"]
    assert plan.source_of("desk", "train/3/1/0").stage is None
    assert plan.source_of("desk", "fission/3/1/0").stage == "fission"
    assert "on fission (sampled again on desk)" in overview(plan)
    assert [b.steps for b in plan.budget if b.stage == "fission"] == [10]


def test_formulas_on_a_stage_override_those_of_its_environment() -> None:
    text = replaced(RECOVERY, ("  credit", "  reward R : real@traj on fission = outcome\n  credit"))
    plan = plan_of(text)
    assert [s.ranges["R"] for s in plan.sources] == ["real@traj in [0, 2]", "real@traj in {0, 1}"]
    assert plan.digest != plan_of(RECOVERY).digest
    same = replaced(RECOVERY, ("  credit", "  advantage A : real@traj on fission = std.grpo(R)\n  credit"))
    found = difference(Side("a", plan_of(RECOVERY)), Side("b", plan_of(same)))
    assert found.equal
    found = difference(Side("a", plan_of(RECOVERY)), Side("b", plan))
    assert found.verified
    # without a condition of its own, a recovery failed when its own reward is below the highest
    assert [e.where for e in found.edits] == ["reward.R on fission", "failed.fission on fission"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("  credit", "  reward R : real@traj on train = outcome\n  credit")], "RLC0101"),
        ([("  credit", "  reward R : real@traj on fision = outcome\n  credit")], "RLC0101"),
        ([("within = train", "within = coldstart")], "RLC0504"),
        ([("within = train", "within = trian")], "RLC0101"),
        ([("stage fission", "stage desk")], "RLC0105"),
        ([("  credit", "  reward R : real@traj on fission = outcome\n  reward R : real@traj on fission = 1\n  credit")],
         "RLC0105"),
    ],
)  # fmt: skip
def test_mistakes_with_recovery_groups_are_named(changes: list[tuple[str, str]], code: str) -> None:
    assert code in [d.code for d in checked(replaced(RECOVERY, *changes)).errors]


def test_a_test_is_on_the_recovery_groups() -> None:
    text = replaced(RECOVERY, ("  credit", "  reward R : real@traj on fission = 7 * outcome\n  credit"))
    block = '  test "t" on fission { given.outcome = [1, 0]\n expect x = R == [7, 0] }\n}\n'
    found = checked(text.replace("\n}\n", f"\n{block}"))
    verdicts, mistakes = run_tests(found)
    assert [v.failure for v in verdicts] == [None]
    assert not mistakes


def test_what_failed_is_compared_by_what_it_says_and_not_by_its_name() -> None:
    named = replaced(RECOVERY, ("within = train", "within = train  failed = lost"),
                     ("  credit", "  let lost : bool@traj = outcome == 0\n  credit"))  # fmt: skip
    other = named.replace("lost", "missed")
    a, b, c = (plan_of(t) for t in (named, other, named.replace("outcome == 0", "num(turn) > 9")))
    assert difference(Side("a", a), Side("b", b)).equal
    found = difference(Side("a", a), Side("c", c))
    assert found.verified
    assert [r.where for r in found.rows] == ["failed.fission"]
