"""`rlc merge` on files and as git's merge driver: digests add up, conflicts are listed, nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from rlspec.cli.merge import merge
from rlspec.compiler.check import check
from rlspec.compiler.form import form_of
from rlspec.dsl.diagnostics import Source, SpecError

SAMPLE = (Path(__file__).parents[1] / "sample.rlspec").read_text()


def run(folder: Path, base: str, ours: str, theirs: str, *words: str) -> Result:
    paths = []
    for name, text in (("base", base), ("ours", ours), ("theirs", theirs)):
        path = folder / f"{name}.rlspec"
        path.write_text(text)
        paths.append(str(path))
    return CliRunner().invoke(merge, [*paths, "-o", paths[1], *words])


def leaves(text: str) -> dict[tuple[str, ...], object]:
    plan = check(Source("x", text)).plan
    assert plan is not None
    form = form_of(plan)
    return {**form.leaves, **{path: formula.key for path, formula in form.formulas.items()}}


def test_disjoint_edits_add_up(tmp_path: Path) -> None:
    ours = SAMPLE.replace("lr = 4e-3", "lr = 5e-3").replace("- 0.1 * indicator", "- 0.2 * indicator")
    theirs = SAMPLE.replace("lr = 3e-4", "lr = 1e-4").replace("width = 64", "width = 96")
    done = run(tmp_path, SAMPLE, ours.replace("[-0.1, 1.1]", "[-0.2, 1.1]"), theirs)
    assert (done.exit_code, done.output) == (0, "")
    base, one, two = (leaves(t) for t in (SAMPLE, ours.replace("[-0.1, 1.1]", "[-0.2, 1.1]"), theirs))
    wanted = {p: one[p] if one[p] != base[p] else two[p] for p in base}
    wanted |= {p: v for side in (one, two) for p, v in side.items() if p not in base}
    assert leaves((tmp_path / "ours.rlspec").read_text()) == wanted


def test_a_conflict_is_listed_by_its_path(tmp_path: Path) -> None:
    sides = (SAMPLE.replace("lr = 3e-4", f"lr = {lr}") for lr in ("1e-4", "2e-4"))
    done = run(tmp_path, SAMPLE, *sides)
    assert done.exit_code == 1
    assert done.output == "conflict: stage.train.lr: changed by both sides\n"
    assert (tmp_path / "ours.rlspec").read_text().count("<<<<<<< ours") == 1


def test_a_result_that_does_not_compile_is_no_merge(tmp_path: Path) -> None:
    ours = SAMPLE.replace("env desk : shop", "env shop : shop").replace("[desk]", "[shop]")
    theirs = SAMPLE.replace("  credit =", "  judge second : oracle { on = [desk] }\n  credit =")
    done = run(tmp_path, SAMPLE, ours, theirs)
    assert done.exit_code == 1
    assert "RLC0101" in done.output
    assert "there is no env `desk`" in done.output


def test_a_side_that_does_not_parse_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    broken = SAMPLE.replace("width = 64", "width = = 64")
    result = run(tmp_path, SAMPLE, broken, SAMPLE.replace("layers = 3", "layers = 4"))
    assert isinstance(result.exception, SpecError)
    assert (tmp_path / "ours.rlspec").read_text() == broken


ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def test_git_merges_with_it(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "rlc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rlspec.cli.main "$@"\n')
    (tools / "rlc").chmod(0o755)
    env = {**ENVIRONMENT, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    folder = tmp_path / "repository"
    (folder / "specs").mkdir(parents=True)
    spec = folder / "specs" / "a.rlspec"

    def git(*words: str, status: int = 0) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(text: str, message: str) -> None:
        spec.write_text(text)
        git("add", ".")
        git("commit", "-qm", message)

    git("init", "-q", "-b", "main")
    done = subprocess.run(["rlc", "git", "install"], cwd=folder, capture_output=True, text=True, env=env, timeout=60)
    assert "merge=rlspec" in done.stdout
    commit(SAMPLE, "base")
    git("checkout", "-qb", "theirs")
    commit(SAMPLE.replace("clip_low = 0.2", "clip_low = 0.1"), "clip")
    git("checkout", "-q", "main")
    commit(SAMPLE.replace("    lr = 3e-4", "    lr = 1e-4"), "rate")  # the same line: git alone cannot
    git("merge", "-q", "theirs", "-m", "both")
    text = spec.read_text()
    assert "lr = 1e-4  clip_low = 0.1" in text
    git("checkout", "-q", "theirs")
    commit(text.replace("lr = 1e-4", "lr = 2e-4"), "twice")
    git("checkout", "-q", "main")
    commit(text.replace("lr = 1e-4", "lr = 5e-4"), "fivefold")
    assert "conflict: stage.train.lr" in git("merge", "theirs", "-m", "both", status=1)
    assert "<<<<<<< ours" in spec.read_text()
