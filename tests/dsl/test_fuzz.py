"""The seeds that fuzzing has kept: no hang, no traceback, no file, process or connection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_kept_seeds_find_nothing() -> None:
    # a process of its own: an audit hook cannot be removed
    command = [sys.executable, str(ROOT / "bench" / "language" / "fuzz.py"), "--replay"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(done.stdout.split(" inputs, 0 findings")[0].replace(",", "")) > 100
