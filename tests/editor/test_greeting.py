"""The greeting that is answered before the server is loaded: the same as the server's, and said once."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlspec.editor.greeting import first_message

CAPABILITIES: dict[str, Any] = {"general": {"positionEncodings": ["utf-8", "utf-16"]}, "workspace": {"applyEdit": True}}


def framed(*messages: dict[str, Any]) -> bytes:
    bodies = [json.dumps({"jsonrpc": "2.0", **m}).encode() for m in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in bodies)


def greeted(cache: Path | str, capabilities: dict[str, Any], number: int = 7) -> list[dict[str, Any]]:
    """Everything that a server says to a greeting and a goodbye."""
    params = {"processId": None, "rootUri": None, "capabilities": capabilities}
    said = framed(
        {"id": number, "method": "initialize", "params": params},
        {"method": "initialized", "params": {}},
        {"id": number + 1, "method": "shutdown"},
        {"method": "exit"},
    )
    env = {**os.environ, "RLSPEC_CACHE": str(cache)}
    command = [sys.executable, "-m", "rlspec.cli.main", "lsp"]
    out = subprocess.run(command, input=said, env=env, capture_output=True, timeout=120).stdout
    found, stream = [], io.BytesIO(out)
    while (message := first_message(stream))[0]:
        found.append(message[1])
    return found


def test_a_kept_greeting_is_the_servers_own_and_said_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = greeted(cache, CAPABILITIES)
    assert [m.get("id") for m in first] == [7, 8]
    assert len(list(cache.glob("greeting-*"))) == 1
    second = greeted(cache, CAPABILITIES, 70)
    assert [m.get("id") for m in second] == [70, 71]
    assert second[0]["result"] == first[0]["result"] == greeted("off", CAPABILITIES)[0]["result"]
    assert first[0]["result"]["capabilities"]["positionEncoding"] == "utf-8"


def test_an_editor_that_can_do_something_else_has_another_greeting(tmp_path: Path) -> None:
    greeted(tmp_path / "cache", CAPABILITIES)
    other = greeted(tmp_path / "cache", {})
    assert other[0]["result"]["capabilities"]["positionEncoding"] == "utf-16"


IN_PROCESS = """
import io, sys
from rlspec.editor.greeting import serve

class Sink(io.BytesIO):
    def write(self, data):
        print(sorted({"pygls", "lsprotocol", "rlspec.compiler"} & sys.modules.keys()))
        return len(data)

serve(sys.stdin.buffer, Sink())
"""


def test_a_kept_greeting_is_said_before_the_server_is_loaded(tmp_path: Path) -> None:
    greeted(tmp_path / "cache", CAPABILITIES)
    params = {"processId": None, "rootUri": None, "capabilities": CAPABILITIES}
    said = framed({"id": 1, "method": "initialize", "params": params}, {"id": 2, "method": "shutdown"})
    env = {**os.environ, "RLSPEC_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", IN_PROCESS]
    out = subprocess.run(command, input=said, env=env, capture_output=True, timeout=120).stdout.decode()
    assert out.splitlines() == ["[]", "['lsprotocol', 'pygls']"]


def test_a_damaged_greeting_is_as_good_as_none(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = greeted(cache, CAPABILITIES)
    (kept,) = cache.glob("greeting-*")
    kept.write_bytes(kept.read_bytes().replace(b"utf-8", b"utf-9"))
    assert greeted(cache, CAPABILITIES)[0]["result"] == first[0]["result"]
    kept.chmod(0o666)
    assert greeted(cache, CAPABILITIES)[0]["result"] == first[0]["result"]


@pytest.mark.parametrize(
    "text", [b"", b"\r\n", b"hello\r\n\r\n", b"Content-Length: 3\r\n\r\nabc", b"Content-Length: 4"]
)
def test_what_is_no_greeting_is_handed_on_as_it_came(text: bytes) -> None:
    assert first_message(io.BytesIO(text)) == (text, {})
