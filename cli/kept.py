"""Keeps what a command answered, for `rlspec.cli.answers` to give again while nothing has changed that it depends on.

What a run depends on is not declared by the commands but observed: an audit hook (PEP 578) sees every file that is
opened and every folder that is listed, by whatever part of the program. An answer is kept only if the run wrote
nothing, started no process and opened no connection, and if everything that it read is older than the run, so that what
is digested here is what was read.

An entry is text: a digest of the rest; the status; a line for each file, folder and piece of output; a blank line; the
output. It is written whole or not at all, into a folder that is its owner's alone.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import time

from rlspec.dsl.annotations import Any
from rlspec.dsl.sha import sha256

FORMAT = b"rlspec answer 1"
MOST = 1 << 20  # bytes of an entry
ENTRIES = 512  # in the folder; of more, the older half is removed
GRAIN = 50_000_000  # nanoseconds: file systems stamp times more coarsely than the clock tells them
ACTS = ("subprocess.", "socket.", "os.system", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "urllib.", "http.")
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
CODE = (b".py", b".pyc", b".so")  # of these, time, size and inode tell


class Run:
    """What one run has read, and what it has said."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.cache = os.path.dirname(os.path.dirname(place))
        self.since = time.time_ns() - GRAIN
        self.on = True
        self.pure = True
        self.opened: set[bytes] = set()
        self.said: list[tuple[int, bytes]] = []

    # -------------------------------------------------------------------------------------------------- listening

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before every audited act. It stays for the life of the process, so it can be turned off."""
        if not self.on:
            return
        if event == "open":
            self._open(*arguments)
        elif event in ("os.listdir", "os.scandir"):
            self._note(arguments[0] if arguments[0] is not None else ".")
        elif event.startswith(ACTS):
            self.pure = False
        elif event.startswith(CHANGES):
            self._write(arguments[0])

    def _open(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int):
            return
        number = flags if isinstance(flags, int) else 0
        writes = set(mode) & set("wax+") if isinstance(mode, str) else number & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes:
            self._write(path)
        else:
            self._note(path)

    def _write(self, path: Any) -> None:
        """Our own cache and Python's byte code may be written; anything else is an effect, which no answer repeats."""
        name = os.path.abspath(os.fsdecode(path)) if not isinstance(path, int) else ""
        if not _byte_code(name) and not name.startswith(self.cache + os.sep) and name != self.cache:
            self.pure = False

    def _note(self, path: Any) -> None:
        if not isinstance(path, int):
            self.opened.add(os.path.abspath(os.fsencode(path)))

    # ---------------------------------------------------------------------------------------------------- keeping

    def entry(self, status: int) -> bytes | None:
        """The answer as it is kept, or None when it cannot be."""
        self.on = False
        if not self.pure:
            return None
        standard = os.fsencode(os.path.dirname(os.__file__)) + os.fsencode(os.sep)
        packages = standard + b"site-packages"
        files = self.opened | {
            os.fsencode(f) for m in list(sys.modules.values()) if (f := getattr(m, "__file__", None))
        }
        lines = [b"%d" % status]
        elsewhere = sys.pycache_prefix is not None
        for name in sorted(files):
            if name.startswith(standard) and not name.startswith(packages):
                continue  # Python itself, whose version is part of an answer's name
            if (elsewhere or b"__pycache__" in name) and _byte_code(os.fsdecode(name)):
                continue  # of a module whose source is among the files
            line = self._line(name)
            if line is None or b"\n" in line:
                return None
            lines.append(line)
        lines += [b"says %d %d" % (number, len(data)) for number, data in self.said]
        body = b"\n".join(lines) + b"\n\n" + b"".join(data for _, data in self.said)
        whole = FORMAT + b" " + sha256(body).hexdigest().encode() + b"\n" + body
        return whole if len(whole) <= MOST else None

    def _line(self, name: bytes) -> bytes | None:
        """How a later run can see that a file, or a folder's list, is the same; None when it may have changed since
        it was read."""
        try:
            info = os.stat(name)
        except OSError:
            return None if os.path.lexists(name) else b"gone " + name
        if max(info.st_mtime_ns, info.st_ctime_ns) >= self.since:
            return None
        if stat.S_ISDIR(info.st_mode) or (stat.S_ISREG(info.st_mode) and name.endswith(CODE)):
            seen = b"%d-%d-%d-%d" % (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
            return b"code %s %s" % (seen, name)
        if not stat.S_ISREG(info.st_mode):
            return None
        with open(name, "rb") as file:
            return b"text %s %s" % (sha256(file.read()).hexdigest().encode(), name)


def _byte_code(name: str) -> bool:
    prefix = sys.pycache_prefix
    return os.path.basename(os.path.dirname(name)) == "__pycache__" or name.endswith("__pycache__") or (
        prefix is not None and name.startswith(prefix))  # fmt: skip


class _Heard(io.RawIOBase):
    """A standard stream, below all buffers, that notes what is written to it."""

    def __init__(self, number: int, run: Run) -> None:
        self.number, self.run, self.broken = number, run, False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.number

    def isatty(self) -> bool:
        return os.isatty(self.number)

    def write(self, data: Any) -> int:
        if self.broken:  # said once; what is still in a buffer is nobody's
            return len(data)
        try:
            count = os.write(self.number, data)
        except BrokenPipeError:
            self.broken, self.run.pure = True, False
            raise
        self.run.said.append((self.number, bytes(data[:count])))
        return count


class Observed:
    """Observes what runs inside a `with`: its reads, its effects, and what it says. Without
    `contextlib`, for which a check would wait."""

    def __init__(self, place: str) -> None:
        self.run = Run(place)

    def __enter__(self) -> Run:
        sys.addaudithook(self.run.hook)
        self.before = sys.stdout, sys.stderr
        for name, number, stream in (("stdout", 1, sys.stdout), ("stderr", 2, sys.stderr)):
            stream.flush()
            buffer = io.BufferedWriter(_Heard(number, self.run))
            heard = io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, heard)
        return self.run

    def __exit__(self, *_: object) -> None:
        self.run.on = False
        listening = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.before
        for output in listening:
            try:
                output.flush()
            except (OSError, ValueError):  # nobody reads any more
                continue


def keep(run: Run, status: int) -> None:
    """Keep what an observed run has said. A cache that cannot be written, or that is not its owner's alone, stays as it
    is."""
    whole = run.entry(status)
    if whole is None:
        return
    folder = os.path.dirname(run.place)
    draft = f"{run.place}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(run.cache), exist_ok=True)
        for one in (run.cache, folder):
            if not os.path.lexists(one):
                os.makedirs(one, 0o700, exist_ok=True)
            info = os.lstat(one)
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
                return
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(whole)
            os.replace(draft, run.place)
        except OSError:
            os.unlink(draft)
        _trim(folder)
    except OSError:
        return


def _trim(folder: str) -> None:
    entries = [entry.path for entry in os.scandir(folder)]
    if len(entries) > ENTRIES:
        entries.sort(key=lambda path: os.lstat(path).st_mtime_ns)
        for path in entries[: len(entries) // 2]:
            os.unlink(path)
