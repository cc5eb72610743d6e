"""`use` of files of definitions: lexical scope, circles, and a resolved spec that stands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import plan_of
from rlspec.compiler.check import Checked, check, check_whole
from rlspec.compiler.form import form_of
from rlspec.compiler.resolved import resolved_text
from rlspec.dsl.diagnostics import Diagnostic, Source, render
from rlspec.dsl.parser import read

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SHAPES = """rlspec = 1
def double(x : real@traj) : real@traj = times(x, 2)
def times(x : real@traj, k : real) : real@traj = k * x
"""


def using(folder: Path, formula: str, uses: str = 'use shapes = "shapes.rlspec"', **files: str) -> Checked:
    for name, text in ({"shapes": SHAPES} | files).items():
        (folder / f"{name}.rlspec").write_text(text)
    at = SAMPLE.index("  reward R")
    stop = SAMPLE.index("  advantage A")
    path = folder / "spec.rlspec"
    reward = f"reward R : real@traj = {formula} - 0.1 * indicator(any(verdict == -1 over turn))\n\n"
    path.write_text((SAMPLE[:at] + "  " + reward + SAMPLE[stop:]).replace("rlspec = 1\n", f"rlspec = 1\n{uses}\n"))
    return check(read(path))


def codes(found: Checked) -> list[str]:
    return [d.code for d in found.errors]


def only(found: Checked) -> Diagnostic:
    assert len(found.errors) == 1, [render(d, found.source) for d in found.errors]
    return found.errors[0]


def test_a_definition_of_another_file_means_what_it_says_there(tmp_path: Path) -> None:
    plan = plan_of(using(tmp_path, "shapes.double(outcome)"))
    written = plan_of(using(tmp_path, "2 * outcome", uses=""))
    assert form_of(plan).digest == form_of(written).digest


def test_names_of_the_caller_are_not_seen_inside(tmp_path: Path) -> None:
    shapes = "rlspec = 1\ndef f(x : real@traj) : real@traj = mine(x)\n"
    uses = 'use shapes = "shapes.rlspec"\ndef mine(x : real@traj) : real@traj = x'
    problem = only(using(tmp_path, "shapes.f(outcome)", uses, shapes=shapes))
    assert (problem.code, problem.notes) == ("RLC0107", ("inside `shapes.f`",))


def test_a_name_inside_may_be_one_of_the_callers(tmp_path: Path) -> None:
    shapes = "rlspec = 1\ndef g(x : real@traj) : real@traj = f(x)\ndef f(x : real@traj) : real@traj = 3 * x\n"
    uses = 'use shapes = "shapes.rlspec"\ndef f(x : real@traj) : real@traj = shapes.g(x)'
    plan = plan_of(using(tmp_path, "f(outcome)", uses, shapes=shapes))
    assert form_of(plan).digest == form_of(plan_of(using(tmp_path, "3 * outcome", uses=""))).digest


def test_definitions_of_definitions(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "inner.rlspec").write_text("rlspec = 1\ndef four(x : real@traj) : real@traj = 4 * x\n")
    shapes = 'rlspec = 1\nuse inner = "lib/inner.rlspec"\ndef f(x : real@traj) : real@traj = inner.four(x)\n'
    found = form_of(plan_of(using(tmp_path, "shapes.f(outcome)", shapes=shapes)))
    assert found.digest == form_of(plan_of(using(tmp_path, "4 * outcome", uses=""))).digest


def test_the_resolved_spec_stands_alone(tmp_path: Path) -> None:
    found = using(
        tmp_path, "shapes.double(outcome)", 'use shapes = "shapes.rlspec"\ndef shapes_double(x : real) : real = x'
    )
    assert found.experiment is not None
    text = resolved_text(found.experiment, plan_of(found))
    assert "use " not in text
    assert "def shapes_double_2(" in text
    assert plan_of(check(Source("elsewhere.rlspec", text))).digest == plan_of(found).digest


@pytest.mark.parametrize(
    ("uses", "code"),
    [
        ('use shapes = "shpaes.rlspec"', "RLC0701"),
        ('use std = "shapes.rlspec"', "RLC0105"),
        ('use shapes = "shapes.rlspec"\nuse shapes = "shapes.rlspec"', "RLC0105"),
        ("use shapes = 3", "RLC0207"),
        ('use = "shapes.rlspec"', "RLC0108"),
        ('use shapes = "spec.rlspec"', "RLC0106"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, uses: str, code: str) -> None:
    assert codes(using(tmp_path, "outcome", uses)) == [code]


def test_a_near_file_is_named(tmp_path: Path) -> None:
    assert only(using(tmp_path, "outcome", 'use shapes = "shpaes.rlspec"')).label == "did you mean `shapes.rlspec`?"


def test_files_that_use_each_other_in_a_circle(tmp_path: Path) -> None:
    other = 'rlspec = 1\nuse shapes = "shapes.rlspec"\n'
    problem = only(using(tmp_path, "outcome", shapes='rlspec = 1\nuse other = "other.rlspec"\n', other=other))
    assert problem.code == "RLC0106"
    assert problem.source is not None
    assert problem.source.path == str(tmp_path / "other.rlspec")


def test_an_experiment_is_not_a_file_of_definitions(tmp_path: Path) -> None:
    assert codes(using(tmp_path, "outcome", shapes=SAMPLE)) == ["RLC0102"]


def test_a_misspelt_definition_has_a_near_name(tmp_path: Path) -> None:
    assert only(using(tmp_path, "shapes.duoble(outcome)")).label == "did you mean `shapes.double`?"


def test_syntax_errors_of_a_used_file_are_placed_in_it(tmp_path: Path) -> None:
    problem = only(using(tmp_path, "outcome", shapes="rlspec = 1\ndef f(x : real) : real = * x\n"))
    assert problem.source is not None
    assert (problem.code, problem.source.path) == ("RLC0005", str(tmp_path / "shapes.rlspec"))


# ---------------------------------------------------------------------------------------- files of definitions alone


def test_a_file_of_definitions_is_checked_by_itself() -> None:
    assert check_whole(Source("shapes.rlspec", SHAPES)).diagnostics == []


@pytest.mark.parametrize(
    "definition",
    [
        "def f(x : real@traj, cap : real) : real@traj = clip(x, -cap, cap)",
        "def f(x : real@turn, gamma : real in [0, 1]) : real@turn = suffix_sum(x over turn, discount = gamma)",
        "def f(x : real@traj, k : real) : real@traj in [-1, 1] = clip(k * x, -k, k)",
    ],
)
def test_numbers_that_only_a_caller_knows_are_no_mistake(definition: str) -> None:
    assert check_whole(Source("shapes.rlspec", f"rlspec = 1\n{definition}\n")).diagnostics == []


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ("def f(x : real@turn) : real@traj = x", "RLC0301"),
        ("def f(x : real) : real = y", "RLC0101"),
        ("def f(x : real) : real = f(x)", "RLC0106"),
        ("def f(x : real@traj in [0, 1]) : real@traj in [0, 1] = 2 * x", "RLC0402"),
        ("def f(x : rael) : real = x", "RLC0204"),
        ("def f(x : real) : real = lib.g(x)", "RLC0107"),
    ],
)
def test_what_is_wrong_in_a_body_is_said_before_anybody_calls_it(definition: str, code: str) -> None:
    assert codes(check_whole(Source("shapes.rlspec", f"rlspec = 1\n{definition}\n"))) == [code]
