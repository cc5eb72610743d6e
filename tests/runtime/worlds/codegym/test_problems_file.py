"""The shipped file is what its script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_file_is_fresh() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "codegym_problems.py")], capture_output=True, text=True, check=True
    )
    assert made.stdout == (ROOT / "specs" / "codegym" / "problems.jsonl").read_text()
