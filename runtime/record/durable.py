"""Files that are there whole or not at all, whatever kills the process or fills the disk.

Every write goes to a temporary file beside its target, is forced to the disk, and is renamed over the target,
which a reader sees either before or after. What the operating system refuses (a full disk, a read-only
directory, a file where a directory should be) becomes a `Refusal` that names the path, the free space and the
cure, and leaves nothing behind.

    write_file(run / "report.json", b"{}")

A process that dies in the middle leaves `NAME.tmp-PID`; `sweep` removes those whose process is gone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlspec.runtime.refusal import Refusal

_TEMPORARY = re.compile(r"\.tmp-(\d+)$")
_FOREIGN = re.compile(r"\(os error (\d+)\)")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CURES = {
    **dict.fromkeys(
        _FULL, "free some space and go on (--resume if the run had begun), or choose another disk with --out"
    ),
    errno.EROFS: "choose a directory on a writable disk with --out",
    errno.EACCES: "choose a directory that you may write with --out, or change its permissions",
    errno.EPERM: "choose a directory that you may write with --out, or change its permissions",
    errno.ENOTDIR: "a file stands where a directory is needed: choose another directory with --out",
    errno.EEXIST: "a file stands where a directory is needed: choose another directory with --out",
    errno.EISDIR: "a directory stands where a file is needed: choose another directory with --out",
}


def free_bytes(path: Path) -> int | None:
    """Bytes that this user may still write on the disk of `path` (of its nearest existing parent); None when
    the system does not say."""
    for place in (path, *path.absolute().parents):
        try:
            stat = os.statvfs(place)
        except OSError:
            continue
        return stat.f_bavail * stat.f_frsize
    return None


def unwritable(path: Path, error: OSError) -> Refusal:
    """The refusal (RLC0702) for an operating system's error while `path` was written."""
    free = free_bytes(path)
    reason = f"{path} cannot be written: {error.strerror or error}"
    if free is not None:
        reason += f"; {free:,} bytes are free there"
    cure = _CURES.get(error.errno or 0, "look at the disk, or choose another directory with --out")
    return Refusal("RLC0702", reason, cure)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn operating system errors while `path` is written into a `Refusal`, also those that libraries written in Rust
    (safetensors, tokenizers) pass on as text: `I/O error: No space left on device (os error 28)`."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error
    except Exception as error:
        found = _FOREIGN.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise unwritable(path, OSError(number, os.strerror(number))) from error


def sync_directory(path: Path) -> None:
    """Force a directory's entries (new names, renames) to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte to an open file; the system may take fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: temporary file, fsync, rename, fsync of the directory.

    Raises:
        Refusal: RLC0702 when the system does not let it; the old file, if any, is untouched then.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with writing(path):
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_all(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, on the disk when this returns. Raises Refusal RLC0702."""
    with writing(path):
        missing = [folder for folder in (path, *path.absolute().parents) if not folder.is_dir()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_directory(folder.parent)


def is_temporary(path: Path) -> bool:
    """Whether a name is that of an unfinished write."""
    return _TEMPORARY.search(path.name) is not None


def sweep(directory: Path) -> list[str]:
    """Remove what writes of dead processes left in `directory`; the names removed. An own process's leftovers
    are stale too: a restarted container hands out the same numbers again, and no write is under way when this
    is called."""
    removed: list[str] = []
    if not directory.is_dir():
        return removed
    for path in sorted(directory.iterdir()):
        found = _TEMPORARY.search(path.name)
        if found is None or (int(found[1]) != os.getpid() and _alive(int(found[1]))):
            continue
        with writing(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        removed.append(path.name)
    return removed


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
