"""What fits specs that it has never seen: added stages, `add`, `patch.each`, the overlay for laptops."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import Checked, check, check_whole
from rlspec.dsl.parser import read

SPECS = Path(__file__).parents[2] / "specs"
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
        ('stage coach : diagnostician { data = "t.jsonl" }', ["exam", "coach", "train", "again"]),
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


def overlaid(tmp_path: Path, patches: str, added: str = "") -> Checked:
    spec, overlay = tmp_path / "spec.rlspec", tmp_path / "overlay.rlspec"
    spec.write_text(SPEC.replace("ADDED", added or 'note = "as it is"'))
    overlay.write_text(f"rlspec = 1\noverlay o {{ {patches} }}\n")
    return check(read(spec), overlays=[read(overlay)])


def test_each_declaration_of_a_component_is_patched_and_none_is_no_error(tmp_path: Path) -> None:
    found = overlaid(tmp_path, "patch.each.stage.grpo { steps = 3steps }  patch.each.env.tau_bench : shop { }")
    assert [s.fields["steps"] for s in found.plan.stages if s.name == "grpo"] == [3, 3]
    one = overlaid(tmp_path, "patch.each.stage.grpo.kl.coefficient = 0.5")
    assert {s.fields["kl"]["coefficient"] for s in one.plan.stages if s.name == "grpo"} == {0.5}


def test_another_component_takes_the_place_of_each(tmp_path: Path) -> None:
    found = overlaid(tmp_path, "patch.each.user.agenda : static { }")
    assert (found.plan.users[0].name, found.plan.users[0].wiring["serves"]) == ("static", ["desk"])


def test_add_does_not_bring_back_what_a_variant_removed(tmp_path: Path) -> None:
    overlay, spec = tmp_path / "overlay.rlspec", tmp_path / "spec.rlspec"
    overlay.write_text("rlspec = 1\noverlay o { add.stage cold : sft { }  add.stage last : evaluate { } }\n")
    text = SPEC.replace("ADDED", "remove = [stage.start]").replace("stage exam", "stage start : sft { }  stage exam")
    spec.write_text(text)
    without = check(read(spec), variant="v", overlays=[read(overlay)])
    assert [s.label for s in without.plan.stages] == ["exam", "train", "again"]
    assert next(s.label for s in check(read(spec), overlays=[read(overlay)]).plan.stages) == "start"
    child = tmp_path / "child.rlspec"
    child.write_text('rlspec = 1\nexperiment child extends "spec.rlspec" { remove = [stage.start] }\n')
    assert next(s.label for s in check(read(child), overlays=[read(overlay)]).plan.stages) == "exam"
    spec.write_text(text.replace("remove = [stage.start]", "remove = [stage.again]"))  # of another component
    kept = check(read(spec), variant="v", overlays=[read(overlay)])
    assert [s.label for s in kept.plan.stages] == ["start", "exam", "train"]


def test_add_leaves_what_is_there(tmp_path: Path) -> None:
    there = overlaid(tmp_path, "add.stage held_out : evaluate { }  add.stage cold : sft { }")
    assert [s.label for s in there.plan.stages] == ["cold", "exam", "train", "again"]


def test_what_is_given_is_done_only_where_there_is_such_a_declaration(tmp_path: Path) -> None:
    inside = "patch.each.stage.grpo.steps = 3steps  add.stage last : evaluate { }  add.stage cold : sft { }"
    there = overlaid(tmp_path, f"given.stage.grpo {{ given.env.shop {{ {inside} }} }}")
    assert [s.fields["steps"] for s in there.plan.stages if s.name == "grpo"] == [3, 3]
    assert "cold" in {s.label for s in there.plan.stages}
    missing = overlaid(tmp_path, f"given.stage.codegym {{ {inside} }}")
    assert missing.plan.digest == overlaid(tmp_path, 'note = "nothing"').plan.digest


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ("given.stage.codegim { }", "RLC0111"),
        ("given.stage = 3", "RLC0207"),
        ("given.stage { }", "RLC0207"),
        ("given.stage.grpo { patch.each.stage.grpo.stepz = 3 }", "RLC0111"),
        ("patch.each.env = 3", "RLC0111"),
        ("patch.each.env.tau_bunch : shop { }", "RLC0111"),
        ("patch.each.thing.shop { }", "RLC0111"),
        ("patch.each.stage.grpo.stepz = 3", "RLC0111"),
        ("add.stage cold : stf { }", "RLC0111"),
        ("add.stage cold = 3", "RLC0207"),
        ("add cold : sft { }", "RLC0207"),
    ],
)
def test_what_fits_no_spec_is_reported(tmp_path: Path, patch: str, code: str) -> None:
    assert code in {d.code for d in overlaid(tmp_path, patch).diagnostics}


@pytest.mark.parametrize("name", ["mt_grpo_irc", "tarl"])
def test_the_laptop_overlay_fits_a_paper_s_spec_with_all_its_variants(name: str) -> None:
    found = check_whole(read(SPECS / "papers" / f"{name}.rlspec"), overlays=[read(SPECS / "scale" / "laptop.rlspec")])
    assert found.errors == []
    assert found.plan.policy.name == "tiny"
    assert found.plan.stages[0].name == "sft"
    assert "RLC0901" not in {d.code for d in found.diagnostics}, "its numbers are no claims about the paper"
