"""What an editor waits for at the start: nothing of the run, and of the compiler only what the first file needs."""

from __future__ import annotations

import subprocess
import sys

from command import HEAVY


def loaded(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())


def test_the_server_imports_no_compiler_before_its_greeting() -> None:
    assert not {
        m for m in loaded("rlspec.editor.server") if m.startswith(("rlspec.compiler", "rlspec.dsl", "pydantic"))
    }


def test_the_answers_import_nothing_of_a_run() -> None:
    assert not HEAVY & loaded("rlspec.editor.answers")


def test_the_analysis_needs_no_pygls() -> None:
    modules = ("completion", "hover", "navigate", "edits", "highlight", "drivers")
    found = loaded(", ".join(f"rlspec.editor.{m}" for m in modules))
    assert not {m for m in found if m.startswith(("pygls", "lsprotocol"))}
