"""`rlc git install` in a real repository: what git then shows, that it can be repeated and taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlspec.cli.main import COMMANDS

ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def rlc(folder: Path, *words: str) -> str:
    return run(folder, sys.executable, "-m", "rlspec.cli.main", *words)


@pytest.fixture
def repository(tmp_path: Path, sample: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the sample spec in it, and `rlc` on the path as a user has it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    script = tools / "rlc"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rlspec.cli.main "$@"\n')
    script.chmod(0o755)
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "repository"
    folder.mkdir()
    run(folder, "git", "init", "-q")
    (folder / "a.rlspec").write_text(sample, encoding="utf-8")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "-qm", "a spec")
    return folder


def state(folder: Path) -> tuple[str, str]:
    attributes = folder / ".gitattributes"
    return (attributes.read_text() if attributes.exists() else "", (folder / ".git" / "config").read_text())


def test_installing_twice_is_installing_once(repository: Path) -> None:
    assert "diff=rlspec" in rlc(repository, "git", "install")
    once = state(repository)
    assert rlc(repository, "git", "install").strip() == "nothing to do"
    assert state(repository) == once
    assert ("merge=rlspec" in once[0]) == ("merge" in COMMANDS)


def test_remove_leaves_what_was_there_before(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.png binary\n")
    before = state(repository)
    rlc(repository, "git", "install")
    assert state(repository) != before
    rlc(repository, "git", "install", "--remove")
    assert state(repository) == before
    assert rlc(repository, "git", "install", "--remove").strip() == "nothing to do"


def test_attributes_of_somebody_else_are_not_overwritten(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.rlspec diff=mine\n")
    done = subprocess.run([sys.executable, "-m", "rlspec.cli.main", "git", "install"], cwd=repository,
                          capture_output=True, text=True, timeout=60, env=ENVIRONMENT)  # fmt: skip
    assert done.returncode == 2
    assert "diff=mine" in done.stderr


def test_outside_of_a_repository_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "rlspec.cli.main", "git", "install"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})  # fmt: skip
    assert done.returncode == 2
    assert "not a git repository" in done.stderr


def test_git_shows_no_difference_where_the_meaning_has_none(repository: Path, sample: str) -> None:
    rlc(repository, "git", "install")
    spec = repository / "a.rlspec"
    spec.write_text("# on top\n" + sample.replace("width = 64  layers = 3", "layers = 3   width = 64"))
    assert "a.rlspec" in run(repository, "git", "diff", "--stat")
    assert "\n@@" not in run(repository, "git", "diff", "--", "a.rlspec")


def test_git_shows_the_path_that_changed_under_its_declaration(repository: Path, sample: str) -> None:
    rlc(repository, "git", "install")
    (repository / "a.rlspec").write_text(sample.replace("clip_high = 0.2", "clip_high = 0.28"))
    shown = run(repository, "git", "diff", "-U0", "--", "a.rlspec").splitlines()
    assert [line.strip("-+ ") for line in shown if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "clip_high = 0.2",
        "clip_high = 0.28",
    ]
    assert any(line.startswith("@@") and "stage train : grpo" in line for line in shown)


def test_a_spec_with_errors_is_compared_as_it_stands(repository: Path, sample: str) -> None:
    rlc(repository, "git", "install")
    (repository / "a.rlspec").write_text(sample.replace("width = 64", "widht = 64"))
    assert "widht = 64" in run(repository, "git", "diff", "--", "a.rlspec")
