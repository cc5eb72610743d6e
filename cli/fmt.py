"""`rlc fmt`: specs in their canonical layout."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, render

STDIN = Path("-")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; status 1 when a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
def fmt(files: tuple[Path, ...], check: bool, diff: bool) -> None:
    """Lay out FILES as specs are laid out; keep every comment and the meaning.

    A directory stands for all specs below it, `-` for the standard input, whose result is printed. A file with syntax
    errors is left alone, and the status is 2.
    """
    from rlspec.dsl.format import UnfaithfulFormat, formatted

    failed = changed = False
    for path in _specs(files):
        try:
            source = _read(path)
            text = formatted(source)
            would = text != source.text
            changed |= would
            if diff and would:
                click.echo(_difference(source, text), nl=False)
            if check and would:
                click.echo(f"{source.path}: would change", err=diff)
            if path == STDIN and not (check or diff):
                sys.stdout.buffer.write(text.encode())
            elif would and not (check or diff):
                replace_text(path, text)
                click.echo(f"{path}: formatted")
        except SpecError as error:
            failed = True
            for diagnostic in error.diagnostics:
                click.echo(render(diagnostic) + "\n", err=True)
        except UnfaithfulFormat as error:
            failed = True
            click.echo(f"{path}: left alone: {error}. This is a defect of the formatter.", err=True)
    if failed:
        raise click.exceptions.Exit(2)
    if check and changed:
        raise click.exceptions.Exit(1)


def replace_text(path: Path, text: str) -> None:
    """Write a file so that whoever reads it, at any moment and after a crash, finds the old text or the new one; its
    mode stays, and a link stays a link.

    Raises:
        SpecError: RLC0702, it cannot be written; the old text is still there.
    """
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError("it is no regular file")
        # Where the file itself may not be written, its folder's permission to replace it is no leave to do so.
        with open(target, "r+b"):
            pass
        number, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with open(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        reason = f"cannot write the file: {error.strerror or error}"
        raise SpecError([Diagnostic("RLC0702", reason, source=Source(str(path), ""))]) from error
    # The new name is on disk only once its folder is; where folders cannot be synced, nothing is lost but that.
    with suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _specs(files: tuple[Path, ...]) -> list[Path]:
    """The files, each once; of directories the specs below them, but for hidden ones."""
    found: dict[Path, None] = {}
    for path in files:
        if path != STDIN and path.is_dir():
            below = sorted(path.rglob("*.rlspec"))
            inner = (spec for spec in below if not any(p.startswith(".") for p in spec.relative_to(path).parts))
            found |= dict.fromkeys(inner)
        else:
            found[path] = None
    return list(found)


def _read(path: Path) -> Source:
    from rlspec.dsl.parser import read

    if path != STDIN:
        return read(path)
    data = sys.stdin.buffer.read()
    try:
        return Source("<stdin>", data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = "the standard input is not UTF-8 text"
        raise SpecError([Diagnostic("RLC0001", message, source=Source("<stdin>", ""))]) from error


def _difference(source: Source, text: str) -> str:
    import difflib
    from io import StringIO

    old, new = (list(StringIO(which, newline="\n")) for which in (source.text, text))
    lines = difflib.unified_diff(old, new, source.path, source.path)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
