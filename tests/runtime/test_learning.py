"""The quickstart, smaller: it really learns. Success on tasks and phrasings that training never saw must rise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALLER = {
    "demonstrations = 4_000trajs": "demonstrations = 2_500trajs",
    "steps = 70steps": "steps = 20steps",
    "refuse_above = 0.085": "refuse_above = 0.25",
    "tasks = 100tasks": "tasks = 40tasks",
}
MARGIN = 0.15  # standard error of a difference of two success rates of 160 correlated trials: below 0.06


@pytest.mark.slow
def test_held_out_success_rises_by_a_clear_margin(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "quickstart.rlspec").read_text()
    for old, new in SMALLER.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "small.rlspec").write_text(text)
    command = [sys.executable, "-m", "rlspec.cli.main", "run", "small.rlspec", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580, env=os.environ.copy())
    assert done.returncode == 0, done.stderr[-3000:]
    evaluations = json.loads((tmp_path / "run" / "report.json").read_text())["evaluations"]
    before, after = (line["success"] for line in evaluations)
    assert before <= 0.5
    assert after >= before + MARGIN, f"{before:.3f} -> {after:.3f}"
