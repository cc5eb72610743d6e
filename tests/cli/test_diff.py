"""`rlc diff`, `rlc compare` and `rlc digest` as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from command import HEAVY
from rlspec.cli.compare import compare
from rlspec.cli.compile import plan_text
from rlspec.cli.diff import diff
from rlspec.cli.digest import digest
from rlspec.compiler.check import check
from rlspec.compiler.resolved import resolved_text
from rlspec.dsl.diagnostics import Source, SpecError

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample.rlspec"
TARL, MUA = (ROOT / "specs" / "papers" / f"{name}.rlspec" for name in ("tarl", "mua_rl"))


def ran(command: click.Command, *words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.rlspec"
    path.write_text(SAMPLE.read_text().replace("lr = 3e-4", "lr = 4e-4").replace("0.1 * indicator", "0.05 * indicator"))
    return path


def test_the_level_comes_first_then_edits_by_role(other: Path) -> None:
    shown = ran(diff, SAMPLE, other)
    assert shown.exit_code == 1
    first, level, *rest = shown.output.splitlines()
    assert first == f"{SAMPLE} -> {other}"
    assert level.startswith("same graph, other values")
    assert rest.index("reward") < rest.index("optimisation")
    assert "      ~ -0.1 -> -0.05 of any(verdict == -1 over turn)" in rest
    assert "  ~ stage.train.lr  0.0003 -> 0.0004" in rest
    assert "confounded: reward.R changed together with stage.train.lr" in shown.output
    assert "verified" in shown.output


def test_equal_meaning_is_status_0_unless_the_text_was_asked_for(tmp_path: Path) -> None:
    spelt = tmp_path / "spelt.rlspec"
    spelt.write_text(SAMPLE.read_text().replace("lr = 3e-4", "lr = 0.0003"))
    same = ran(diff, SAMPLE, spelt)
    assert (same.exit_code, "refactoring only" in same.output) == (0, True)
    assert ran(diff, SAMPLE, SAMPLE).output.splitlines()[1].startswith("identical")
    assert ran(diff, "--level", "syntax", SAMPLE, spelt).exit_code == 1
    assert ran(diff, "--level", "text", SAMPLE, SAMPLE).exit_code == 0


def test_json_holds_every_edit(other: Path) -> None:
    found = json.loads(ran(diff, "--format", "json", SAMPLE, other).output)
    assert (found["level"], found["equal"], found["verified"]) == ("same graph, other values", False, True)
    assert [(e["path"], e["role"]) for e in found["edits"]] == [
        ("stage.train.lr", "optimisation"), ("reward.R", "reward")]  # fmt: skip
    assert found["edits"][0]["old"] == 3e-4
    assert found["edits"][1]["terms"][0]["sign"] == "~"
    assert found["a"]["value"].startswith("v1:")


def test_markdown_is_a_table(other: Path) -> None:
    shown = ran(diff, "--format", "md", SAMPLE, other).output
    assert "| optimisation | `stage.train.lr` | `0.0003` | `0.0004` |" in shown


def test_assumptions_are_folded_but_named(tmp_path: Path) -> None:
    guess = tmp_path / "guess.rlspec"
    guess.write_text(TARL.read_text().replace("assumed(250steps", "assumed(300steps"))
    folded, shown = ran(diff, TARL, guess), ran(diff, "--assumptions", TARL, guess)
    assert (folded.exit_code, shown.exit_code) == (1, 1)
    assert "~ stage.train.steps" not in folded.output
    assert "only assumed: stage.train.steps" in folded.output
    assert "~ stage.train.steps  250 (assumed) -> 300 (assumed)" in shown.output


def test_plans_and_runs_are_compared_with_specs(tmp_path: Path) -> None:
    found = check(Source(str(SAMPLE), SAMPLE.read_text()))
    assert found.plan is not None
    assert found.experiment is not None
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.json").write_text(plan_text(found.plan))
    (run / "resolved.rlspec").write_text(resolved_text(found.experiment, found.plan))
    assert ran(diff, SAMPLE, run).exit_code == 0
    assert ran(diff, run / "plan.json", run).exit_code == 0
    values = ran(digest, run).output.split()
    assert [v[:3] for v in values] == ["v1:", "g1:"]
    assert ran(digest, SAMPLE).output.split()[2:] == values


def test_a_git_revision_is_compared_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "x.rlspec"
    spec.write_text(SAMPLE.read_text())
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "x.rlspec"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, cwd=tmp_path)
    spec.write_text(SAMPLE.read_text().replace("lr = 3e-4", "lr = 4e-4"))
    shown = ran(diff, "HEAD:x.rlspec", "x.rlspec")
    assert (shown.exit_code, "stage.train.lr" in shown.output) == (1, True)


def test_a_variant_is_named_behind_its_file(tmp_path: Path) -> None:
    spec = tmp_path / "x.rlspec"
    text = SAMPLE.read_text()
    spec.write_text(text[: text.rindex("}")] + "  variant slow { patch.stage.train.lr = 1e-5 }\n}\n")
    shown = ran(diff, spec, f"{spec}#slow")
    assert (shown.exit_code, "~ stage.train.lr  0.0003 -> 1e-05" in shown.output) == (1, True)


@pytest.mark.parametrize("word", ["nothing.rlspec", "HEAD~99999:specs/papers/tarl.rlspec", "-x:y", "nothing.json"])
def test_what_cannot_be_read_is_refused(word: str) -> None:
    done = CliRunner().invoke(diff, ["--", word, str(SAMPLE)])
    assert isinstance(done.exception, SpecError)
    assert {d.code for d in done.exception.diagnostics} == {"RLC0701"}


def test_a_spec_with_errors_is_refused_with_all_of_them(tmp_path: Path) -> None:
    spec = tmp_path / "x.rlspec"
    spec.write_text(SAMPLE.read_text().replace("layers = 3", "layerz = 3").replace("env.verified", "env.verifed"))
    done = subprocess.run([sys.executable, "-m", "rlspec.cli.main", "diff", str(SAMPLE), str(spec)],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 2
    assert "RLC0104" in done.stderr
    assert "RLC0109" in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_is_a_matrix_by_role() -> None:
    table = ran(compare, TARL, MUA).output
    assert all(word in table for word in ("tarl", "mua_rl", "policy", "reward", "Qwen/Qwen3-8B", "train: 512 x 250"))
    rows = json.loads(ran(compare, "--fields", "--format", "json", TARL, MUA).output)["rows"]
    assert {"role": "optimisation", "what": "stage.train.group", "cells": {"tarl": [4], "mua_rl": [8]}} in rows
    assert ran(compare, "--format", "md", TARL, MUA).output.startswith("| | tarl | mua_rl |")


def test_these_commands_import_nothing_heavy(other: Path) -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\n"
        "from rlspec.cli.diff import diff\nfrom rlspec.cli.compare import compare\n"
        "from rlspec.cli.digest import digest\n"
        f"for command in (diff, compare, digest):\n    CliRunner().invoke(command, [{str(SAMPLE)!r}, {str(other)!r}])\n"
        f"print('HEAVY', sorted({set(HEAVY)!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "HEAVY []" in done.stdout, done.stdout + done.stderr
