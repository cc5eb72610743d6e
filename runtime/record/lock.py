"""One process at a time in a run directory.

A POSIX record lock is held until the process ends, however it ends. Forked children do not inherit it, so an
environment process that outlives a killed run does not keep its directory shut. Such a lock does not keep out
its own process and is lost when any handle of its file is closed there: what this process holds is known by
device and inode.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from rlspec.runtime.record import durable
from rlspec.runtime.refusal import Refusal

LOCK = "lock"
_held: set[tuple[int, int]] = set()


class Lock:
    """The lock of a run directory, held by this process from when it is made until `release`.

    Raises:
        Refusal: RLC0704 when it is held already, RLC0702 when its file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        file = path / LOCK
        # Closing any handle of the file would give the process's own lock away: it is not even opened again.
        if file.exists() and _identity(os.stat(file)) in _held:
            raise Refusal("RLC0704", f"this process is using {path}", "choose another directory with --out")
        with durable.writing(file):
            self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _identity(os.stat(file)) != _identity(os.fstat(self._handle)):
                raise BlockingIOError("its lock was replaced meanwhile")
        except OSError as error:
            holder = os.pread(self._handle, 200, 0).decode(errors="replace").strip()
            os.close(self._handle)
            by = f"{holder} is" if holder else "another process is"
            cure = "wait until it is done, end it, or choose another directory with --out"
            raise Refusal("RLC0704", f"{by} using {path}", cure) from error
        self._key = _identity(os.fstat(self._handle))
        _held.add(self._key)
        with suppress(OSError):  # who holds it is a courtesy: a full disk does not matter here
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        """Give it back."""
        _held.discard(self._key)
        os.close(self._handle)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
