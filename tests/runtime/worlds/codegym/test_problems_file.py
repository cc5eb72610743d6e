"""The files of problems are what their script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("words", "file"), [([], "specs/codegym/problems.jsonl"), (["short"], "specs/codegym/short.jsonl")]
)
def test_the_file_is_fresh(words: list[str], file: str) -> None:
    command = [sys.executable, str(ROOT / "bench" / "codegym_problems.py"), *words]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / file).read_text()
