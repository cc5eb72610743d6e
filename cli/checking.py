"""What `rlc check` does, without click: most checks have no options, and click's import takes longer than they do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rlspec.dsl.annotations import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rlspec.cli.options import Patch
    from rlspec.dsl.diagnostics import Diagnostic, Source

    Found = tuple[Source | None, list[Diagnostic]]
    Composed = tuple[Sequence[str], str | None, Sequence[Path | Patch]]  # settings, variant, overlays

MOST = 200  # diagnostics of one file that are printed as text
ROUNDS = 8  # a fix may uncover the next mistake
BOM = b"\xef\xbb\xbf"


def run(
    files: Sequence[str | Path],
    composed: Composed = ((), None, ()),
    form: str = "text",
    fix: bool = False,
    locked: bool = False,
) -> int:
    """Check files and say what is wrong with them; the exit status."""
    from rlspec.dsl.diagnostics import SpecError

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
    return 2 if any(d.severity == "error" for _, diagnostics in found for d in diagnostics) else 0


def _checked(path: str | Path, source: Source | None, composed: Composed) -> tuple[Source, list[Diagnostic]]:
    """Check a file, or a text that may become it.

    Raises:
        SpecError: a file cannot be read, or a setting does not parse.
    """
    from rlspec.compiler import check as front
    from rlspec.dsl.parser import read

    settings, variant, overlays = composed
    source = source or read(path)
    values, more = {}, []
    if settings:
        from rlspec.cli.specs import pairs

        values = front.settings_of(pairs(settings))
    if overlays:
        from rlspec.cli.options import overlay

        more = [overlay(o) for o in overlays]
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


def _print(path: str | Path, source: Source | None, diagnostics: list[Diagnostic], fixed: int) -> None:
    from rlspec.dsl.diagnostics import render

    for diagnostic in diagnostics[:MOST]:
        print(render(diagnostic, source) + "\n", file=sys.stderr, flush=True)
    if len(diagnostics) > MOST:
        print(f"{len(diagnostics) - MOST} more are not shown\n", file=sys.stderr, flush=True)
    counts = {s: sum(d.severity == s for d in diagnostics) for s in ("error", "warning", "note")}
    said = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count]
    if not counts["error"]:
        said.insert(0, "ok")
    if fixed:
        said.append(f"{fixed} fixed")
    elif any(d.fix is not None for d in diagnostics):
        said.append(f"{sum(d.fix is not None for d in diagnostics)} that --fix can cure")
    print(f"{path}: {', '.join(said)}", flush=True)


def _export(form: str, found: list[Found]) -> None:
    import json

    from rlspec.dsl.diagnostics import as_json
    from rlspec.dsl.sarif import github, sarif

    pairs = [(diagnostic, source) for source, diagnostics in found for diagnostic in diagnostics]
    if form == "json":
        print(json.dumps([as_json(d, s) for d, s in pairs], indent=1), flush=True)
    elif form == "sarif":
        from importlib.metadata import version

        print(json.dumps(sarif(pairs, version("rlspec")), indent=1), flush=True)
    else:
        for diagnostic, source in pairs:
            print(github(diagnostic, source), flush=True)


# --------------------------------------------------------------------------------------------------------- fixing


def _fixed(path: str | Path, composed: Composed) -> int:
    """Apply safe fixes to the file; how many. Nothing is written when there is none, or when one does not cure."""
    from pathlib import Path

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
        _replace(Path(path), before, source.text)
    return made


def _replace(path: Path, before: str, after: str) -> None:
    """Put `after` in the file's place, whole or not at all.

    Raises:
        SpecError: RLC0702 the file cannot be written, or was changed since it was read.
    """
    import os
    import tempfile

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
