"""`rlc synth`: problems in, a folder of environments and a table out; nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.synth import synth
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems
from rlspec.runtime.worlds.codegym.store import read


@pytest.fixture
def problems(tmp_path: Path) -> str:
    path = tmp_path / "few.jsonl"
    few = [p for p in read_problems(SHIPPED) if p.id in ("total.double", "stack.pop")]
    path.write_text("".join(p.model_dump_json() + "\n" for p in few))
    return str(path)


def test_environments_and_a_table(problems: str, tmp_path: Path) -> None:
    out = tmp_path / "envs"
    done = CliRunner().invoke(synth, [problems, "-o", str(out), "--configurations", "6"], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("filter")
    assert done.output.splitlines()[-1].startswith(f"{out}: 2 environments, ")
    assert {e.id for e in read(out)} == {"total.double", "stack.pop"}


def test_the_second_set_of_numbers(problems: str, tmp_path: Path) -> None:
    words = [problems, "-o", str(tmp_path / "envs"), "--configurations", "3", "--long-cot"]
    done = CliRunner().invoke(synth, words, catch_exceptions=False)
    assert "calls: 10 to 512" in done.output
    assert "solve rate: at most 12.5% of 8 by random" in done.output


def test_a_folder_in_use_and_a_bad_file_are_refused_before_anything_is_written(problems: str, tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "mine").write_text("kept")
    done = CliRunner().invoke(synth, [problems, "-o", str(used)])
    assert isinstance(done.exception, Refusal)
    assert done.exception.code == "RLC0702"
    assert [p.name for p in used.iterdir()] == ["mine"]
    (tmp_path / "bad.jsonl").write_text("{}\n")
    done = CliRunner().invoke(synth, [str(tmp_path / "bad.jsonl"), "-o", str(tmp_path / "envs")])
    assert isinstance(done.exception, Refusal)
    assert done.exception.code == "RLC0701"
    assert not (tmp_path / "envs").exists()


def test_without_an_environment_nothing_is_written_and_the_filters_are_shown(problems: str, tmp_path: Path) -> None:
    words = [problems, "-o", str(tmp_path / "envs"), "--configurations", "3", "--tools", "40"]
    done = CliRunner().invoke(synth, words)
    assert isinstance(done.exception, Refusal)
    assert done.exception.code == "RLC0505"
    assert "tools: at least 40" in str(done.exception)
    assert not (tmp_path / "envs").exists()


def test_an_author_without_a_name_is_a_usage_error(problems: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(synth, [problems, "-o", str(tmp_path / "envs"), "--author", "llm"])
    assert done.exit_code == 2
    assert "needs `model`" in done.output
