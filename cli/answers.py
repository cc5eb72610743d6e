"""Gives an answer that `rlc` has given before again.

The answer of a command that only reads depends on its arguments and on the files that it read. `rlspec.cli.kept` keeps
such answers with the digests of those files; where none has changed, the answer is printed from here, before anything
is imported: `json` or `re` alone would take as long as all of this.

An entry is never trusted. The cache must be a folder of the user's own that nobody else can write, the entry too, its
digest must be right, and every file that the command opened must be what it was: texts by their SHA-256, the code of
the program by time, size and inode, folders that were listed by their times. Otherwise the command runs.

`bin/rlc-start` loads this module before the search for packages has begun, so it imports nothing of ours.
"""

import gc
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlspec.cli.bundle import Bundle

    Said = list[tuple[int, bytes]]  # descriptor, and what is written to it

COMMANDS = ("check", "compare", "compile", "diff", "digest", "doc", "eval", "explain", "fmt", "graph", "plan", "test",
            "why")  # fmt: skip
PAGES = ("-h", "--help", "--version")
# What else a run depends on: how Python finds and prints things.
SETTINGS = ("PYTHONPATH", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "LC_ALL", "LC_CTYPE",
            "LANG", "LANGUAGE", "TZ", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM", "GITHUB_WORKSPACE")  # fmt: skip
FORMAT = b"rlspec answer 1"
MOST = 1 << 20  # bytes of an entry
GARBAGE = 500_000  # objects: modules and trees hold few circles, so commands that end soon need not look for them


def sha256(data: bytes) -> bytes:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # `hashlib` loads OpenSSL
    except ImportError:
        from hashlib import sha256
    return sha256(data).hexdigest().encode()


def place(arguments: list[str]) -> "str | None":
    """Where the answer to a command is kept, or None where none is."""
    if not arguments or arguments[0] not in COMMANDS + PAGES:
        return None
    env = os.environ
    if "--fix" in arguments or any(a == "-" or a.startswith(("/dev/", "/proc/")) for a in arguments):
        return None
    folder = env.get("RLSPEC_CACHE")
    if not folder:
        above = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
        folder = os.path.join(above, "rlspec")
    if not os.path.isabs(folder) or "_RLC_COMPLETE" in env:
        return None
    about = [FORMAT.decode(), sys.version, sys.executable, __file__, os.getcwd()]
    about += [f"{name}={env.get(name)}" for name in SETTINGS]
    about += [str(os.get_terminal_size(number)) if os.isatty(number) else "" for number in (1, 2)]
    key = sha256("\0".join(about + arguments).encode("utf-8", "surrogateescape"))
    return os.path.join(folder, "answers", key.decode())


def private(info: os.stat_result) -> bool:
    """Whether a file or folder is the user's own and nobody else's to write."""
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def kept(path: str) -> "tuple[int, Said] | None":
    """The status and what was said (descriptor, bytes) of a kept answer that still holds, else None."""
    folder = os.path.dirname(path)
    for one in (os.path.dirname(folder), folder):
        info = os.lstat(one)
        if not (stat.S_ISDIR(info.st_mode) and private(info)):
            return None
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(handle)
        if not (stat.S_ISREG(info.st_mode) and private(info) and info.st_size <= MOST):
            return None
        entry = os.read(handle, MOST)
    finally:
        os.close(handle)
    first, _, body = entry.partition(b"\n")
    if first != FORMAT + b" " + sha256(body):
        return None
    head, _, payload = body.partition(b"\n\n")
    lines = head.split(b"\n")
    said, at = [], 0
    for line in lines[1:]:
        word, _, rest = line.partition(b" ")
        if word == b"code":
            seen, _, name = rest.partition(b" ")
            if signature(os.stat(name)) != seen:
                return None
        elif word == b"text":
            seen, _, name = rest.partition(b" ")
            with open(name, "rb", 0) as file:
                if sha256(file.read()) != seen:
                    return None
        elif word == b"gone":
            if os.path.lexists(rest):
                return None
        else:
            number, length = map(int, rest.split())
            said.append((number, payload[at : at + length]))
            at += length
    return int(lines[0]), said


def signature(info: os.stat_result) -> bytes:
    return b"%d-%d-%d-%d" % (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)


def answer(found: "tuple[int, Said] | None") -> None:
    """Print a kept answer and leave; returns where there is none."""
    if found is None:
        return
    status, said = found
    try:
        for number, data in said:
            while data:
                data = data[os.write(number, data) :]
    except OSError:  # whoever read has gone
        status = 0
    os._exit(status)  # nothing is open, and tearing the interpreter down takes longer than all of this


def start(arguments: list[str], packages: "Mapping[str, str]", said_by: "str | None") -> None:
    """Answer, or run the command. Where the packages are and which file says so: as for `rlspec.cli.bundle.begin`;
    nothing where only a search of site-packages can tell."""
    path = None
    try:
        path = place(arguments)
        if path is not None:
            answer(kept(path))
    except (OSError, ValueError, AttributeError):  # no folder, no entry, or none that holds; no such thing here
        pass
    bundle = None
    if path is not None:
        gc.set_threshold(GARBAGE)
    if sys.flags.no_site and packages:
        if path is None:  # what starts processes of its own starts them as this one is started
            os.execv(sys.executable, [sys.executable, *sys.argv])
        bundle = _bundle(arguments[0].strip("-"), packages, said_by)
        if bundle is None:
            import site

            site.main()
    from rlspec.cli.main import main

    main(keep_at=path, bundle=bundle)


def _bundle(command: str, packages: "Mapping[str, str]", said_by: "str | None") -> "Bundle | None":
    """Get ready to import rlspec without a search of site-packages; None where that cannot be."""
    try:
        import _frozen_importlib
        import _frozen_importlib_external as external

        file = os.path.join(packages["rlspec.cli"], "bundle.py")
        module = _frozen_importlib._load(external.spec_from_file_location("rlspec.cli.bundle", file))  # type: ignore
        made: Bundle = module.begin(command, packages, said_by)
        return made
    except (ImportError, AttributeError, OSError, KeyError):
        return None
