"""Commands about the meaning of a spec: eval, test and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import HEAVY, loaded_by, rlc

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample.rlspec"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    text = SAMPLE.read_text()
    block = """
  variant small { patch.policy.agent.layers = 2  note = "cheap" }
  variant sparse { patch.reward.R = outcome }
  test "good" { given.outcome = 1  given.verdict = [1, 1]  expect best = R == 1.1 }
  test "sparse" { variant = sparse  given.outcome = 1  expect one = R == 1 }
"""
    path = tmp_path / "spec.rlspec"
    path.write_text(text[: text.rindex("}")] + block + "}\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["test"],
        ["why", "stage.train.lr"],
        ["eval", "R", "--given", "outcome=1", "--given", "verdict=[1]"],
        ["compile", "--variant", "small"],
    ],
)
def test_the_commands_import_nothing_heavy(words: list[str], spec: Path) -> None:
    assert not HEAVY & loaded_by(words[0], spec, *words[1:])


def test_tests_that_hold_end_with_0(spec: Path) -> None:
    done = rlc("test", spec)
    assert (done.returncode, done.stdout) == (0, f"{spec}: 2 of 2 expectations hold\n")


def test_an_expectation_that_fails_ends_with_1_and_its_parts(spec: Path) -> None:
    spec.write_text(spec.read_text().replace("R == 1.1", "R == 1.2"))
    done = rlc("test", spec)
    assert done.returncode == 1
    assert "1 of 2 expectations hold" in done.stdout
    assert "RLC0802" in done.stderr
    assert "R = 1.1" in done.stderr


def test_a_mistake_in_a_test_ends_with_2(spec: Path) -> None:
    spec.write_text(spec.read_text().replace("given.outcome = 1  given", "given.outcme = 1  given"))
    done = rlc("test", spec)
    assert done.returncode == 2
    assert "did you mean `outcome`?" in done.stderr


def test_a_spec_with_an_error_ends_with_2(spec: Path) -> None:
    spec.write_text(spec.read_text().replace("layers = 3", "layerz = 3"))
    done = rlc("test", spec)
    assert done.returncode == 2
    assert "RLC0104" in done.stderr
    assert "Traceback" not in done.stderr


def test_eval_prints_type_and_value(spec: Path) -> None:
    done = rlc("eval", spec, "R", "--given", "outcome=1", "--given", "verdict=[1, -1]")
    assert (done.returncode, done.stdout) == (0, "real@traj in [-0.1, 1.1]\n= 0.95\n")
    done = rlc("eval", spec, "R", "--variant", "sparse")
    assert done.stdout == "real@traj in {0, 1}\ngive outcome for its value\n"


def test_why_prints_the_layers(spec: Path) -> None:
    done = rlc("why", spec, "policy.agent.layers", "--variant", "small")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["policy.agent.layers", "=", "2"]
    assert [line[:-1] for line in lines[2:]] == [["spec", "3"], ["variant", "small", "2"]]
    written = next(n for n, text in enumerate(spec.read_text().splitlines(), 1) if "variant small" in text)
    assert lines[3][-1] == f"{spec}:{written}"


def test_compile_takes_a_variant_and_overlays(spec: Path) -> None:
    overlay = spec.with_name("o.rlspec")
    overlay.write_text("rlspec = 1\noverlay o { patch.stage.train.steps = 7steps }\n")
    done = rlc("compile", spec, "--variant", "small", "--with", overlay)
    assert done.returncode == 0, done.stderr
    assert "7 steps" in done.stdout
    assert done.stdout.splitlines()[0] != rlc("compile", spec, "--with", overlay).stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["compile", "--variant", "smal"], "did you mean `small`?"),
        (["check", "--variant", "smal"], "RLC0101"),
        (["run", "--variant", "smal"], "RLC0101"),
        (["compile", "--with", "nowhere.rlspec"], "RLC0701"),
        (["eval", "Q"], "RLC0101"),
        (["why", "stage.train.lrr"], "did you mean `stage.train.lr`?"),
        (["eval", "R", "--given", "outcome"], "RLC0"),
    ],
)
def test_wrong_words_end_with_2(words: list[str], part: str, spec: Path) -> None:
    done = rlc(words[0], spec, *words[1:], cwd=spec.parent)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr
