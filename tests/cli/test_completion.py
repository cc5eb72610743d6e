"""Shell completion, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def asked(**environment: str) -> str:
    command = [sys.executable, "-m", "rlspec.cli.main"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_its_script(shell: str) -> None:
    if shell == "bash" and not os.path.exists("/bin/bash"):
        shell = "zsh"
    assert "_RLC_COMPLETE" in asked(_RLC_COMPLETE=f"{shell}_source")


@pytest.mark.parametrize(
    ("words", "position", "wanted"),
    [("rlc ch", "1", "check"), ("rlc git ins", "2", "install"), ("rlc check --fo", "2", "--format")],
)
def test_commands_and_options_are_completed(words: str, position: str, wanted: str) -> None:
    found = asked(_RLC_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position)
    assert f"plain,{wanted}" in found.split()
