"""The editor's greeting (`initialize`), answered before the server is loaded.

An editor shows nothing of a language before its server has said what it can do, and the libraries of the protocol take
longer to import than everything that follows. What they say depends on what the editor can do and on their own code
alone: so an answer is kept, and said at once when the same is asked again. The server then reads the same greeting,
from the beginning; its answer is not sent a second time, but compared with what was said, and kept.
"""

from __future__ import annotations

import io
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from rlspec.dsl.sha import sha256
from rlspec.dsl.tables import cache_folder, read_kept, write_kept

PARTS = ("rlspec.editor.greeting", "rlspec.editor.server", "rlspec.editor.colours")
PACKAGES = ("pygls", "lsprotocol")


def serve(stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
    """Greet, load the server, and run it until the editor leaves."""
    source, sink = stdin or sys.stdin.buffer, stdout or sys.stdout.buffer
    read, message = first_message(source)
    place = _place(message)
    said = _known(place)
    if said is not None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}).encode()
        sink.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        sink.flush()
    from rlspec.editor.server import create

    answers = _Answers(sink, message.get("id"), said, place)
    create().start_io(_Again(read, source), answers)  # type: ignore[arg-type]


def first_message(source: BinaryIO) -> tuple[bytes, dict[str, Any]]:
    """The first message as it was read, and what it says: nothing where it is not one of the protocol."""
    read, length = b"", 0
    while line := source.readline():
        read += line
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
        if not line.strip():
            break
    body = source.read(length) if length else b""
    try:
        message = json.loads(body) if body else {}
    except ValueError:
        message = {}
    return read + body, message if isinstance(message, dict) else {}


def _place(message: dict[str, Any]) -> Path | None:
    """Where the answer to a greeting is kept: by what the editor can do, and by the code that would answer."""
    params, folder = message.get("params"), cache_folder()
    if message.get("method") != "initialize" or "id" not in message or folder is None or not isinstance(params, dict):
        return None
    about: list[Any] = [sys.version, params.get("capabilities")]
    for name in PARTS:
        about.append(_signature(getattr(find_spec(name), "origin", None)))
    for name in PACKAGES:
        origin = getattr(find_spec(name), "origin", None)
        # an installer puts new files in, and so changes the package's folder too
        about += [_signature(origin), _signature(os.path.dirname(origin) if origin else None)]
    key = sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    return folder / f"greeting-{key}.json"


def _signature(path: str | None) -> list[Any]:
    if path is None:
        return []
    info = os.stat(path)
    return [path, info.st_mtime_ns, info.st_size, info.st_ino]


def _known(place: Path | None) -> Any:
    body = read_kept(place) if place is not None else None
    try:
        return json.loads(body) if body is not None else None
    except ValueError:
        return None


class _Again(io.RawIOBase):
    """A stream from its beginning, of which some was read."""

    def __init__(self, read: bytes, rest: BinaryIO) -> None:
        self._read, self._rest = io.BytesIO(read), rest

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._read.readline(-1 if size is None else size) or self._rest.readline(-1 if size is None else size)

    def read(self, size: int = -1, /) -> bytes:
        found = self._read.read(size)
        return found or self._rest.read(size)


class _Answers(io.RawIOBase):
    """The server's output: its answer to the greeting is kept, and not sent where it was said before. The server writes
    whole messages."""

    def __init__(self, sink: BinaryIO, number: Any, said: Any, place: Path | None) -> None:
        self._sink, self._number, self._said, self._place = sink, number, said, place
        self._awaited = place is not None

    def write(self, data: Any) -> int:
        if self._awaited and self._is_greeting(bytes(data)):
            self._awaited = False
            if self._said is not None:
                return len(data)
        return self._sink.write(data)

    def flush(self) -> None:
        self._sink.flush()

    def _is_greeting(self, data: bytes) -> bool:
        message = json.loads(data.partition(b"\r\n\r\n")[2])
        if "method" in message or message.get("id") != self._number:
            return False
        found = message.get("result")
        if self._place is not None and found is not None and found != self._said:
            write_kept(self._place, json.dumps(found).encode())
        return True
