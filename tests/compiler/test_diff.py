"""Diffs: they name what changed and nothing else, in the words of both authors, and prove themselves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_module import bench_module
from rlspec.compiler.diff import Difference, difference
from rlspec.compiler.digests import Side, side_of
from rlspec.compiler.edits import apply
from rlspec.compiler.matrix import fields, summary
from rlspec.dsl import parser
from rlspec.dsl.diagnostics import Source, SpecError

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
PAPERS = {p.stem: p.read_text() for p in sorted((ROOT / "specs" / "papers").glob("*.rlspec"))}
TARL, MUA = PAPERS["tarl"], PAPERS["mua_rl"]


rewrites = bench_module("language/rewrites")


def side(text: str) -> Side:
    return side_of(Source("test.rlspec", text))


def replaced(*pairs: tuple[str, str], text: str = SAMPLE) -> str:
    for old, new in pairs:
        assert old in text, f"the text no longer says {old!r}"
        text = text.replace(old, new, 1)
    return text


def diff(*pairs: tuple[str, str], text: str = SAMPLE) -> Difference:
    found = difference(side(text), side(replaced(*pairs, text=text)))
    assert found.verified
    return found


def lines(found: Difference) -> list[tuple[str, str]]:
    (row,) = found.rows
    assert row.edit.change is not None
    return row.edit.change.lines()


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("lr = 3e-4", "lr = 3e-4", "identical"),
        ("lr = 3e-4", "lr   =   3e-4  # fast\n", "formatting only"),
        ("lr = 3e-4", "lr = 0.0003", "refactoring only"),
        ("lr = 3e-4", "lr = 4e-4", "same graph, other values"),
        ("0.1 * indicator", "0.2 * indicator", "same graph, other values"),
        ("stage train", "stage learn", "other graph"),
        ("std.grpo(R)", "std.rloo(R)", "other graph"),
    ],
)
def test_the_first_level_that_differs(old: str, new: str, level: str) -> None:
    text = replaced(("in [-0.1, 1.1]", ""))
    pairs = [(old, new)] + ([("[coldstart, train]", "[coldstart, learn]")] if "learn" in new else [])
    found = diff(*pairs, text=text)
    assert found.level == ("same graph, other values" if "learn" in new else level)
    assert found.equal == (level in ("identical", "formatting only", "refactoring only"))


def test_a_changed_field_is_one_edit_with_both_values() -> None:
    (row,) = diff(("lr = 3e-4", "lr = 4e-4")).rows
    assert (row.where, row.role, row.edit.old, row.edit.new) == ("stage.train.lr", "optimisation", 3e-4, 4e-4)


@pytest.mark.parametrize(
    ("old", "new", "role"),
    [
        ("width = 64", "width = 32", "policy"), ("difficulty = 1", "difficulty = 0", "env"),
        ("reveal = 35%", "reveal = 36%", "user"), ("flip = 5%", "flip = 6%", "judge"),
        ("0.1 * indicator", "0.05 * indicator", "reward"), ("std.grpo(R)", "std.grpo_center(R)", "advantage"),
        ("group = 8trajs", "group = 4trajs", "optimisation"), ("steps = 200steps", "steps = 100steps", "budget"),
        ("  policy agent", "  seed = 3\n  policy agent", "optimisation"),
        ("  policy agent", "  engine e : hf { }\n  resources r : machine { workers = 1 }\n  policy agent", "budget"),
    ],
)  # fmt: skip
def test_edits_have_the_role_that_they_concern(old: str, new: str, role: str) -> None:
    rows = [r for r in diff((old, new)).rows if r.edit.op != "rename"]
    assert [r.role for r in rows] == [role]


def test_a_sum_changes_by_terms() -> None:
    weighted = diff(("0.1 * indicator", "0.05 * indicator"))
    assert lines(weighted) == [("~", "-0.1 -> -0.05 of any(verdict == -1 over turn)")]
    removed = diff(("      - 0.1 * indicator(any(verdict == -1 over turn))\n", ""))
    assert lines(removed) == [("-", "-0.1 * indicator(any(verdict == -1 over turn))")]
    added = diff(
        ("      outcome\n", "      outcome + 0.05 * indicator(all(verdict == 1 over turn))\n"), ("in [-0.1, 1.1]", "")
    )
    assert lines(added) == [("+", "0.05 * indicator(all(verdict == 1 over turn))")]


def test_a_change_inside_a_term_is_told_by_its_smallest_part() -> None:
    found = diff(("verdict == -1 over turn", "verdict == 1 over turn"))
    assert lines(found) == [("~", "-1 -> 1  in verdict == -1")]
    clip = diff(("-5, 5)", "-5, 4)"), text=TARL)
    assert [(r.where, lines(clip)[0][1].split("  in ")[0]) for r in clip.rows] == [("reward.R on retail", "5 -> 4")]


def test_a_normalisers_rules_are_part_of_the_formula() -> None:
    found = diff(("std.grpo(R)", "zscore(R over traj, ddof = 0, epsilon = 1e-6)"))
    assert lines(found)[0][1].startswith("ddof = 1 -> ddof = 0")


def test_what_all_environments_share_is_said_once_and_else_by_environment() -> None:
    both = diff(("std.grpo(R)", "std.rloo(R)"), text=TARL)
    assert [r.where for r in both.rows] == ["advantage.A"]
    one = diff(("R : real@traj in {0, 10} on math = outcome_scale * outcome",
                "R : real@traj in {0, 5} on math = 5 * outcome"), text=TARL)  # fmt: skip
    assert [r.where for r in one.rows] == ["reward.R on math"]


def test_a_param_that_is_used_twice_changes_both_places() -> None:
    found = diff(("reported(10, ", "reported(9, "), ("{0, 10}", "{0, 9}"), text=TARL)
    assert {r.where for r in found.rows} == {"reward.R on retail", "reward.R on math"}


def test_renamed_parts_are_renames_and_nothing_else() -> None:
    text = (
        SAMPLE.replace("desk", "shopfloor").replace("judge turns", "judge watch").replace("turns.score", "watch.score")
    )
    text = text.replace("coldstart", "warm").replace("verdict", "mark").replace("reward R", "reward Q")
    found = difference(side(SAMPLE), side(text.replace("grpo(R)", "grpo(Q)")))
    assert found.verified
    assert {(r.edit.op, r.where, r.edit.new) for r in found.rows} == {
        ("rename", "env.desk", "shopfloor"), ("rename", "judge.turns", "watch"), ("rename", "stage.coldstart", "warm"),
        ("rename", "signal.verdict", "mark"), ("rename", "reward.R", "Q"),
    }  # fmt: skip


def test_parts_that_come_and_go_are_one_edit_each() -> None:
    found = diff(("  stage coldstart : sft { demonstrations = 4_000trajs  batch = 32trajs  lr = 4e-3 }\n", ""),
                 ("[coldstart, train]", "[train]"))  # fmt: skip
    assert [(r.edit.op, r.where) for r in found.rows] == [
        ("set", "stage.held_out.after"), ("remove", "stage.coldstart")]  # fmt: skip
    other = diff(("agenda { serves = [desk]  reveal = 35%  changes_mind = 70% }", 'llm { model = "gpt-4" }'))
    (row,) = other.rows
    assert (row.where, row.edit.old["user"], row.edit.new["user"]) == ("user.customer", "agenda", "llm")


def test_a_new_environment_is_told_without_what_it_shares() -> None:
    desk = "  env desk : shop { difficulty = 1  max_turns = 16agent_turns }\n"
    found = diff(
        (desk, desk + "  env b : shop { difficulty = 2 }\n  mix tasks { desk = 0.5  b = 0.5 }\n"),
        ("serves = [desk]", "serves = [desk, b]"),
        ("on = [desk]", "on = [desk, b]"),
    )
    assert {r.where for r in found.rows if r.role not in ("user", "judge")} == {"mix.desk", "env.b"}


def test_stages_in_another_order_are_one_edit() -> None:
    stage = SAMPLE[SAMPLE.index("  stage held_out") : SAMPLE.rindex("}")]
    text = SAMPLE.replace(stage, "").replace("  stage train", stage + "  stage train")
    (row,) = difference(side(SAMPLE), side(text)).rows
    assert (row.where, row.edit.new) == ("stages", ["coldstart", "held_out", "train"])


def test_two_papers_are_aligned_by_role() -> None:
    found = difference(side(TARL), side(MUA))
    assert found.verified
    assert ("env.retail", "desk") in {(r.where, r.edit.new) for r in found.rows if r.edit.op == "rename"}
    paths = {r.where for r in found.rows}
    assert {
        "policy.agent.model",
        "user.customer.model",
        "judge.turns",
        "stage.train.group",
        "reward.R on math",
    } <= paths


@pytest.mark.parametrize("first", PAPERS)
@pytest.mark.parametrize("second", PAPERS)
def test_every_diff_of_two_papers_verifies(first: str, second: str) -> None:
    found = difference(side(PAPERS[first]), side(PAPERS[second]))
    assert found.verified
    assert found.equal == (first == second) == (not found.edits)


def test_an_incomplete_list_of_edits_is_not_believed() -> None:
    a, b = side(TARL), side(MUA)
    edits = difference(a, b).edits
    for left_out in edits:
        rest = [e for e in edits if e is not left_out]
        assert apply(a.form, rest).digest != b.form.digest, left_out.where


def test_confounded_changes_are_named() -> None:
    found = diff(("0.1 * indicator", "0.05 * indicator"), ("lr = 3e-4", "lr = 1e-4"), ("trials = 4", "trials = 8"))
    assert found.confounded is not None
    assert (found.confounded.aims, found.confounded.means) == (("reward.R",), ("stage.train.lr",))
    assert diff(("0.1 * indicator", "0.05 * indicator")).confounded is None
    assert diff(("lr = 3e-4", "lr = 1e-4"), ("trials = 4", "trials = 8")).confounded is None


def test_provenance_and_statements_are_kept_apart_from_meaning() -> None:
    found = diff(("assumed(250steps, ", "reported(250steps, "), ('title = "TARL', 'title = "TARL again'), text=TARL)
    assert found.equal
    assert [where for where, _, _ in found.provenance] == ["stage.train.steps"]
    assert [what for what, _, _ in found.stated] == ["title"]
    changed = diff(("assumed(250steps, ", "assumed(300steps, "), text=TARL)
    assert [(r.where, r.assumed) for r in changed.rows] == [("stage.train.steps", True)]


def test_a_spec_and_its_own_plan_mean_the_same() -> None:
    spec = side(TARL)
    found = difference(spec, Side("plan.json", spec.plan))
    assert (found.equal, found.level, found.edits) == (True, "identical", [])


def test_a_variant_is_compared_with_its_base() -> None:
    text = SAMPLE[: SAMPLE.rindex("}")] + "  variant slow { patch.stage.train.lr = 1e-5 }\n}\n"
    base, slow = side(text), side_of(Source("test.rlspec", text), variant="slow")
    found = difference(base, slow)
    assert ([r.where for r in found.rows], found.level) == (["stage.train.lr"], "same graph, other values")


@pytest.mark.parametrize("name", PAPERS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_single_change_alters_the_digest_and_is_named_exactly(name: str, seed: int) -> None:
    text, rng = PAPERS[name], random.Random(seed)
    site = rng.choice(rewrites.sites(parser.parse(Source("x", text))[0]))
    new = rewrites.changed(text, site, rng)
    try:
        other = side(new)
    except SpecError:
        return  # outside of a field's range
    if new != text:
        found = difference(side(text), other)
        assert not found.equal
        assert {row.where for row in found.rows} == site.paths
        assert found.verified


def test_experiments_side_by_side() -> None:
    sides = [side(TARL), side(MUA)]
    rows = {r.what: r for r in summary(sides)}
    assert rows["policy"].cells[0][0]["model"] == "Qwen/Qwen3-8B"
    assert rows["judge"].cells[1] == ()
    assert rows["reward"].cells[1] == ("R = indicator(env.db_hash == env.reference_hash)",)
    assert "train: 512 x 250" in rows["trajectories"].cells[0]
    assert "train: 256 x 129" in rows["trajectories"].cells[1]
    leaves = {r.what: r.cells for r in fields(sides)}
    assert leaves["stage.train.group"] == ((4,), (8,))
    assert "stage.train.lr" not in leaves
    assert "stage.train.lr" in {r.what for r in fields(sides, everything=True)}
