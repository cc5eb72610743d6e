"""The canonical layout of a spec: a walk over its tokens, with the tree only to tell where items begin.

Nothing is printed from the tree, so what a token or a comment says cannot change; only what stands between them does.

- Two blanks an indent, one item a line. Items that were written on one line stay on one, two blanks apart, as far as
  120 columns go; so does a block that was written on one line.
- One blank between tokens or none. A formula that was broken over lines keeps its breaks: four blanks further in,
  two more in brackets. A formula on one line that is too long for it is broken behind its `=` and before its terms.
- Blank lines stay, one at most; none at the ends of blocks. Comments stay where they are. `=` signs and comments that
  were aligned on purpose stay aligned.

`formatted` checks its own work before it hands it back: the same tree, the same tokens and comments in the same order,
and a second pass that changes nothing.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from dataclasses import fields, is_dataclass
from functools import cache

from rlspec.dsl import layout
from rlspec.dsl.annotations import Any
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.format_rows import INDENT, WIDTH, Place, Row, written
from rlspec.dsl.format_spacing import Spacing
from rlspec.dsl.parser import MAX_CHARACTERS, parse
from rlspec.dsl.recovery import Recovery
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import Scan, Token, scan
from rlspec.dsl.tree import Comment, File, Item

_CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_CONTINUED = 2 * INDENT


class UnfaithfulFormat(Exception):
    """The formatter's check of its own work failed: a defect of ours. The message says what would have changed."""


def formatted(source: Source) -> str:
    """The file in its canonical layout; line ends are those of its first line.

    Raises:
        SpecError: the file has syntax errors; all of them.
        UnfaithfulFormat: the result would not have said the same.
    """
    read = _Read(source)
    text = _laid_out(read)
    if text != source.text:
        _verify(read, text)
    return text


def same_tree(one: Any, other: Any) -> bool:
    """Whether two trees (or tuples of them) are equal but for their spans; comments of a file do not count."""
    todo = [(one, other)]
    while todo:
        left, right = todo.pop()
        kind = type(left)
        if kind is not type(right):
            return False
        if kind is tuple:
            if len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif is_dataclass(kind):
            for name in _parts(kind):
                one_part, other_part = getattr(left, name), getattr(right, name)
                if one_part is not other_part:
                    todo.append((one_part, other_part))
        elif left != right:
            return False
    return True


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind) if part.name not in ("span", "comments"))


class _Read:
    """A file without syntax errors, and the tokens of its text: those that its tree was made from.

    Raises:
        SpecError: the file has syntax errors.
    """

    def __init__(self, source: Source) -> None:
        scanned = Scan([])
        items = None
        if len(source.text) <= MAX_CHARACTERS:
            tables = load()
            scanned = scan(source.text, tables)
            layout.repair(scanned)
            items = Recovery(tables, scanned, "file").run()
        if items is None or scanned.diagnostics:
            raise SpecError(parse(source)[1])
        self.source = source
        self.tokens = scanned.tokens[:-1]
        self.file = File(tuple(items), tuple(scanned.comments))

    def words(self) -> list[str]:
        """All tokens and comments in the order of the text."""
        things: list[Token | Comment] = [*self.tokens, *self.file.comments]
        return [thing.text for thing in sorted(things, key=_start)]


def _verify(before: _Read, text: str) -> None:
    """Read the result back and compare."""
    try:
        after = _Read(Source(before.source.path, text))
    except SpecError as error:
        raise UnfaithfulFormat(f"the result has a syntax error: {error.diagnostics[0].message}") from error
    if not same_tree(before.file, after.file):
        raise UnfaithfulFormat("the result has another tree")
    if before.words() != after.words():
        raise UnfaithfulFormat("the result has other tokens or comments, or another order of them")
    if _laid_out(after) != text:
        raise UnfaithfulFormat("formatting the result changes it")


def _laid_out(read: _Read) -> str:
    walk = _Walk(read)
    walk.block(read.file.items, 0, len(read.source.text))
    text = written(walk.rows)
    first, newline, _ = read.source.text.partition("\n")
    return text.replace("\n", "\r\n") if newline and first.endswith("\r") else text


def _start(thing: Token | Comment) -> int:
    return thing.start if isinstance(thing, Token) else thing.span.start


class _Walk:
    """Appends rows, item by item. The last row takes the comment that stands behind it."""

    def __init__(self, read: _Read) -> None:
        file, self.text, self.tokens = read.file, read.source.text, read.tokens
        self.comments = file.comments
        self.comment = 0
        self.rows: list[Row] = []
        self.begins = {token.start: index for index, token in enumerate(self.tokens)}
        self.ends = {token.stop: index + 1 for index, token in enumerate(self.tokens)}
        self.commented = [comment.span.start for comment in file.comments]
        # Offset of the brace that opens an item's block, by the offset at which the item begins.
        self.opened: dict[int, int] = {}
        blocks: set[int] = set()
        heads: list[tuple[int, int]] = []
        todo = list(file.items)
        while todo:
            item = todo.pop()
            heads.append((self.begins[item.span.start], self.ends[item.head.span.stop]))
            if item.body is not None:
                opening = self.tokens[self.ends[item.head.span.stop]].start
                self.opened[item.span.start] = opening
                blocks |= {opening, item.span.stop - 1}
                todo += item.body
        self.spacing = Spacing(self.tokens, frozenset(blocks))
        for begin, end in heads:
            self._join(begin, end)

    def _join(self, begin: int, end: int) -> None:
        """A head stands on one line, but for what is in brackets."""
        depth = 0
        for index in range(begin, end):
            if not depth:
                self.spacing.joined[index] = True
            kind = self.tokens[index].kind
            depth += (kind in _CLOSING) - (kind in _CLOSING.values())

    # ---- blocks

    def block(self, items: tuple[Item, ...], indent: int, stop: int) -> None:
        """The items of a block, and its comments up to the offset where it ends."""
        first = len(self.rows)
        pending: Row | None = None
        for item in items:
            begin = self.begins[item.span.start]
            if self._comments_until(item.span.start, indent, first):
                pending = None
            text = self._flat(item)
            if text is not None and item.body is not None and indent + len(text) > WIDTH:
                text = None
            if text is None or (item.value is not None and indent + len(text) > WIDTH):
                blank = self._blank(begin, item.span.start) and len(self.rows) > first
                at = len(self.rows)
                self._long(item, indent, text is not None)
                self.rows[at].blank = blank
                pending = None
            elif pending and not self.tokens[begin].first and pending.width + 2 + len(text) <= WIDTH:
                pending.text += f"  {text}"
                pending.equal = None
            else:
                blank = self._blank(begin, item.span.start) and len(self.rows) > first
                pending = Row(indent, text, blank, *self._sign(item))
                self.rows.append(pending)
        self._comments_until(stop, indent, first)

    def _sign(self, item: Item) -> tuple[int, Place | None]:
        """Of a short `head = value`: how long its head is, and where its sign stood."""
        if item.value is None:
            return 0, None
        begin, sign = self.begins[item.span.start], self.ends[item.head.span.stop]
        token = self.tokens[sign]
        blanks = token.start - self.tokens[sign - 1].stop
        return len(self.spacing.line(self.tokens, begin, sign)), Place(token.column, blanks)

    def _flat(self, item: Item) -> str | None:
        """An item on one line, if it was written on one."""
        begin, end = self.begins[item.span.start], self.ends[item.span.stop]
        if self._has_comment(item.span.start, item.span.stop):
            return None
        if item.body is None:
            broken = any(self._kept(index) for index in range(begin + 1, end))
            return None if broken else self.spacing.line(self.tokens, begin, end)
        opening = self.begins[self.opened[item.span.start]]
        if item.body and self.tokens[opening].line != self.tokens[end - 1].line:
            return None
        if any(self._kept(index) for index in range(begin + 1, opening)):
            return None
        parts = [self._flat(inner) for inner in item.body]
        head = self.spacing.line(self.tokens, begin, opening)
        if not parts:
            return f"{head} {{ }}"
        return None if None in parts else f"{head} {{ {'  '.join(filter(None, parts))} }}"

    def _long(self, item: Item, indent: int, too_long: bool) -> None:
        """An item on several lines."""
        begin, end = self.begins[item.span.start], self.ends[item.span.stop]
        if item.body is None:
            self._lines(begin, end, indent, self._breaks(item, indent) if too_long else frozenset())
        else:
            opening = self.begins[self.opened[item.span.start]]
            self._lines(begin, opening + 1, indent, frozenset())
            if not item.body and not self._has_comment(self.tokens[opening].start, item.span.stop):
                self.rows[-1].text += " }"
                return
            self.block(item.body, indent + INDENT, item.span.stop - 1)
            self.rows.append(Row(indent, "}"))

    # ---- lines

    def _kept(self, index: int) -> bool:
        """Whether a break before a token stays where it is."""
        return self.tokens[index].first and not self.spacing.joined[index]

    def _lines(self, begin: int, end: int, indent: int, added: frozenset[int]) -> None:
        """Tokens [begin, end) with the breaks that they have, and those before the tokens in `added`."""
        tokens = self.tokens
        row = Row(indent, tokens[begin].text)
        self.rows.append(row)
        # The indents of the lines on which the brackets around were opened.
        opened: list[int] = []
        for index in range(begin + 1, end):
            token = tokens[index]
            closes = token.kind in _CLOSING.values()
            within = opened[-1] + INDENT if opened else indent + _CONTINUED
            # Rows that there must be before a blank line: none behind what opens something.
            first = len(self.rows) if tokens[index - 1].kind in ("EQUAL", *_CLOSING) else 0
            commented = self._comments_until(token.start, within, first)
            if commented or index in added or self._kept(index):
                blank = not closes and len(self.rows) > first and self._blank(index, token.start)
                row = Row(opened[-1] if closes and opened else within, token.text, blank)
                self.rows.append(row)
            else:
                row.text += token.text if self.spacing.tight[index] else f" {token.text}"
            if token.kind in _CLOSING:
                opened.append(row.indent)
            elif closes and opened:
                opened.pop()

    def _breaks(self, item: Item, indent: int) -> frozenset[int]:
        """Where a `head = value` that is too long for a line is broken: behind the sign; if that is not enough,
        before each term of a sum too, or else in its longest brackets, after each comma. A list or set is broken
        after its commas at once."""
        start, end = self.ends[item.head.span.stop] + 1, self.ends[item.span.stop]
        terms: list[int] = []
        commas: list[int] = []
        # Of each pair of outermost brackets: how long it is, where it is broken.
        pairs: list[tuple[int, list[int]]] = []
        depth, opening = 0, start
        for index in range(start, end):
            kind = self.tokens[index].kind
            if kind in _CLOSING:
                if not depth:
                    opening, commas = index, []
                depth += 1
            elif kind in _CLOSING.values():
                depth -= 1
                if not depth and opening + 1 < index:
                    inner = [opening + 1, *(comma + 1 for comma in commas if comma + 1 < index), index]
                    pairs.append((len(self.spacing.line(self.tokens, opening, index)), inner))
            elif kind == "COMMA" and depth == 1:
                commas.append(index)
            elif kind in ("PLUS", "MINUS") and not depth and index not in self.spacing.signs:
                terms.append(index)
        whole = len(pairs) == 1 and pairs[0][1][0] == start + 1 and pairs[0][1][-1] == end - 1
        fits = indent + _CONTINUED + len(self.spacing.line(self.tokens, start, end)) <= WIDTH
        if fits and not whole:
            return frozenset([start])
        if terms:
            return frozenset([start, *terms])
        return frozenset(max(pairs)[1] if pairs else [])

    # ---- comments

    def _comments_until(self, stop: int, indent: int, first: int) -> bool:
        """Write the comments that stand before an offset; whether there were any."""
        begun = self.comment
        while self.comment < len(self.comments) and self.comments[self.comment].span.start < stop:
            self._write_comment(self.comments[self.comment], indent, first)
            self.comment += 1
        return self.comment > begun

    def _write_comment(self, comment: Comment, indent: int, first: int) -> None:
        start = comment.span.start
        line = self.text.rfind("\n", 0, start) + 1
        before = self.text[line:start].removeprefix("\ufeff")
        if before.strip():
            blanks = len(before) - len(before.rstrip())
            self.rows[-1].comment = comment.text
            self.rows[-1].beside = Place(start - line, blanks)
        else:
            blank = len(self.rows) > first and self._blank_above(line)
            self.rows.append(Row(indent, "", blank, comment=comment.text))

    def _has_comment(self, start: int, stop: int) -> bool:
        return bisect(self.commented, start) < bisect_left(self.commented, stop)

    def _blank(self, index: int, start: int) -> bool:
        return self.tokens[index].first and self._blank_above(self.text.rfind("\n", 0, start) + 1)

    def _blank_above(self, line: int) -> bool:
        """Whether the line before the one that begins at an offset is blank."""
        above = self.text.rfind("\n", 0, max(line - 1, 0)) + 1
        return line > 0 and not self.text[above : line - 1].strip()
