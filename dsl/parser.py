"""From text to tree: `parse` always gives the tree of what is sound and every syntax error of the file at
once.

Four steps: `tokens.scan` makes the token list, `layout.repair` sees to it that brackets match, `recovery`
runs the LALR tables over the result and goes on after errors, `cascades` drops those that only follow from others. At
most one error a line is reported.
"""

from __future__ import annotations

from functools import lru_cache

from rlspec.dsl import layout
from rlspec.dsl.annotations import TYPE_CHECKING, Any
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError
from rlspec.dsl.recovery import Recovery
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import scan
from rlspec.dsl.tree import Comment, Expression, File, Item, TypeExpr

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

MAX_CHARACTERS = 1 << 20
MAX_ERRORS = 100
BOM = b"\xef\xbb\xbf"


# ------------------------------------------------------------------------------------------------------ files


def read(path: str | Path) -> Source:
    """The text of a spec file. Raises SpecError with RLC0701 (cannot be read), RLC0010 (too large), RLC0001
    (not UTF-8 text) or RLC0002 (nothing but blanks and comments)."""
    name = str(path)

    def refuse(code: str, message: str, *notes: str) -> SpecError:
        return SpecError([Diagnostic(code, message, notes=notes, source=Source(name, ""))])

    try:
        with open(path, "rb") as file:
            data = file.read(4 * MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse("RLC0701", f"cannot read the file: {reason[:1].lower()}{reason[1:]}") from error
    if len(data) > 4 * MAX_CHARACTERS:
        raise refuse("RLC0010", f"the file is larger than {MAX_CHARACTERS:,} characters")
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse("RLC0001", "the file is not UTF-8 text", f"byte {error.start} on line {line}") from error
    if "\0" in text:
        raise refuse("RLC0001", "the file is not text: it holds zero bytes")
    if len(text) > MAX_CHARACTERS:
        raise refuse("RLC0010", f"the file is larger than {MAX_CHARACTERS:,} characters")
    if all(not row.strip() or row.lstrip().startswith("#") for row in text.split("\n")):
        raise refuse("RLC0002", "the file is empty: it declares nothing", "a spec begins with `rlspec = 1`")
    return Source(name, text)


# ---------------------------------------------------------------------------------------------------- parsing


def parse(source: Source) -> tuple[File, list[Diagnostic]]:
    """The tree of all sound items of a file, and its syntax errors in the order of the text. Never raises."""
    file, diagnostics = _parsed(source.path, source.text)
    return file, list(diagnostics)


@lru_cache(maxsize=8)
def _parsed(path: str, text: str) -> tuple[File, tuple[Diagnostic, ...]]:
    """Trees cannot be changed, so one text is read once: a check looks at a file again for each of its variants, an
    editor for each question about it."""
    if _pieces is not None and (known := _pieces.whole(text, _sound)) is not None:
        return known, ()
    items, comments, diagnostics = _run(Source(path, text), "file")
    file = File(tuple(items or ()), comments)
    if _pieces is not None and not diagnostics:
        _pieces.learn(text, file)
    return file, tuple(diagnostics)


_pieces: ModuleType | None = None


def remember() -> None:
    """From now on, keep the trees of pieces of texts (`rlspec.dsl.pieces`). Of use to whoever parses a text again and
    again; a command that ends then would only pay for it."""
    global _pieces
    from rlspec.dsl import pieces

    _pieces = pieces


def _sound(text: str) -> tuple[tuple[Item, ...], tuple[Comment, ...]] | None:
    """The items and comments of a text, if nothing is wrong with it."""
    items, comments, diagnostics = _run(Source("", text), "file")
    return None if diagnostics else (tuple(items or ()), comments)


def parse_expression(source: Source) -> tuple[Expression | None, list[Diagnostic]]:
    """A text that is one expression, as `--set name=...` takes it; None if it has errors."""
    tree, _, diagnostics = _run(source, "lone_expression")
    return (None if diagnostics else tree), diagnostics


def parse_type(source: Source) -> tuple[TypeExpr | None, list[Diagnostic]]:
    """A text that is one type, as `int@traj in {0, 1}`; None if it has errors."""
    tree, _, diagnostics = _run(source, "lone_type")
    return (None if diagnostics else tree), diagnostics


def _run(source: Source, start: str) -> tuple[Any, tuple[Any, ...], list[Diagnostic]]:
    if len(source.text) > MAX_CHARACTERS:
        message = f"the text is larger than {MAX_CHARACTERS:,} characters"
        return None, (), [Diagnostic("RLC0010", message, source=source)]
    tables = load()
    scanned = scan(source.text, tables)
    fresh = scanned.copy()
    repaired = layout.repair(scanned)
    tree = Recovery(tables, scanned, start).run()
    if scanned.diagnostics and not repaired and start == "file" and layout.repair(fresh, distrust=True):
        scanned, tree = fresh, Recovery(tables, fresh, start).run()
    if scanned.diagnostics:
        from rlspec.dsl import cascades  # a sound file has none

        cascades.prune(scanned, source.text)
    found = sorted(scanned.diagnostics, key=lambda d: (d.span.start if d.span else 0, d.span.stop if d.span else 0))
    if len(found) > MAX_ERRORS:
        more = f"{len(found) - MAX_ERRORS} more errors are not listed"
        found = [*found[: MAX_ERRORS - 1], _with_note(found[MAX_ERRORS - 1], more)]
    return tree, tuple(scanned.comments), [_with_source(d, source) for d in found]


def _with_source(diagnostic: Diagnostic, source: Source) -> Diagnostic:
    return replace(diagnostic, source=source)


def _with_note(diagnostic: Diagnostic, note: str) -> Diagnostic:
    return replace(diagnostic, notes=(*diagnostic.notes, note))
