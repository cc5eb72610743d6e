"""The spec of MT-GRPO + IRC: what its versions confound, where its calibration stands, the estimators' numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.diff import diff
from rlspec.compiler.check import check, check_whole
from rlspec.dsl.parser import read

SPEC = Path(__file__).parents[2] / "specs" / "papers" / "mt_grpo_irc.rlspec"


def test_the_spec_with_all_variants_claims_and_tests_has_nothing_to_say():
    assert check_whole(read(SPEC)).diagnostics == []


@pytest.mark.parametrize(
    ("one", "other", "aims", "means"),
    [
        ("v5", "v6", {"reward.r"}, {"stage.train.lr", "stage.train.kl.coefficient"}),
        ("v6", "v7", {"advantage.A"}, {"stage.train.lr", "stage.train.kl.coefficient"}),
        ("sparse", "v5", {"reward.R", "advantage.A"}, {"stage.train.lr", "stage.train.kl.coefficient"}),
    ],
)
def test_versions_that_change_rewards_and_optimisation_together_are_flagged(one, other, aims, means):
    output = CliRunner().invoke(diff, [f"{SPEC}#{one}", f"{SPEC}#{other}"]).output
    (line,) = [line for line in output.splitlines() if line.startswith("confounded: ")]
    left, _, right = line.partition(" changed together with ")
    assert all(name in left for name in aims)
    assert all(name in right for name in means)


def test_the_naive_table_alone_is_not_confounded():
    assert "confounded" not in CliRunner().invoke(diff, [str(SPEC), f"{SPEC}#naive_dense"]).output


def test_the_table_is_found_before_it_is_trained_with():
    plan = check(read(SPEC), variant="calibrated").plan
    assert [stage.label for stage in plan.stages] == ["calibrate", "train", "exam"]
    assert plan.stages[1].policy_from is None
