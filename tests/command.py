"""`rlc` in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = frozenset({"torch", "ray", "numba", "transformers", "vllm", "numpy"})
"""What only a run needs."""

_LOADED = """import sys
from rlspec.cli import main
sys.argv = ["rlc", *sys.argv[1:]]
try:
    status = main.main()
except SystemExit as leave:
    status = leave.code
print("LOADED", *sys.modules)
sys.exit(status)
"""


def rlc(*words: str | Path, cwd: Path | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    """What a command prints and how it ends; `text` is its standard input."""
    return _run("-m", "rlspec.cli.main", *words, cwd=cwd, text=text)


def loaded_by(*words: str | Path, status: int = 0) -> set[str]:
    """The modules that are loaded when a command has ended, with the status that is asked for."""
    done = _run("-c", _LOADED, *words)
    assert done.returncode == status, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


def _run(*words: str | Path, cwd: Path | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, input=text, cwd=cwd, timeout=300)
