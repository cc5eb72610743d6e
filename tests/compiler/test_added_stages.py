"""Where a stage stands that a variant or an overlay adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import check
from rlspec.dsl.parser import read

SPEC = """rlspec = 1
experiment bare {
  policy agent : tiny { width = 32  layers = 2 }
  env desk : shop { }
  user customer : agenda { serves = [desk] }
  judge tiers : tiers { on = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
  let first : int@traj in {0, 1} = indicator(any(tier == gold over turn))
  reward R : real@traj = outcome + 0 * first
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage exam : evaluate { }
  stage train : grpo { }
  stage again : grpo { }
  variant v { ADDED }
}
"""


@pytest.mark.parametrize(
    ("added", "order"),
    [
        ("stage cold : sft { }", ["cold", "exam", "train", "again"]),
        ("stage found : irc { signal = tier  outcome = outcome }", ["exam", "found", "train", "again"]),
        (
            "stage found : irc { signal = tier  outcome = outcome }  stage cold : sft { }",
            ["cold", "exam", "found", "train", "again"],
        ),
        ("stage last : evaluate { }", ["exam", "train", "again", "last"]),
        ("stage third : grpo { }", ["exam", "train", "again", "third"]),
    ],
)
def test_an_added_stage_stands_where_it_makes_sense(tmp_path: Path, added: str, order: list[str]) -> None:
    path = tmp_path / "spec.rlspec"
    path.write_text(SPEC.replace("ADDED", added))
    in_variant = check(read(path), variant="v")
    assert in_variant.plan is not None, in_variant.errors
    assert [stage.label for stage in in_variant.plan.stages] == order
    overlay = tmp_path / "overlay.rlspec"
    overlay.write_text(f"rlspec = 1\noverlay o {{ {added} }}\n")
    with_overlay = check(read(path), overlays=[read(overlay)])
    assert with_overlay.plan is not None, with_overlay.errors
    assert [stage.label for stage in with_overlay.plan.stages] == order
