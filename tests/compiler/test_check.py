"""Checking specs: each mistake gets its code, at its place, with a cure; sound specs compile to a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import Checked, check, settings_of
from rlspec.compiler.plan import Plan
from rlspec.compiler.resolved import resolved_text
from rlspec.compiler.stored import read_plan
from rlspec.dsl.diagnostics import Source, SpecError, render

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SPECS = [*sorted((ROOT / "examples").glob("*.rlspec")), *sorted((ROOT / "specs" / "papers").glob("*.rlspec"))]


def checked(text: str, **settings: str) -> Checked:
    return check(Source("test.rlspec", text), settings_of(settings))


def plan_of(text: str, **settings: str) -> Plan:
    found = checked(text, **settings)
    assert found.plan is not None, [render(d, found.source) for d in found.errors]
    return found.plan


def replaced(old: str, new: str) -> str:
    assert old in SAMPLE, f"the sample no longer says {old!r}"
    return SAMPLE.replace(old, new, 1)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_shipped_specs_compile(path: Path) -> None:
    assert plan_of(path.read_text()).sources


def test_the_quickstart_has_at_most_60_lines() -> None:
    assert len((ROOT / "examples" / "quickstart.rlspec").read_text().splitlines()) <= 60


MISTAKES = {
    "turn-level term in a trajectory reward": ("outcome\n      - 0.1", "outcome + verdict\n      - 0.1", "RLC0301"),
    "sum over the wrong axis": ("sum(verdict over turn where", "sum(verdict over traj where", "RLC0301"),
    "reducer without an axis": ("any(verdict == -1 over turn)", "any(verdict == -1)", "RLC0306"),
    "axis that the value does not vary over": ("      outcome\n", "      sum(outcome over turn)\n", "RLC0303"),
    "unknown axis": ("num(turn)", "num(turns)", "RLC0302"),
    "unknown level": ("verdict : int@turn", "verdict : int@tirn", "RLC0302"),
    "unknown signal": ("      outcome\n", "      outcme\n", "RLC0101"),
    "unknown measure": ("env.verified", "env.verifed", "RLC0109"),
    "unknown judge": ("turns.score", "turnz.score", "RLC0101"),
    "unknown function": ("std.grpo(R)", "std.grppo(R)", "RLC0107"),
    "unknown component": ("env desk : shop", "env desk : shopp", "RLC0103"),
    "unknown field": ("layers = 3", "layerz = 3", "RLC0104"),
    "unknown kind": ("user customer", "usr customer", "RLC0102"),
    "unknown type": ("reward R : real@traj", "reward R : reel@traj", "RLC0204"),
    "condition as a number": ("indicator(any(verdict == -1 over turn))", "any(verdict == -1 over turn)", "RLC0201"),
    "group of one": ("group = 8trajs", "group = 1trajs", "RLC0501"),
    "negative learning rate": ("lr = 3e-4", "lr = -3e-4", "RLC0401"),
    "share above one": ("reveal = 35%", "reveal = 135%", "RLC0401"),
    "another unit": ("max_turns = 16agent_turns", "max_turns = 16tokens", "RLC0305"),
    "text for a number": ("width = 64", 'width = "wide"', "RLC0201"),
    "fraction of a layer": ("layers = 3", "layers = 2.5", "RLC0201"),
    "unknown choice": ("split = test", "split = tset", "RLC0202"),
    "field set twice": ("layers = 3", "layers = 3  layers = 4", "RLC0105"),
    "reward leaves its range": ("in [-0.1, 1.1]", "in [0, 1]", "RLC0402"),
    "missing env": ("  env desk : shop { difficulty = 1  max_turns = 16agent_turns }\n", "", "RLC0502"),
    "missing credit": ("  credit = agent_tokens(A)\n", "", "RLC0502"),
    "credit of an unknown advantage": ("agent_tokens(A)", "agent_tokens(B)", "RLC0101"),
    "two experiments": ("experiment sample {", "experiment other { }\nexperiment sample {", "RLC0110"),
    "no edition": ("rlspec = 1\n", "", "RLC0009"),
    "evaluation of a stage that is not there": ("after = [coldstart, train]", "after = [coldstart, trian]", "RLC0101"),
    "user that serves nobody": ("serves = [desk]", "serves = [dexk]", "RLC0101"),
    "impossible shapes": ("heads = 2", "heads = 3", "RLC0505"),
}


@pytest.mark.parametrize(("old", "new", "code"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_its_code_at_its_line(old: str, new: str, code: str) -> None:
    found = checked(replaced(old, new))
    assert found.plan is None
    hits = [d for d in found.errors if d.code == code]
    assert hits, f"wanted {code}, got:\n" + "\n".join(render(d, found.source) for d in found.diagnostics)
    rendered = render(hits[0], found.source)
    assert rendered.startswith(f"error[{code}]")
    if new.strip() and "experiment" not in new and hits[0].span is not None and code != "RLC0502":
        line, _ = found.source.position(hits[0].span.start)
        changed = next(n for n, text in enumerate(found.source.text.splitlines(), 1) if new.split("\n")[0] in text)
        assert abs(line - changed) <= 3, rendered


def test_many_mistakes_are_reported_at_once() -> None:
    text = replaced("layers = 3", "layerz = 3").replace("lr = 3e-4", "lr = -1").replace("env.verified", "env.verifed")
    codes = {d.code for d in checked(text).errors}
    assert {"RLC0104", "RLC0401", "RLC0109"} <= codes


def test_near_names_are_offered() -> None:
    found = checked(replaced("layers = 3", "layerz = 3"))
    assert any("did you mean `layers`?" in render(d, found.source) for d in found.errors)


def test_a_clip_that_cannot_bind_is_a_warning() -> None:
    found = check(Source("tarl", (ROOT / "specs" / "papers" / "tarl.rlspec").read_text()))
    assert found.plan is not None
    assert [d.code for d in found.diagnostics] == ["RLC0403"]


def test_the_ranges_of_tarl_are_those_of_the_formula_not_of_the_paper() -> None:
    plan = plan_of((ROOT / "specs" / "papers" / "tarl.rlspec").read_text())
    assert plan.sources[0].ranges["R"] == "real@traj in [-5, 11]"
    assert plan.sources[1].ranges["R"] == "real@traj in {0, 10}"


def test_every_source_has_its_own_program() -> None:
    plan = plan_of((ROOT / "specs" / "papers" / "tarl.rlspec").read_text())
    assert [s.env for s in plan.sources] == ["retail", "math"]
    assert {i.name for i in plan.sources[1].program.inputs} == {"outcome"}
    assert [s.share for s in plan.sources] == pytest.approx([0.8, 0.2])


def test_a_param_can_be_set_and_changes_the_digest() -> None:
    text = (ROOT / "specs" / "papers" / "tarl.rlspec").read_text()
    before, after = plan_of(text), plan_of(text, math_share="0.5")
    assert after.sources[1].share == 0.5
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("setting", "code"),
    [({"math_shar": "0.5"}, "RLC0112"), ({"math_share": "2"}, "RLC0401"), ({"math_share": '"x"'}, "RLC0201")],
)
def test_a_wrong_setting_is_refused(setting: dict[str, str], code: str) -> None:
    found = checked((ROOT / "specs" / "papers" / "tarl.rlspec").read_text(), **setting)
    assert found.plan is None
    assert [d.code for d in found.errors] == [code]


def test_a_setting_that_does_not_parse_is_refused() -> None:
    with pytest.raises(SpecError):
        settings_of({"x": "1 +"})


def test_a_ragged_normaliser_must_say_how() -> None:
    text = replaced("advantage A : real@traj = std.grpo(R)", "advantage A : real@turn = R + zscore(verdict over traj)")
    found = checked(text)
    assert [d.code for d in found.errors] == ["RLC0304"]
    pooled = replaced(
        "advantage A : real@traj = std.grpo(R)", "advantage A : real@turn = R + zscore(verdict over (traj, turn))"
    )
    assert plan_of(pooled).sources[0].advantage_level == "turn"


@pytest.mark.parametrize(
    "advantage",
    [
        "std.grpo_center(R)",
        "std.rloo(R)",
        "std.gtpo(verdict, outcome, gamma = 0.9, lambda = 0.3)",
        "std.mt_grpo(verdict, outcome)",
        "R + zscore(verdict over traj align turn, missing = zero)",
        "rank(R over traj)",
        "R + suffix_sum(verdict over turn, discount = 0.9)",
        "if outcome == 1 then R else 0.5 * R",
        "zscore(by_outcome(R, 0.5) over traj)",
    ],
)
def test_advantage_modes_of_the_library_and_of_the_user_compile(advantage: str) -> None:
    level = "turn" if "verdict" in advantage else "traj"
    text = replaced("advantage A : real@traj = std.grpo(R)", f"advantage A : real@{level} = {advantage} + 0 * R")
    text = text.replace("experiment", "def by_outcome(x : real@traj, k : real) : real@traj = k * x\n\nexperiment", 1)
    assert plan_of(text).sources[0].program.outputs["A"]


def test_a_definition_that_calls_itself_is_refused() -> None:
    text = replaced("std.grpo(R)", "loop(R)").replace(
        "experiment", "def loop(x : real@traj) : real@traj = loop(x)\n\nexperiment", 1
    )
    assert [d.code for d in checked(text).errors] == ["RLC0106"]


def test_a_reward_that_reaches_no_advantage_is_an_error() -> None:
    text = replaced("  advantage A", "  reward extra : real@traj = outcome\n\n  advantage A")
    assert [d.code for d in checked(text).errors] == ["RLC0503"]


def test_an_unused_signal_is_a_warning() -> None:
    text = replaced("  # One scalar", "  signal reads : int@traj = env.reads\n\n  # One scalar")
    found = checked(text)
    assert found.plan is not None
    assert [(d.code, d.severity) for d in found.diagnostics] == [("RLC0503", "warning")]


def test_a_constant_reward_is_an_error() -> None:
    text = replaced(
        SAMPLE[SAMPLE.index("  reward R") : SAMPLE.index("  advantage A")],
        "  reward R : real@traj = 0 * outcome\n",
    )
    assert "RLC0404" in [d.code for d in checked(text).errors]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("layers = 3", "layers = 4"),
        ("reveal = 35%", "reveal = 36%"),
        ("- 0.1 * indicator", "- 0.05 * indicator"),
        ("lr = 3e-4", "lr = 4e-4"),
        ("trials = 4trajs", "trials = 5trajs"),
        ("flip = 5%", "flip = 6%"),
        ("demonstrations = 4_000trajs", "demonstrations = 4_001trajs"),
    ],
)
def test_a_changed_number_changes_the_digest(old: str, new: str) -> None:
    assert plan_of(SAMPLE).digest != plan_of(replaced(old, new)).digest


def test_comments_layout_title_and_provenance_do_not_change_the_digest() -> None:
    changed = (
        replaced("layers = 3", 'layers = chosen(3, "fits two cores")')
        .replace("4_000trajs", "4000trajs")
        .replace("A shop assistant that asks before it acts", "Another title")
        .replace("  # One scalar per trajectory", "\n\n  # One number per trajectory")
    )
    assert plan_of(SAMPLE).digest == plan_of(changed).digest


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_resolved_spec_compiles_to_the_same_digest(path: Path) -> None:
    found = check(Source(str(path), path.read_text()))
    assert found.plan is not None
    assert found.experiment is not None
    again = plan_of(resolved_text(found.experiment, found.plan))
    assert again.digest == found.plan.digest


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = plan_of(SAMPLE)
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    assert read_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "rlspec.plan/9"}', "\x00\xff"])
def test_a_broken_plan_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content, encoding="latin-1")
    with pytest.raises(SpecError) as caught:
        read_plan(tmp_path / "plan.json")
    assert caught.value.diagnostics[0].code == "RLC0707"


def test_a_kl_in_the_reward_becomes_part_of_the_program() -> None:
    text = replaced("clip_low = 0.2", "kl.coefficient = 0.01  kl.place = reward  clip_low = 0.2")
    program = plan_of(text).sources[0].program
    assert "kl" in {i.name for i in program.inputs}
