"""`rlc fmt` as a user types it: what it writes, prints and refuses."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from command import HEAVY, loaded_by, rlc
from rlspec.cli.fmt import fmt, replace_text
from rlspec.dsl.diagnostics import SpecError
from rlspec.dsl.format_spacing import Spacing

CROOKED, STRAIGHT = "rlspec=1 # one\n", "rlspec = 1  # one\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "x.rlspec"
    path.write_text(CROOKED)
    return path


def test_it_writes_says_so_once_and_keeps_the_mode(spec: Path) -> None:
    spec.chmod(0o640)
    done = rlc("fmt", spec)
    assert (done.returncode, done.stdout) == (0, f"{spec}: formatted\n")
    assert spec.read_text() == STRAIGHT
    assert stat.S_IMODE(spec.stat().st_mode) == 0o640
    before = spec.stat().st_mtime_ns
    again = rlc("fmt", spec)
    assert (again.returncode, again.stdout, spec.stat().st_mtime_ns) == (0, "", before)
    assert os.listdir(spec.parent) == [spec.name]


def test_check_lists_what_would_change_and_writes_nothing(spec: Path) -> None:
    good = spec.with_name("good.rlspec")
    good.write_text(STRAIGHT)
    done = rlc("fmt", "--check", spec, good)
    assert (done.returncode, done.stdout) == (1, f"{spec}: would change\n")
    assert spec.read_text() == CROOKED
    assert rlc("fmt", "--check", good).returncode == 0


def test_diff_prints_a_unified_diff_and_writes_nothing(spec: Path) -> None:
    done = rlc("fmt", "--diff", spec)
    assert done.returncode == 0
    assert done.stdout == f"--- {spec}\n+++ {spec}\n@@ -1 +1 @@\n-{CROOKED}+{STRAIGHT}"
    assert spec.read_text() == CROOKED
    assert rlc("fmt", "--diff", "--check", spec).returncode == 1


def test_diff_says_when_the_last_line_has_no_end(spec: Path) -> None:
    spec.write_text("a = 1")
    assert rlc("fmt", "--diff", spec).stdout.endswith("-a = 1\n\\ No newline at end of file\n+a = 1\n")


def test_a_dash_is_the_standard_input() -> None:
    assert rlc("fmt", "-", text=CROOKED).stdout == STRAIGHT
    assert rlc("fmt", "-", text="").stdout == ""
    wrong = rlc("fmt", "-", text="a = \n")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "<stdin>:1:" in wrong.stderr
    assert rlc("fmt", "-", "--check", text=CROOKED).stdout == "<stdin>: would change\n"


def test_a_file_with_errors_is_left_alone_and_the_others_are_not(spec: Path) -> None:
    wrong = spec.with_name("wrong.rlspec")
    wrong.write_text("a=1\nb = = 2\nc=[1\n")
    done = rlc("fmt", wrong, spec, spec.with_name("absent.rlspec"))
    assert done.returncode == 2
    assert wrong.read_text() == "a=1\nb = = 2\nc=[1\n"
    assert spec.read_text() == STRAIGHT
    assert done.stderr.count("error[") == 3
    assert "RLC0701" in done.stderr


def test_a_directory_stands_for_its_specs(spec: Path) -> None:
    inner, hidden = spec.parent / "papers" / "y.rlspec", spec.parent / ".cache" / "z.rlspec"
    for path in (inner, hidden, spec.with_name("notes.txt")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(CROOKED)
    done = rlc("fmt", spec.parent)
    assert done.stdout == f"{inner}: formatted\n{spec}: formatted\n"
    assert hidden.read_text() == CROOKED


def test_a_link_stays_a_link(spec: Path) -> None:
    link = spec.with_name("link.rlspec")
    link.symlink_to(spec.name)
    rlc("fmt", link)
    assert link.is_symlink()
    assert spec.read_text() == STRAIGHT


def test_a_write_that_fails_leaves_the_old_text_and_no_other_file(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpecError, match="No space left"):
        replace_text(spec, STRAIGHT)
    assert spec.read_text() == CROOKED
    assert os.listdir(spec.parent) == [spec.name]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SpecError, match="no regular file"):
        replace_text(tmp_path / "pipe", STRAIGHT)


def test_a_defect_of_the_formatter_costs_nobody_a_file(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Spacing.line
    monkeypatch.setattr(Spacing, "line", lambda *a: line(*a).replace("rlspec", "rlspecs"))
    done = CliRunner().invoke(fmt, [str(spec)])
    assert done.exit_code == 2
    assert "left alone: the result has another tree" in done.output
    assert spec.read_text() == CROOKED


def test_it_imports_nothing_heavy(spec: Path) -> None:
    assert not (HEAVY | {"lark"}) & loaded_by("fmt", "--check", spec, status=1)
