"""Parsing a file again after a small change: what is as it was is taken from before.

Most specs are laid out as `rlc fmt` lays them out: one experiment, its items two columns in, and a `}` at the margin
that closes it. Such a text is cut before every line that begins an item. A piece means the same wherever it stands, as
long as it holds whole items and is without a mistake: lines begin tokens, no item goes on behind the beginning of the
next, and brackets close inside of the piece. So its tree is kept by its text, with offsets from its beginning, and the
tree of the file is put together from those of its pieces.

Where anything is unusual (another layout, a mistake anywhere, most of it new) there is no tree from here, and the file
is parsed as a whole, which alone knows how to go on after a mistake.
"""

from __future__ import annotations

from collections.abc import Callable

from rlspec.dsl import conflicts
from rlspec.dsl.annotations import Any
from rlspec.dsl.packed import packed, unpacked
from rlspec.dsl.tree import Comment, File, Item, Span

Parse = Callable[[str], "tuple[tuple[Item, ...], tuple[Comment, ...]] | None"]
"""The items and comments of a text without mistakes; None for any other."""

OPENING, CLOSING = "e {\n", "}"  # a piece is parsed inside of a block, as deep as it stands in the file
MOST = 4096  # pieces that are kept
NEW = 3  # pieces that are parsed by themselves
LONGEST = 1 << 16  # characters of a text that is cut

KNOWN: dict[str, Any] = {}
"""Items and comments of a piece, packed, by its text."""
_placed: dict[str, tuple[int, tuple[Item, ...], tuple[Comment, ...]]] = {}
"""The same as trees, for the place where the piece stood last."""


def whole(text: str, parse: Parse) -> File | None:
    """The tree of a text without mistakes, from its pieces; None where it has to be parsed as a whole."""
    found = cut(text)
    if found is None:
        return None
    head, pieces, stop = found
    if sum(piece not in KNOWN for piece in (head, *pieces)) > NEW:
        return None
    before = _piece(head, 0, parse, f"{head}{CLOSING}", 0)
    if before is None or not before[0]:
        return None
    items, comments = list[Item](), [*before[1]]
    position = len(head)
    for piece in pieces:
        inside = _piece(piece, position, parse, f"{OPENING}{piece}{CLOSING}", len(OPENING))
        if inside is None:
            return None
        items += inside[0]
        comments += inside[1]
        position += len(piece)
    *first, experiment = before[0]
    if experiment.body != ():
        return None
    last = Item(experiment.head, None, tuple(items), Span(experiment.head.span.start, stop))
    return File((*first, last), tuple(comments))


def learn(text: str, file: File) -> None:
    """Keep the pieces of a text that was parsed as a whole, without a mistake."""
    found = cut(text)
    if found is None or not file.items:
        return
    head, pieces, stop = found
    *first, experiment = file.items
    begin = experiment.head.span.start
    if experiment.body is None or experiment.span.stop != stop or begin >= len(head):
        return
    opened = Item(experiment.head, None, (), Span(begin, len(head) + len(CLOSING)))
    items, comments = [*first, *experiment.body], list(file.comments)
    position = 0
    for piece in (head, *pieces):
        end = position + len(piece)
        inside = [i for i in items if position <= i.span.start < end]
        if any(i.span.stop > end for i in inside):
            return  # something is not laid out as it is meant
        said = tuple(c for c in comments if position <= c.span.start < end)
        _keep(piece, position, (*inside, opened) if piece is head else tuple(inside), said)
        position = end


def cut(text: str) -> tuple[str, list[str], int] | None:
    """The text up to the line that opens the experiment, the pieces behind it, and where the `}` behind them ends;
    None for a text of another shape."""
    body = text.rstrip()
    strange = len(text) > LONGEST or not body.endswith("\n}") or any(sign in text for sign in ("\r", "\f", "\ufeff"))
    if strange or any(sign in text for sign in conflicts.SIGNS):
        return None
    lines = body[:-1].splitlines(keepends=True) if "\x0b" not in text else []
    opened = next((n for n, line in enumerate(lines) if line.startswith("experiment ")), -1)
    if opened < 0 or not lines[opened].endswith("{\n") or "".join(lines) != body[:-1]:
        return None
    starts = [n for n in range(opened + 1, len(lines)) if lines[n][:2] == "  " and lines[n][2:3].isalpha()]
    ends = [*starts, len(lines)]
    pieces = ["".join(lines[a:b]) for a, b in zip([opened + 1, *starts], ends, strict=True)]
    return "".join(lines[: opened + 1]), [p for p in pieces if p], len(body)


def _piece(
    key: str, position: int, parse: Parse, text: str, before: int
) -> tuple[tuple[Item, ...], tuple[Comment, ...]] | None:
    """The items and comments of a piece that stands at a position; `text` is what to parse where it is new, in which
    it begins at `before`."""
    placed = _placed.get(key)
    if placed is not None and placed[0] == position:
        return placed[1:]
    known = KNOWN.get(key)
    if known is None:
        found = parse(text)
        if found is None:
            return None
        items, comments = found
        if before:
            (block,) = items
            items = block.body or ()
        known = KNOWN[key] = packed((items, comments), before)
    items, comments = unpacked(known, position)
    _placed[key] = position, items, comments
    return items, comments


def _keep(piece: str, position: int, items: tuple[Item, ...], comments: tuple[Comment, ...]) -> None:
    if len(KNOWN) >= MOST:
        KNOWN.clear()
        _placed.clear()
    KNOWN[piece] = packed((items, comments), position)
    _placed[piece] = position, items, comments
