"""The pre-commit hooks: each one's command exists and does, on real files, what its name says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
ENTRIES = dict(zip(re.findall(r"- id: (\S+)", HOOKS), re.findall(r"entry: (.+)", HOOKS), strict=True))


def hook(name: str, *files: Path) -> int:
    words = ENTRIES[name].split()
    assert words[0] == "rlc"
    command = [sys.executable, "-m", "rlspec.cli.main", *words[1:], *map(str, files)]
    return subprocess.run(command, capture_output=True, timeout=120).returncode


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "a.rlspec"
    path.write_bytes((ROOT / "tests" / "sample.rlspec").read_bytes())
    return path


def test_check_lets_a_sound_spec_pass_and_no_other(spec: Path) -> None:
    assert hook("rlc-check", spec) == 0
    spec.write_text(spec.read_text().replace("width = 64", "widht = 64"))
    assert hook("rlc-check", spec) != 0


def test_fmt_check_refuses_and_fmt_cures_a_loose_layout(spec: Path) -> None:
    assert hook("rlc-fmt-check", spec) == 0
    spec.write_text(spec.read_text().replace("env desk :", "env  desk:"))
    assert hook("rlc-fmt-check", spec) != 0
    hook("rlc-fmt", spec)
    assert hook("rlc-fmt-check", spec) == 0
    assert spec.read_bytes() == (ROOT / "tests" / "sample.rlspec").read_bytes()


def test_hooks_look_at_specs_only() -> None:
    assert set(re.findall(r"files: (.+)", HOOKS)) == {r"\.rlspec$"}
