"""`--patch path=value`: anything that is no param, on every command that composes a spec."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlspec.cli.group import rlc
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import SpecError
from rlspec.dsl.parser import read

MINI = Path(__file__).parents[1] / "mini.rlspec"


def run(*words: str) -> Result:
    return CliRunner().invoke(rlc, list(words))


def test_why_lists_a_patch_behind_everything_else(tmp_path: Path) -> None:
    overlay = tmp_path / "o.rlspec"
    overlay.write_text("rlspec = 1\noverlay o { patch.stage.train.lr = 2e-4 }\n")
    done = run("why", str(MINI), "stage.train.lr", "--patch", "stage.train.lr=1e-5", "--with", str(overlay))
    lines = done.output.splitlines()
    assert lines[0] == "stage.train.lr = 1e-5"
    assert [line.split()[0] for line in lines[1:]] == ["schema", "overlay", "command"]
    assert lines[-1].endswith("--patch stage.train.lr=1e-5")


@pytest.mark.parametrize(
    ("patch", "shown"),
    [
        ("stage.train.steps = 7steps", "7 steps"),
        ("patch.stage.train.steps = 7steps", "7 steps"),
        ("reward.R : real@traj = 2 * outcome - penalty * indicator(any(verdict == -1 over turn))", "2 * outcome"),
        ("judge.turns : oracle { flip = 0 }", "stages"),
    ],
)
def test_compile_takes_patches(patch: str, shown: str) -> None:
    done = run("compile", str(MINI), "--patch", patch)
    assert done.exit_code == 0, done.output
    assert shown in done.output


def test_two_patches_come_in_their_order() -> None:
    done = run("why", str(MINI), "stage.train.lr", "--patch", "stage.train.lr=1e-5", "--patch", "stage.train.lr=2e-5")
    assert done.output.startswith("stage.train.lr = 2e-5")


@pytest.mark.parametrize(
    ("patch", "code"),
    [("stage.trian.lr=1", "RLC0111"), ("stage.train.lr", "RLC0201"), ("seed=1 } overlay b { patch.seed=2", "RLC0201")],
)
def test_a_wrong_patch_is_a_diagnostic(patch: str, code: str) -> None:
    with pytest.raises(SpecError) as refused:
        CliRunner().invoke(rlc, ["compile", str(MINI), "--patch", patch], standalone_mode=False, catch_exceptions=False)
    assert [d.code for d in refused.value.diagnostics] == [code]


def test_eval_and_test_take_patches() -> None:
    done = run("eval", str(MINI), "R", "--patch", "reward.R = 3 * outcome + 0 * sum(verdict over turn) + 0 * penalty")
    assert done.output.startswith("real@traj")
    assert run("test", str(MINI), "--patch", "stage.train.lr=1e-5").exit_code == 0


def test_the_resolved_spec_has_the_value_and_tells_of_the_patch() -> None:
    from rlspec.cli.options import Patch
    from rlspec.cli.run import load_plan

    plan, text = load_plan(MINI, (), None, None, (Patch("stage.train.lr=1e-5"),))  # type: ignore[arg-type]
    assert "# --patch stage.train.lr=1e-5\n" in text
    assert "lr = 1e-05" in text
    again = MINI.parent / "nowhere.rlspec"
    from rlspec.dsl.diagnostics import Source

    found = check(Source(str(again), text))
    assert found.plan is not None
    assert found.plan.digest == plan.digest != check(read(MINI)).plan.digest  # type: ignore[union-attr]
