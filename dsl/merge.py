"""Three-way merge of specs by what their items are called, not by lines.

    merged = merge(base, ours, theirs)
    merged.text         # with conflict markers around the smallest items that both changed
    merged.conflicts    # their paths, e.g. `stage.train.lr`

An item is known by its path, labels and `on`; an experiment, where a file has one, by being the experiment. Items that
only one side changed, added or removed are taken over; blocks that both changed are merged inside; the same change on
both sides is one. A change against a removal is a conflict, and so are different orders of stages. Formulas are
compared as trees: a change of their layout alone gives way to a change of what they say. Comments are never lost.
"""

from __future__ import annotations

import re
from collections import Counter

from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.format import formatted, same_tree
from rlspec.dsl.parser import parse
from rlspec.dsl.tree import Item

Key = tuple[tuple[str, ...], tuple[str, ...], str, int]

_TRAIL = re.compile(r"[ \t]*#[^\n]*")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|(#[^\n]*)')
_BRACE = re.compile(r"(?:\s|#[^\n]*(?:\n|$))*\{")


@dataclass(frozen=True, slots=True)
class Conflict:
    """`path` is the smallest item that both sides changed; `reason` says how."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged text, and what could not be merged."""

    text: str
    conflicts: tuple[Conflict, ...]


@dataclass(slots=True)
class _Piece:
    """An item with the text before it (blanks and comments), its own text, and a comment behind it on its line."""

    key: Key
    item: Item
    lead: str
    core: str
    trail: str
    source: Source


@dataclass(slots=True)
class _Body:
    pieces: list[_Piece] = field(default_factory=list)
    tail: str = ""

    def get(self, key: Key) -> _Piece | None:
        return next((p for p in self.pieces if p.key == key), None)

    @property
    def stages(self) -> list[str]:
        """The order that means something."""
        return [p.key[1][0] for p in self.pieces if p.key[0] == ("stage",) and p.key[1]]


@dataclass(slots=True)
class _Out:
    """One piece of the result."""

    lead: str
    text: str
    closes_line: bool  # nothing may follow on the line


def merge(base: Source, ours: Source, theirs: Source, names: tuple[str, str] = ("ours", "theirs")) -> Merged:
    """Merge two files that come from one; an empty `base` is a file that both added.

    Raises:
        SpecError: a file has syntax errors; they are placed in it.
    """
    if ours.text == theirs.text or theirs.text == base.text:
        return Merged(ours.text, ())
    if ours.text == base.text:
        return Merged(theirs.text, ())
    bodies = [_file(source) for source in (base, ours, theirs)]
    merger = _Merger(names)
    text = merger.body(bodies[0], bodies[1], bodies[2], ())
    if not merger.conflicts and _laid_out(ours) and _laid_out(theirs):
        text = formatted(Source(ours.path, text))
    return Merged(text, tuple(merger.conflicts))


def _laid_out(source: Source) -> bool:
    return formatted(source) == source.text


# ------------------------------------------------------------------------------------------------- files as pieces


def _file(source: Source) -> _Body:
    file, problems = parse(source)
    if problems:
        raise SpecError(problems)
    return _pieces(source, file.items, 0, len(source.text))


def _pieces(source: Source, items: tuple[Item, ...], start: int, stop: int) -> _Body:
    out = _Body()
    seen: Counter[tuple[tuple[str, ...], tuple[str, ...], str]] = Counter()
    lone = sum(i.head.path[0].value == "experiment" for i in items) == 1
    for item in items:
        head = item.head
        path, on = tuple(n.value for n in head.path), head.on.value if head.on is not None else ""
        labels = tuple(label.value for label in head.labels)
        if lone and path == ("experiment",):
            labels = ()
        end = item.span.stop
        behind = _TRAIL.match(source.text, end, stop)
        trail = behind[0] if behind else ""
        key = (path, labels, on, seen[path, labels, on])
        seen[path, labels, on] += 1
        lead = source.text[start : item.span.start]
        out.pieces.append(_Piece(key, item, lead, source.text[item.span.start : end], trail, source))
        start = end + len(trail)
    out.tail = source.text[start:stop]
    return out


def _inside(piece: _Piece) -> tuple[str, _Body]:
    """The text of a block's head up to its brace, and what is in it."""
    text, span = piece.source.text, piece.item.span
    brace = _BRACE.match(text, piece.item.head.span.stop)
    assert brace is not None, "a block begins with a brace"
    return text[span.start : brace.end()], _pieces(piece.source, piece.item.body or (), brace.end(), span.stop - 1)


def _same(one: _Piece, other: _Piece) -> bool:
    return same_tree(one.item, other.item)


def _comments(text: str) -> list[str]:
    return [m[1].rstrip() for m in _COMMENT.finditer(text) if m[1] is not None]


def _indent(lead: str) -> str:
    line = lead.rpartition("\n")[2]
    return line if not line.strip() and "\n" in lead else ""


# ---------------------------------------------------------------------------------------------------------- merging


class _Merger:
    def __init__(self, names: tuple[str, str]) -> None:
        self.names = names
        self.conflicts: list[Conflict] = []

    def body(self, base: _Body, ours: _Body, theirs: _Body, path: tuple[str, ...]) -> str:
        """The merged text of a block or file. The side that moves stages gives the order, else ours."""
        common = set(base.stages) & set(ours.stages) & set(theirs.stages)
        orders = [[s for s in b.stages if s in common] for b in (base, ours, theirs)]
        if orders[0] != orders[2] and orders[1] not in (orders[0], orders[2]):
            self.conflicts.append(Conflict(".".join((*path, "stage")), "both sides moved the stages"))
        moved = orders[1] == orders[0] and orders[2] != orders[0]
        first, second = (theirs, ours) if moved else (ours, theirs)
        out: dict[Key, _Out] = {}
        for piece in first.pieces:
            found = self._piece(piece.key, base, ours, theirs, first, path)
            if found is not None:
                out[piece.key] = found
        order = list(out)
        before: Key | None = None
        for piece in second.pieces:
            if first.get(piece.key) is None:
                found = self._piece(piece.key, base, ours, theirs, second, path)
                if found is not None:
                    out[piece.key] = found
                    at = order.index(before) + 1 if before is not None else 0
                    while at < len(order) and second.get(order[at]) is None:
                        at += 1  # behind what the first side has added here
                    order.insert(at, piece.key)
            if piece.key in out:
                before = piece.key
        return _joined([out[k] for k in order], _lead(base.tail, first.tail, second.tail))

    def _piece(
        self, key: Key, base: _Body, ours: _Body, theirs: _Body, layout: _Body, path: tuple[str, ...]
    ) -> _Out | None:
        """What becomes of one item; None when it is gone."""
        was, mine, yours = base.get(key), ours.get(key), theirs.get(key)
        here = (*path, *(key[0] if key[0] != ("experiment",) else ()), *key[1])
        if mine is None or yours is None:
            left = mine or yours
            assert left is not None
            if was is None:
                return _Out(left.lead, left.core + left.trail, bool(left.trail))
            if _same(left, was):
                return None
            return self._conflict(here, mine, yours, left.lead, "changed by one side, removed by the other")
        shown = mine if layout is ours else yours
        other = yours if shown is mine else mine
        lead = _lead(was.lead if was else "", shown.lead, other.lead)
        if _same(mine, yours):
            kept = other if was is not None and shown.core == was.core else shown
            return self._taken(kept, other if kept is shown else shown, was, lead)
        if was is not None and _same(yours, was):
            return self._taken(mine, yours, was, lead)
        if was is not None and _same(mine, was):
            return self._taken(yours, mine, was, lead)
        if was is not None and None not in (was.item.body, mine.item.body, yours.item.body):
            heads = [_inside(p) for p in (was, mine, yours)]
            same = [same_tree(a.item.head, b.item.head) for a, b in ((mine, was), (yours, was), (mine, yours))]
            if any(same):
                head = heads[2][0] if same[0] and not same[2] else heads[1][0]
                text = head + self.body(heads[0][1], heads[1][1], heads[2][1], here) + "}"
                trail = _trail(was.trail, shown.trail, other.trail)
                return _Out(lead, text + trail, bool(trail))
        reason = "added by both sides, differently" if was is None else "changed by both sides"
        return self._conflict(here, mine, yours, lead, reason)

    @staticmethod
    def _taken(kept: _Piece, other: _Piece, was: _Piece | None, lead: str) -> _Out:
        """One side's item; comments that the other side has put inside go above it."""
        trail = _trail(was.trail if was else "", kept.trail, other.trail)
        known = Counter(_comments((was.core + was.trail) if was else "")) | Counter(_comments(kept.core + trail + lead))
        new = list((Counter(_comments(other.core + other.trail)) - known).elements())
        return _Out(_with_comments(lead, new), kept.core + trail, bool(trail))

    def _conflict(
        self, path: tuple[str, ...], mine: _Piece | None, yours: _Piece | None, lead: str, reason: str
    ) -> _Out:
        self.conflicts.append(Conflict(".".join(path), reason))
        indent = _indent(lead)
        sides = [f"{indent}{p.core}{p.trail}\n" if p is not None else "" for p in (mine, yours)]
        text = f"<<<<<<< {self.names[0]}\n{sides[0]}=======\n{sides[1]}>>>>>>> {self.names[1]}"
        above = lead[: len(lead) - len(indent)] if indent else lead
        return _Out(above if above.endswith("\n") or not above else above.rstrip(" \t") + "\n", text, True)


def _lead(was: str, shown: str, other: str) -> str:
    """Blanks and comments before an item: the shown side's, with what the other side has changed in the comments."""
    before, here, there = _comments(was), _comments(shown), _comments(other)
    if here == there or there == before:
        return shown
    if here == before:
        return other
    known = Counter(here) | Counter(before)
    return _with_comments(shown, list((Counter(there) - known).elements()))


def _trail(was: str, shown: str, other: str) -> str:
    """A comment behind an item. Of two new ones the shown is kept, the other goes above the item."""
    return other if shown == was and other else shown


def _with_comments(lead: str, comments: list[str]) -> str:
    if not comments:
        return lead
    indent = _indent(lead)
    begun = lead if "\n" in lead and not lead.rpartition("\n")[2].strip() else f"{lead.rstrip()}\n"
    return begun + "".join(f"{comment}\n{indent}" for comment in comments)


def _joined(pieces: list[_Out], tail: str) -> str:
    text, closed = "", False
    for piece in (*pieces, _Out(tail, "", False)):
        lead = piece.lead
        fresh = lead.lstrip(" \t\r").startswith("\n")
        if closed and not fresh:
            lead = f"\n{lead}"
        elif text and not closed and not lead and piece.text:
            lead = "  "
        elif not text and piece.text.startswith("<<<<<<<") and lead and not lead.endswith("\n"):
            lead += "\n"
        text += lead + piece.text
        closed = piece.closes_line
    return text
