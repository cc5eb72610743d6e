"""Edits: rename, quick fixes, formatting. An edit replaces a span by a text; what is offered is checked first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rlspec.dsl.diagnostics import Diagnostic, SpecError
from rlspec.dsl.tables import load
from rlspec.dsl.tree import Span
from rlspec.editor.document import Document

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEANT = re.compile(r"did you mean `([^`]+)`\?")
_WRITE = re.compile(r"(?:^|; )write `([^`… ]+)`$")
_QUOTED = re.compile(r"`([A-Za-z_][A-Za-z0-9_.]*)`")


class CannotRename(Exception):
    """Says in one line why."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a span by a text."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """An edit that cures a diagnostic. `safe` is what the compiler itself offers as a fix."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool
    diagnostic: Diagnostic


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits, which do not overlap."""
    for edit in sorted(edits, key=lambda e: e.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.stop :]
    return text


def renamable(document: Document, offset: int) -> Span | None:
    """The name at a place, if it is declared in this file."""
    found = document.symbols.at(offset)
    return found[0] if found and found[1] else None


def rename(document: Document, offset: int, name: str) -> list[Edit]:
    """Every edit that renames what stands at a place.

    Raises:
        CannotRename: nothing is declared here, the new name is none, or it would mean something else somewhere.
    """
    found = document.symbols.at(offset)
    if found is None or not found[1]:
        raise CannotRename("nothing that this file declares stands here")
    if not _NAME.fullmatch(name):
        raise CannotRename(f"`{name}` is not a name: letters, digits and _, not beginning with a digit")
    if name in load().keywords:
        raise CannotRename(f"`{name}` is a word of the language")
    old = found[1][0].name
    if name == old:
        return []
    places = document.symbols.places(found[1])
    edits = [Edit(span, name) for span in places]
    after = Document(applied(document.text, edits), document.path)
    if after.parsed[1] != [] and not document.parsed[1]:
        raise CannotRename(f"with `{name}` the file could not be read")
    if _bound(after) != [(_moved(span, places, len(name)), _moved_all(to, places, len(name)))
                         for span, to in _bound(document)]:  # fmt: skip
        raise CannotRename(f"`{name}` would be taken for something else that is called so")
    return edits


def _bound(document: Document) -> list[tuple[int, tuple[int, ...]]]:
    """Each use with the declarations that it means, by place; and each declaration with its namesakes."""
    symbols = document.symbols
    uses = [(span.start, tuple(sorted(d.span.start for d in meant))) for span, meant in symbols.uses]
    declared = [(d.span.start, tuple(sorted(s.span.start for s in symbols.namesakes(d)))) for d in symbols.declarations]
    return sorted(uses + declared)


def _moved(offset: int, places: list[Span], length: int) -> int:
    return offset + sum(length - (s.stop - s.start) for s in places if s.start < offset)


def _moved_all(offsets: tuple[int, ...], places: list[Span], length: int) -> tuple[int, ...]:
    return tuple(_moved(o, places, length) for o in offsets)


def actions(document: Document, start: int, stop: int) -> list[Action]:
    """The cures of what is wrong between two offsets: the compiler's fixes, and near names."""
    out = []
    for diagnostic in document.diagnostics:
        span = diagnostic.span
        if span is None or span.stop < start or span.start > stop:
            continue
        if diagnostic.fix is not None:
            fix = diagnostic.fix
            title = f"Replace by `{fix.text.strip()}`" if fix.text.strip() else "Remove"
            out.append(Action(title, (Edit(fix.span, fix.text),), True, diagnostic))
            continue
        found = _near(document, diagnostic, span)
        if found is not None:
            out.append(found)
    return out


def _near(document: Document, diagnostic: Diagnostic, span: Span) -> Action | None:
    """`did you mean` and `write` of a label as an edit: of the whole span, or of the one word in it that the message
    names."""
    meant = _MEANT.search(diagnostic.label) or _WRITE.search(diagnostic.label)
    if meant is None:
        return None
    shown = document.text[span.start : span.stop]
    wrong = next((w for w in _QUOTED.findall(diagnostic.message) if w != meant[1]), "")
    if not re.fullmatch(r"[\w.%]+", shown):
        at = [m.start() for m in re.finditer(rf"\b{re.escape(wrong)}\b", shown)] if wrong else []
        if len(at) != 1:
            return None
        span = Span(span.start + at[0], span.start + at[0] + len(wrong))
    return Action(f"Change to `{meant[1]}`", (Edit(span, meant[1]),), False, diagnostic)


def formatted(document: Document) -> list[Edit]:
    """One edit of what differs in the formatted text; none where nothing does, or where the file cannot be read."""
    from rlspec.dsl.format import UnfaithfulFormat, formatted

    old = document.text
    try:
        new = formatted(document.source)
    except (SpecError, UnfaithfulFormat):  # the diagnostics say what is wrong; nothing is written
        return []
    if new == old:
        return []
    head = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return [Edit(Span(head, len(old) - tail), new[head : len(new) - tail])]
