"""`extends`: an experiment that is another one with changes, and components that are others with changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import plan_of
from rlspec.compiler.check import Checked, check, check_whole
from rlspec.compiler.plan import Plan
from rlspec.compiler.resolved import resolved_text
from rlspec.compiler.whence import chain, rendered
from rlspec.dsl.diagnostics import Diagnostic, Source, render
from rlspec.dsl.parser import read

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.rlspec"
    path.write_text(SAMPLE)
    return path


def child(folder: Path, body: str, head: str = 'experiment child extends "base.rlspec"', top: str = "") -> Checked:
    path = folder / "child.rlspec"
    path.write_text(f"rlspec = 1\n{top}\n{head} {{\n{body}\n}}\n")
    return check(read(path))


def only(found: Checked) -> Diagnostic:
    assert len(found.errors) == 1, [render(d, found.source) for d in found.errors]
    return found.errors[0]


def stage(plan: Plan, label: str) -> dict[str, object]:
    return next(s.fields for s in plan.stages if s.label == label)


def test_a_child_without_changes_is_its_base_by_another_name(base: Path) -> None:
    plan, original = plan_of(child(base.parent, "")), plan_of(check(read(base)))
    assert plan.name == "child"
    assert plan.model_copy(update={"name": original.name}).digest == original.digest


def test_patches_removals_settings_and_new_declarations(base: Path) -> None:
    body = """
      title = "Slower"
      seed = 3
      patch.stage.train.lr = 1e-5
      remove = [stage.coldstart]
      patch.stage.held_out.after = [train]
      judge second : oracle { on = [desk]  flip = 1% }
      signal other : int@turn in {-1, 0, 1} = second.score
      patch.reward.R : real@traj = outcome - 0.1 * indicator(any(verdict == -1 or other == -1 over turn))
    """
    plan = plan_of(child(base.parent, body))
    assert (plan.title, plan.seed, stage(plan, "train")["lr"]) == ("Slower", 3, 1e-5)
    assert [s.label for s in plan.stages] == ["train", "held_out"]
    assert [j.label for j in plan.judges] == ["turns", "second"]


def test_a_path_that_does_not_exist_is_an_error_with_a_near_name(base: Path) -> None:
    problem = only(child(base.parent, "patch.stage.trian.lr = 1e-5"))
    assert (problem.code, problem.label) == ("RLC0111", "did you mean `train`?")


def test_what_the_base_declares_is_not_declared_again(base: Path) -> None:
    problem = only(child(base.parent, "stage train : grpo { }"))
    assert problem.code == "RLC0105"
    assert "patch.stage.train" in problem.label


def test_mistakes_of_the_base_are_shown_in_its_file(base: Path) -> None:
    base.write_text(SAMPLE.replace("width = 64", "widht = 64"))
    problem = only(child(base.parent, ""))
    assert problem.source is not None
    assert (problem.code, problem.source.path) == ("RLC0104", str(base))
    assert f"{base}:7:" in render(problem)


def test_a_missing_file_is_named_with_a_near_one(base: Path) -> None:
    problem = only(child(base.parent, "", 'experiment child extends "bsae.rlspec"'))
    assert (problem.code, problem.label) == ("RLC0701", "did you mean `base.rlspec`?")


def test_nothing_is_read_from_the_network(base: Path) -> None:
    problem = only(child(base.parent, "", 'experiment child extends "https://example.org/base.rlspec"'))
    assert (problem.code, "network" in problem.message) == ("RLC0701", True)


def test_an_experiment_of_the_same_file_is_extended_by_its_name(tmp_path: Path) -> None:
    text = f"{SAMPLE}\nexperiment hot extends sample {{ patch.stage.train.temperature = 1.2 }}\n"
    found = check(Source("both.rlspec", text))
    assert (plan_of(found).name, stage(plan_of(found), "train")["temperature"]) == ("hot", 1.2)
    wrong = only(check(Source("both.rlspec", text.replace("extends sample", "extends smaple"))))
    assert wrong.code in ("RLC0101", "RLC0110")


def test_two_youngest_experiments_are_one_too_many() -> None:
    text = f"{SAMPLE}\nexperiment a extends sample {{ }}\nexperiment b extends sample {{ }}\n"
    assert "RLC0110" in [d.code for d in check(Source("three.rlspec", text)).errors]


def test_circles_of_files_are_refused(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{one}.rlspec").write_text(f'rlspec = 1\nexperiment {one} extends "{other}.rlspec" {{ }}\n')
    codes = [d.code for d in check(read(tmp_path / "a.rlspec")).errors]
    assert codes.count("RLC0106") == 1


def test_a_circle_within_a_file_ends(tmp_path: Path) -> None:
    text = "rlspec = 1\nexperiment a extends b { }\nexperiment b extends a { }\n"
    assert "RLC0106" in [d.code for d in check(Source("circle.rlspec", text)).errors]


def test_why_names_the_base_its_file_and_line(base: Path) -> None:
    (base.parent / "middle.rlspec").write_text(
        'rlspec = 1\nexperiment middle extends "base.rlspec" { patch.stage.train.lr = 1e-4 }\n'
    )
    found = child(base.parent, "patch.stage.train.lr = 1e-5", 'experiment child extends "middle.rlspec"')
    links = chain(found.composition, "stage.train.lr").links
    assert [link.layer for link in links] == ["schema default", "base base.rlspec", "base middle.rlspec", "spec"]
    assert [link.text for link in links[1:]] == ["3e-4", "1e-4", "1e-5"]
    assert links[1].place == f"{base}:29"
    assert links[3].place.endswith("child.rlspec:4")
    assert "base base.rlspec" in rendered(chain(found.composition, "policy.agent.width"))


def test_paths_are_relative_to_the_file_that_names_them(base: Path) -> None:
    inner = base.parent / "inner"
    inner.mkdir()
    (inner / "middle.rlspec").write_text('rlspec = 1\nexperiment middle extends "../base.rlspec" { }\n')
    assert plan_of(child(base.parent, "", 'experiment child extends "inner/middle.rlspec"')).name == "child"


def test_the_resolved_spec_stands_alone(base: Path) -> None:
    base.write_text(SAMPLE.replace("rlspec = 1\n", "rlspec = 1\ndef half(x : real@traj) : real@traj = x / 2\n"))
    found = child(base.parent, "patch.reward.R : real@traj = half(outcome) + tenth(outcome)",
                  top="def tenth(x : real@traj) : real@traj = half(x) / 5")  # fmt: skip
    plan = plan_of(found)
    assert found.experiment is not None
    text = resolved_text(found.experiment, plan)
    assert "extends" not in text
    assert plan_of(check(Source("elsewhere.rlspec", text))).digest == plan.digest


def test_variants_are_inherited_and_not_checked_again(base: Path) -> None:
    variants = "variant quick { patch.stage.coldstart.batch = 8trajs }\nvariant slow { patch.stage.train.lr = 1e-6 }"
    base.write_text(SAMPLE[: SAMPLE.rindex("}")] + variants + "\n}\n")
    path = base.parent / "child.rlspec"
    path.write_text(
        'rlspec = 1\nexperiment child extends "base.rlspec" { remove = [stage.coldstart]'
        "  patch.stage.held_out.after = [train]  variant slow { patch.stage.train.lr = 1e-7 } }\n"
    )
    assert check_whole(read(path)).errors == []  # `quick` would patch what the child removes
    assert stage(plan_of(check(read(path), variant="slow")), "train")["lr"] == 1e-7
    assert "RLC0111" in [d.code for d in check(read(path), variant="quick").errors]


def test_claims_and_tests_stay_with_the_base(base: Path) -> None:
    base.write_text(SAMPLE[: SAMPLE.rindex("}")] + 'test "t" { given.R = [1, 2]  expect one = R == 1 }\n}\n')
    assert child(base.parent, "").cases == []


# ----------------------------------------------------------------------------------------------------- components


def judged(block: str) -> Checked:
    body = f"{block}\n  signal other : int@turn in {{-1, 0, 1}} = strict.score\n"
    text = SAMPLE[: SAMPLE.rindex("}")] + body + "}\n"
    return check(
        Source("test.rlspec", text.replace("      outcome\n", "      outcome + 0 * sum(other over turn)\n", 1))
    )


def test_a_component_inherits_fields_and_wiring() -> None:
    plan = plan_of(judged("judge strict extends turns { cascade = 50% }"))
    strict = plan.labelled("strict")
    assert (strict.name, strict.fields["flip"], strict.fields["cascade"]) == ("oracle", 0.05, 0.5)
    assert strict.wiring["on"] == ["desk"]


def test_inheritance_follows_what_a_variant_does_to_the_base() -> None:
    text = "judge strict : oracle extends turns { }\n  variant noisy { patch.judge.turns.flip = 20% }"
    body = f"{text}\n  signal other : int@turn in {{-1, 0, 1}} = strict.score\n"
    source = SAMPLE[: SAMPLE.rindex("}")] + body + "}\n"
    source = source.replace("      outcome\n", "      outcome + 0 * sum(other over turn)\n", 1)
    found = check(Source("test.rlspec", source), variant="noisy")
    assert plan_of(found).labelled("strict").fields["flip"] == 0.2
    assert chain(found.composition, "judge.strict.flip").last.layer == "extends"


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("judge strict extends trns { }", "RLC0101"),
        ("judge strict extends strict { }", "RLC0106"),
        ("judge strict : llm extends turns { }", "RLC0103"),
    ],
)
def test_what_cannot_be_extended_is_reported(block: str, code: str) -> None:
    assert code in [d.code for d in judged(block).errors]


def test_a_formula_does_not_extend() -> None:
    text = SAMPLE.replace("credit =", "let z : real@traj extends R = outcome\n  credit =")
    assert "RLC0207" in [d.code for d in check(Source("test.rlspec", text)).errors]
