"""`rlc check`: all errors of all files at once, for people and for machines, with safe fixes on request."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlspec.cli.options import composing, overlay

if TYPE_CHECKING:
    from rlspec.dsl.diagnostics import Diagnostic, Source

    Found = tuple[Source | None, list[Diagnostic]]

MOST = 200  # diagnostics of one file that are printed as text
ROUNDS = 8  # a fix may uncover the next mistake
BOM = b"\xef\xbb\xbf"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param, as `rlc run` does.")
@composing
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text",
              show_default=True, help="sarif: SARIF 2.1.0; github: workflow annotations.")  # fmt: skip
@click.option("--fix", "fix", is_flag=True, help="Apply safe fixes to the files, then check again.")
@click.option("--locked", is_flag=True, help="Also say whether each spec's lock holds.")
def check(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
    form: str,
    fix: bool,
    locked: bool,
) -> None:
    """Say everything that is wrong with FILES and all their variants; status 2 when there is an error."""
    from rlspec.dsl.diagnostics import SpecError

    composed = (settings, variant, overlays)
    found: list[Found] = []
    for path in files:
        fixed = _fixed(path, composed) if fix else 0
        try:
            source, diagnostics = _checked(path, None, composed)
            if locked and not any(d.severity == "error" for d in diagnostics):
                diagnostics = [*diagnostics, *_unlocked(source)]
        except SpecError as error:
            source, diagnostics = None, list(error.diagnostics)
        found.append((source, diagnostics))
        if form == "text":
            _print(path, source, diagnostics, fixed)
    if form != "text":
        _export(form, found)
    if any(d.severity == "error" for _, diagnostics in found for d in diagnostics):
        raise click.exceptions.Exit(2)


def _checked(path: Path, source: Source | None, composed: tuple[Any, ...]) -> tuple[Source, list[Diagnostic]]:
    """Check a file, or a text that may become it.

    Raises:
        SpecError: a file cannot be read, or a setting does not parse.
    """
    from rlspec.cli.specs import pairs
    from rlspec.compiler import check as front
    from rlspec.dsl.parser import read

    settings, variant, overlays = composed
    source = source or read(path)
    values, more = front.settings_of(pairs(settings)), [overlay(o) for o in overlays]
    if variant is not None:
        found = front.check(source, values, None, variant, more)
    else:
        found = front.check_whole(source, values, more)
    return found.source, found.diagnostics


def _unlocked(source: Source) -> list[Diagnostic]:
    """What is not as the spec's lock says."""
    from rlspec.compiler.locks import verify
    from rlspec.dsl.diagnostics import SpecError

    try:
        verify(source)
    except SpecError as error:
        return list(error.diagnostics)
    return []


# ------------------------------------------------------------------------------------------------------- printing


def _print(path: Path, source: Source | None, diagnostics: list[Diagnostic], fixed: int) -> None:
    from rlspec.dsl.diagnostics import render

    for diagnostic in diagnostics[:MOST]:
        click.echo(render(diagnostic, source) + "\n", err=True)
    if len(diagnostics) > MOST:
        click.echo(f"{len(diagnostics) - MOST} more are not shown\n", err=True)
    counts = {s: sum(d.severity == s for d in diagnostics) for s in ("error", "warning", "note")}
    said = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count]
    if not counts["error"]:
        said.insert(0, "ok")
    if fixed:
        said.append(f"{fixed} fixed")
    elif any(d.fix is not None for d in diagnostics):
        said.append(f"{sum(d.fix is not None for d in diagnostics)} that --fix can cure")
    click.echo(f"{path}: {', '.join(said)}")


def _export(form: str, found: list[Found]) -> None:
    from rlspec.dsl.diagnostics import as_json
    from rlspec.dsl.sarif import github, sarif

    pairs = [(diagnostic, source) for source, diagnostics in found for diagnostic in diagnostics]
    if form == "json":
        click.echo(json.dumps([as_json(d, s) for d, s in pairs], indent=1))
    elif form == "sarif":
        from importlib.metadata import version

        click.echo(json.dumps(sarif(pairs, version("rlspec")), indent=1))
    else:
        for diagnostic, source in pairs:
            click.echo(github(diagnostic, source))


# --------------------------------------------------------------------------------------------------------- fixing


def _fixed(path: Path, composed: tuple[Any, ...]) -> int:
    """Apply safe fixes to the file; how many. Nothing is written when there is none, or when one does not cure."""
    from rlspec.dsl.diagnostics import Source, SpecError
    from rlspec.dsl.fixes import applied, cured

    try:
        source, diagnostics = _checked(path, None, composed)
    except SpecError:
        return 0  # the check that follows says why
    before, made = source.text, 0
    for _ in range(ROUNDS):
        own = [d for d in diagnostics if d.fix is not None and (d.source is None or d.source.path == source.path)]
        text, count = applied(source.text, [d.fix for d in own if d.fix is not None])
        if not count:
            break
        candidate, remaining = _checked(path, Source(source.path, text), composed)
        if not cured(own, remaining):
            break
        source, diagnostics, made = candidate, remaining, made + count
    if made:
        _replace(path, before, source.text)
    return made


def _replace(path: Path, before: str, after: str) -> None:
    """Put `after` in the file's place, whole or not at all.

    Raises:
        SpecError: RLC0702 the file cannot be written, or was changed since it was read.
    """
    from rlspec.dsl.diagnostics import Diagnostic, SpecError

    target = path.resolve()
    try:
        data = target.read_bytes()
        if data.removeprefix(BOM).decode("utf-8") != before:
            raise SpecError([Diagnostic("RLC0702", f"{path}: was changed while it was checked; nothing is written")])
        mode = target.stat().st_mode & 0o7777
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write((BOM if data.startswith(BOM) else b"") + after.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise SpecError([Diagnostic("RLC0702", f"{path}: cannot be written: {error.strerror}")]) from error
