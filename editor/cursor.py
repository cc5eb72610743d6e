"""Where a cursor stands: in which blocks, at which place of an item, in which call. Reads the tokens before it and no
tree, so that it works in the middle of typing.

Items need no separators: behind an expression that could end, a word begins the next item, unless it is one of the
words that go on (`over`, `where`, `in` ...).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rlspec.dsl.tokens import Token

ENDS = ("NAME", "NUMBER", "TEXT", "TRUE", "FALSE", "RPAR", "RSQB", "RBRACE")
_BRACKETS = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}


@dataclass(slots=True)
class HeadSoFar:
    """A head: dotted path, labels, and the dotted name behind its colon (a component, or a type's base)."""

    path: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    component: str = ""
    start: int = 0

    @property
    def kind(self) -> str:
        return self.path[0] if self.path else ""


@dataclass(slots=True)
class Bracket:
    """An open bracket inside of a value: the function before it, how many commas and which named arguments came, and
    the argument's name if it has one."""

    kind: str
    function: str = ""
    commas: int = 0
    name: str = ""
    given: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cursor:
    """`place` is one of item, path, label, component, level, range, base, on, value, member, axis, text, comment.
    `word` is what has been typed of the word at the cursor, from `start`; `target` what stands before a dot."""

    place: str
    blocks: list[HeadSoFar]
    head: HeadSoFar
    brackets: list[Bracket]
    before: list[Token]
    start: int
    word: str
    target: str = ""
    siblings: list[str] = field(default_factory=list)


class _Reader:
    """Runs over the tokens before the cursor, once, forward."""

    def __init__(self) -> None:
        self.blocks: list[HeadSoFar] = []
        self.given: list[list[str]] = [[]]
        self.head = HeadSoFar()
        self.state = "item"
        self.brackets: list[Bracket] = []
        self.before: Token | None = None
        self.lead: list[str] = []

    def take(self, token: Token) -> None:
        kind = token.kind
        if self.state in ("value", "type") and not self.brackets and self._begins_item(token):
            self._end_item()
        if self.state == "item":
            if kind == "RBRACE":
                self._leave()
            elif kind == "NAME":
                self.head, self.state = HeadSoFar([token.text], start=token.start), "head"
        elif self.state == "head":
            self._in_head(token)
        elif self.state in ("type", "value"):
            self._inside(token)
        self.before = token

    def _begins_item(self, token: Token) -> bool:
        if self.before is None or self.before.kind not in ENDS:
            return False
        if self.state == "type" and token.text == "on" and not token.first:
            return False
        return token.kind == "RBRACE" or (token.kind == "NAME" and self.before.kind not in ("AT", "DOT"))

    def _end_item(self) -> None:
        self.given[-1].append(self.head.path[0] if self.head.path else "")
        self.state, self.head, self.brackets = "item", HeadSoFar(), []

    def _leave(self) -> None:
        if self.blocks:
            self.head = self.blocks.pop()
            self.given.pop()
        self._end_item()

    def _enter(self) -> None:
        self.blocks.append(self.head)
        self.given.append([])
        self.head, self.state, self.brackets = HeadSoFar(), "item", []

    def _in_head(self, token: Token) -> None:
        kind = token.kind
        if kind == "NAME" and self.before is not None and self.before.kind == "DOT" and not self.head.labels:
            self.head.path.append(token.text)
        elif kind in ("NAME", "TEXT"):
            if token.first:  # the head on the line before was not finished
                self._end_item()
                self.head, self.state = HeadSoFar([token.text], start=token.start), "head"
            else:
                self.head.labels.append(token.text)
        elif kind == "COLON":
            self.state = "type"
        elif kind == "EQUAL":
            self.state = "value"
        elif kind == "LBRACE":
            self._enter()
        elif kind == "RBRACE":
            self._end_item()
            self._leave()
        elif kind == "LPAR":
            self.brackets.append(Bracket("LPAR", "def"))
            self.state = "type"

    def _inside(self, token: Token) -> None:
        kind, before = token.kind, self.before
        typed = before is not None and before.kind in ("NAME", "TEXT", "RBRACE", "RSQB", "RPAR")
        if kind == "LBRACE" and not self.brackets and self.state == "type" and typed:
            self._enter()
            return
        if kind in ("LPAR", "LSQB", "LBRACE"):
            called = kind == "LPAR" and before is not None and before.kind == "NAME"
            self.brackets.append(Bracket(kind, ".".join(self.lead) if called else ""))
        elif kind in _BRACKETS:
            while self.brackets and self.brackets.pop().kind != _BRACKETS[kind]:
                continue
        elif kind == "COMMA" and self.brackets:
            self.brackets[-1].commas += 1
            self.brackets[-1].name = ""
        elif kind == "EQUAL" and self.brackets:
            if before is not None and before.kind == "NAME":
                self.brackets[-1].name = before.text
                self.brackets[-1].given.append(before.text)
        elif kind == "EQUAL":
            self.state = "value"
        elif kind == "COLON" and not self.brackets:
            self.state = "type"
        if kind == "NAME":
            self.lead = [*self.lead, token.text] if before is not None and before.kind == "DOT" else [token.text]
            if self.state == "type" and not self.brackets and (before is None or before.kind in ("COLON", "DOT")):
                self.head.component = ".".join(self.lead)


def cursor_at(tokens: list[Token], comments: list[int], text: str, offset: int) -> Cursor:
    """Where an offset stands. `comments` are where the comments begin, `tokens` those of the whole text."""
    reader = _Reader()
    before: list[Token] = []
    start, word, place = offset, "", ""
    for token in tokens:
        if token.start >= offset or token.kind == "$END":
            break
        if token.stop >= offset and token.text[:1].isidentifier():
            start, word = token.start, text[token.start : offset]
            break
        if token.kind == "TEXT" and (token.stop > offset or not _closed(token.text)):
            place = "text" if "\n" not in text[token.start : offset] else ""
        reader.take(token)
        before.append(token)
    if any(begin < offset and "\n" not in text[begin:offset] for begin in comments):
        place = "comment"
    target = ""
    if not place:
        place, target = _place(reader, before, text, start)
    begun = [reader.head.kind] if place == "item" else []
    siblings = [*reader.given[-1], *begun]
    return Cursor(place, reader.blocks, reader.head, reader.brackets, before, start, word, target, siblings)


def _closed(text: str) -> bool:
    return len(text) > 1 and text.endswith('"')


def _place(reader: _Reader, before: list[Token], text: str, start: int) -> tuple[str, str]:
    last = before[-1] if before else None
    if last is None:
        return "item", ""
    same_line = "\n" not in text[last.stop : start]
    if last.kind == "DOT" and reader.state != "item":
        target = ".".join(reader.head.path) if reader.state == "head" else ".".join(reader.lead)
        return ("path" if reader.state == "head" else "member"), target
    if reader.state == "item":
        return "item", ""
    if reader.state == "head":
        if last.text == "on":
            return "on", ""
        return ("label", "") if same_line else ("item", "")
    if last.kind == "AT":
        return "level", ""
    if last.kind == "NAME" and last.text == "on" and same_line and reader.state in ("type", "item"):
        return "on", ""
    if last.kind == "EXTENDS":
        return "base", ""
    if last.kind in ("OVER", "ALIGN") or _in_axes(before):
        return "axis", ""
    if reader.brackets and reader.brackets[-1].function in ("num", "index"):
        return "axis", ""
    if last.kind in ENDS and not reader.brackets:
        return ("after" if same_line and reader.state == "type" else "item"), ""
    if reader.state == "type":
        return ("component" if last.kind == "COLON" else "range"), ""
    return "value", ""


def _in_axes(before: list[Token]) -> bool:
    """Inside of the parentheses of `over (traj, |`."""
    for token in reversed(before):
        if token.kind == "LPAR":
            at = before.index(token)
            return at > 0 and before[at - 1].kind == "OVER"
        if token.kind not in ("NAME", "COMMA"):
            return False
    return False
