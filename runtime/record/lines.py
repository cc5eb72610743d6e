"""A file of JSON lines that survives being killed: each line is on the disk before the run goes on.

    metrics = Lines(run / "metrics.jsonl")
    metrics.append({"stage": "train", "step": 12, "reward_mean": 0.25})
    metrics.keep(12)                                     # cut back to the first 12 lines

Equal records give equal bytes: `stage` and `step` first, the other keys sorted, numbers in Python's shortest
exact form, infinities and NaN as the texts "inf", "-inf", "nan" (JSON has none). A process killed in the
middle of a line leaves a torn one; `repair` cuts it, readers pass over it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlspec.runtime.record.durable import sync_directory, write_all, write_file, writing
from rlspec.runtime.refusal import Refusal

_FIRST = ("stage", "step")
_UNFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def plain(value: Any) -> Any:
    """A value as JSON knows it: numpy numbers and arrays become Python's, tuples become lists."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def finite(value: Any) -> Any:
    """A plain value with NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return value


def encode(record: Mapping[str, Any]) -> bytes:
    """One line, newline included. Raises TypeError for a value that JSON cannot hold."""
    record = finite(plain(record))
    ordered = {key: record[key] for key in _FIRST if key in record}
    ordered.update((key, record[key]) for key in sorted(record) if key not in _FIRST)
    return json.dumps(ordered, separators=(", ", ": "), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A line's record, with "nan", "inf" and "-inf" as numbers again. Raises ValueError for anything but an
    object."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return {key: _UNFINITE.get(value, value) if isinstance(value, str) else value for key, value in record.items()}


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file had come: its number of lines, and the SHA-256 of their bytes."""

    lines: int
    sha256: str


class Lines:
    """See the module. One process writes; others may read at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def _whole(self) -> list[bytes]:
        """The lines that end in a newline and parse, in order; a bad line is passed over only when it is the
        last."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Refusal("RLC0701", f"{self.path} cannot be read: {error.strerror}") from error
        *whole, rest = data.split(b"\n")
        lines = [line + b"\n" for line in whole] + [rest] * bool(rest)
        for number, line in enumerate(lines, 1):
            try:
                decode(line)
                torn = not line.endswith(b"\n")
            except ValueError as error:
                torn = True
                if number < len(lines):
                    cure = "restore the file from a copy, or start the run again in a new directory"
                    raise Refusal("RLC0706", f"line {number} of {self.path} is damaged: {error}", cure) from error
            if torn:
                return lines[: number - 1]
        return lines

    def read(self) -> list[dict[str, Any]]:
        """All whole records.

        Raises:
            Refusal: RLC0706 for a damaged line before the last, RLC0701 when the file cannot be read.
        """
        return [decode(line) for line in self._whole()]

    def repair(self) -> int:
        """Cut a torn last line; the number of bytes that were cut."""
        kept = sum(map(len, self._whole()))
        size = self.path.stat().st_size if self.path.exists() else 0
        if size > kept:
            self.close()
            with writing(self.path):
                os.truncate(self.path, kept)
        return size - kept

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; it is on the disk when this returns.

        Raises:
            Refusal: RLC0702 when the system does not take it; the lines before it stay whole.
        """
        data = encode(record)
        with writing(self.path):
            if self._handle is None:
                new = not self.path.exists()
                self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                if new:
                    sync_directory(self.path.parent)
            size = os.fstat(self._handle).st_size
            try:
                write_all(self._handle, data)
                os.fsync(self._handle)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._handle, size)
                raise

    def mark(self) -> Mark:
        """Where the file stands now."""
        lines = self._whole()
        return Mark(len(lines), _digest(lines))

    def keep(self, lines: int, sha256: str | None = None) -> int:
        """Cut the file back to its first `lines` lines, atomically; the number of lines dropped.

        Raises:
            Refusal: RLC0706 when the file is shorter than that, or its beginning is not the one of `sha256`.
        """
        whole = self._whole()
        kept = whole[:lines]
        if len(kept) < lines or (sha256 is not None and _digest(kept) != sha256):
            raise Refusal(
                "RLC0706",
                f"the first {lines} lines of {self.path} are not those that the checkpoint was saved with",
                "restore the file from a copy, or start the run again in a new directory",
            )
        self.repair()
        if len(whole) > lines:
            self.close()
            write_file(self.path, b"".join(kept))
        return len(whole) - lines

    def close(self) -> None:
        """Close the file; the next `append` opens it again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _digest(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()
