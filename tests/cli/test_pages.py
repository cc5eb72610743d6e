"""`rlc doc`, and the HTML of `rlc diff` and `rlc compare`, as users type them."""

from __future__ import annotations

import json
import re
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
from rlspec.cli.doc import doc
from rlspec.cli.graph import graph
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.runtime.logs import fitting
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory

ROOT = Path(__file__).parents[2]
TARL, MUA = (ROOT / "specs" / "papers" / f"{name}.rlspec" for name in ("tarl", "mua_rl"))
MINI = (ROOT / "tests" / "mini.rlspec").read_text()


def ran(command: click.Command, *words: str | Path) -> Result:
    done = CliRunner().invoke(command, [str(w) for w in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def without_style(page: str) -> str:
    return re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first.rlspec", tmp_path / "second.rlspec"
    first.write_text(MINI)
    harsh = MINI.replace("= 0.1\n", "= 1\n", 1).replace("steps = 5steps", "steps = 6steps  lr = 1e-4")
    second.write_text(harsh)
    return first, second


def test_doc_writes_html_or_markdown_by_the_name(tmp_path: Path) -> None:
    assert ran(doc, TARL, "-o", tmp_path / "x.html").output == ""
    assert (tmp_path / "x.html").read_text().startswith("<!DOCTYPE html>")
    ran(doc, TARL, "-o", tmp_path / "x.md", "--variant", "sparse")
    text = (tmp_path / "x.md").read_text()
    assert text.startswith("# TARL")
    assert "variant `sparse`" in text
    assert "judge `turns`" not in text
    assert (
        ran(doc, TARL, "--format", "md", "--set", "math_share=0.5").output.count("| `param.math_share` | 0.5 | set |")
        == 1
    )


def test_doc_of_a_spec_with_errors_writes_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "wrong.rlspec"
    spec.write_text(MINI.replace("std.grpo", "std.grop"))
    with pytest.raises(SpecError, match="RLC0107"):
        ran(doc, spec, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_difference_as_html_shows_terms_and_what_is_confounded(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = ran(diff, *pair, "--format", "html", "-o", tmp_path / "d.html")
    assert done.exit_code == 1
    page = (tmp_path / "d.html").read_text()
    plain = without_style(page)
    assert "same graph, other values" in plain
    assert "Confounded" in plain
    assert plain.index("reward.R") < plain.index("stage.train.lr")
    assert "-0.1 -&gt; -1 of any(verdict == -1 over turn)" in plain
    assert "<script" not in page
    assert "Verified" in plain


def test_terms_that_came_or_went_are_typeset(tmp_path: Path) -> None:
    page = ran(diff, TARL, f"{TARL}#sparse", "--format", "html").output
    gone = re.findall(r'<div class="term gone">.*?</div>', page, flags=re.DOTALL)
    assert len(gone) == 2
    assert all("<math" in term for term in gone)
    assert any("clip" in term and "<mfrac>" in term for term in gone)


def test_differences_that_are_only_assumed_are_folded(tmp_path: Path) -> None:
    guess = tmp_path / "guess.rlspec"
    guess.write_text(TARL.read_text().replace("assumed(250steps", "assumed(300steps"))
    page = ran(diff, TARL, guess, "--format", "html").output
    assert "<details><summary>1 where a side is only an assumption" in page
    assert "<details open>" in ran(diff, TARL, guess, "--format", "html", "--assumptions").output


def test_hostile_names_and_values_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    spec = folder / "x.rlspec"
    spec.write_text(TARL.read_text().replace('"Qwen/Qwen3-8B"', '"<script>alert(1)</script>"'))
    for page in (ran(diff, TARL, spec, "--format", "html").output, ran(compare, TARL, spec, "--format", "html").output):
        assert "<script" not in page
        assert "<img" not in page
        assert "&lt;script&gt;" in page


def test_experiments_stand_side_by_side_in_html() -> None:
    page = without_style(ran(compare, TARL, MUA, "--format", "html").output)
    assert page.count("<th>tarl</th>") == page.count("<th>mua_rl</th>") == 1
    rows = re.findall(r"<tr.*?</tr>", page, flags=re.DOTALL)
    assert all(row.count("<td") == 2 for row in rows[1:])
    assert "gpt-4o-2024-11-20" in page


def test_pages_need_nothing_of_a_run() -> None:
    code = (
        "import sys; from click.testing import CliRunner\n"
        "from rlspec.cli.diff import diff; from rlspec.cli.doc import doc\n"
        f"CliRunner().invoke(doc, [{str(TARL)!r}], catch_exceptions=False)\n"
        f"CliRunner().invoke(diff, [{str(TARL)!r}, {str(MUA)!r}, '--format', 'html'], catch_exceptions=False)\n"
        f"print(*[m for m in {[*HEAVY, 'pyarrow']!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == ""


# ------------------------------------------------------------------------------------------------- diff with a log


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with one step: two groups of two conversations."""
    plan = check(Source("mini", MINI)).plan
    assert plan is not None
    batch = []
    for place, (outcome, verdicts) in enumerate([(1, [1, -1]), (0, [1]), (1, [0]), (0, [0])]):
        ledger = Ledger()
        for _ in verdicts:
            ledger.append("agent", [1], [-0.5], 0)
        measures = {"desk.verified": outcome, "turns.score": verdicts}
        batch.append(Trajectory(f"train/0/{place // 2}/{place}", "desk", "t", place // 2, ledger, [], measures))
    fitting.score(plan, [(0, batch)], {})
    with RunDirectory.create(tmp_path / "run", plan_text(plan), plan.digest, MINI) as directory:
        directory.write_trajectories("train", 0, batch)
    return tmp_path / "run"


def test_diff_with_a_log_says_what_the_difference_does(pair: tuple[Path, Path], run: Path) -> None:
    shown = ran(diff, *pair, "--log", run)
    assert shown.exit_code == 1
    assert "~ stage.train.lr" in shown.output
    assert re.search(
        r"sign flips, trajectories +50\.0%", shown.output
    )  # both of the first group, neither of the second
    assert re.search(r"dead groups +0\.0% -> 0\.0%", shown.output)
    body = json.loads(ran(diff, *pair, "--log", run, "--format", "json").output)
    assert body["effect"]["trajectories_flipped"] == 0.5
    assert body["effect"]["turns_flipped"] == pytest.approx(3 / 5)
    page = ran(diff, *pair, "--log", run, "--format", "html").output
    assert "What it does to logged conversations" in page
    assert "train/0/0/0" in page
    assert "| sign flips, turns | 60.0% |" in ran(diff, *pair, "--log", run, "--format", "md").output


# ------------------------------------------------------------------------------------------------------------ graph


def test_graph_draws_by_the_name_of_its_output(tmp_path: Path) -> None:
    assert ran(graph, TARL).output.startswith("flowchart TD\n")
    ran(graph, TARL, "-o", tmp_path / "x.svg", "--of", "stages")
    assert (tmp_path / "x.svg").read_text().startswith("<svg ")
    ran(graph, TARL, "-o", tmp_path / "x.dot", "--variant", "sparse")
    text = (tmp_path / "x.dot").read_text()
    assert text.startswith('digraph "tarl: roles" {')
    assert "judge" not in text


def test_a_stored_plan_is_drawn_too(tmp_path: Path) -> None:
    plan = check(Source("mini", MINI)).plan
    assert plan is not None
    (tmp_path / "plan.json").write_text(plan_text(plan))
    (tmp_path / "mini.rlspec").write_text(MINI)
    drawn = [ran(graph, tmp_path / name, "--of", "formulas").output for name in ("plan.json", "mini.rlspec")]
    assert drawn[0] == drawn[1]


def test_the_page_of_a_spec_holds_the_drawing_of_its_roles() -> None:
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="rlspec-graph"' in ran(doc, TARL).output
    assert "```mermaid\nflowchart TD\n" in ran(doc, TARL, "--format", "md").output
