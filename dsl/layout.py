"""Brackets that do not match, put right by indentation before the parser sees them.

Newlines mean nothing to the grammar, so a file whose brackets match is left alone, however it is laid out.
Where they do not match, people's indentation tells best what they meant: a line that begins an item, no
further in than the line that opened the innermost block, says that a `}` is missing before it. The pass below
puts in the closing (or opening) brackets that are missing, drops those that close nothing, and reports each
once; the parser then runs over brackets that match, which makes skipping to the next item safe.

A file that does not parse although its brackets match may hold two mistakes that cancel, a bracket too few and one too
many: `distrust` holds each against the indentation as well (braces only where most items are indented).

Lines that such a fault makes unreadable are tainted, so that it is not reported a second time.
"""

from __future__ import annotations

from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.shapes import (
    CLOSING,
    LONGEST_LINE,
    OPENING,
    UNFINISHED,
    closed_at,
    closes_later,
    closings_ahead,
    head_stop,
    is_call,
    item_shape,
    missing_openings,
    opens_block,
    opens_nothing,
)
from rlspec.dsl.tables import END
from rlspec.dsl.tokens import Scan, Token

_SIGN = {"LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]"}

# Brackets inside each other, at most.
MAX_BRACKETS = 64
# How often in a file it is looked for what closes brackets far behind a token, so that garbage takes no longer.
_MAX_LOOKS = 1000


def repair(scanned: Scan, distrust: bool = False) -> bool:
    """Make the brackets of the token list match, in place; whether anything was changed. Where they nest too deeply,
    say so and cut the list off. With `distrust`, brackets that match are held against the indentation too: those of a
    file that does not parse may match only because two mistakes cancel."""
    stack: list[str] = []
    matched = True
    for index, token in enumerate(scanned.tokens):
        if token.kind in CLOSING:
            stack.append(CLOSING[token.kind])
            if len(stack) > MAX_BRACKETS:
                _cut(scanned, index, stack[:-1])
                return True
        elif token.kind in OPENING:
            if stack and stack[-1] == token.kind:
                stack.pop()
            else:
                matched = False
    if stack or not matched:
        scanned.tokens = _Repair(scanned).run()
        return True
    if distrust:
        before = scanned.tokens
        scanned.tokens = _Repair(scanned).run()
        return [t.kind for t in scanned.tokens] != [t.kind for t in before]
    return False


def _cut(scanned: Scan, index: int, closing: list[str]) -> None:
    token = scanned.tokens[index]
    message = f"blocks and brackets nest more than {MAX_BRACKETS} deep"
    label = "the rest of the file was not read"
    scanned.diagnostics.append(Diagnostic("RLC0010", message, token.span, label=label))
    before = scanned.tokens[index - 1]
    ends = [_synthetic(kind, before) for kind in reversed(closing)]
    scanned.tokens = [*scanned.tokens[:index], *ends, scanned.tokens[-1]]
    scanned.cut = True


@dataclass(frozen=True, slots=True)
class _Open:
    """An open bracket, and how far in the line is indented on which it stands. `block` tells that items stand in it,
    `items` how far in, if on lines of their own (else -1); a `ghost` is not in the token list: the line with the head
    was lost, and its closing brace is not kept either."""

    token: Token
    indent: int
    block: bool = False
    items: int = -1
    ghost: bool = False

    @property
    def kind(self) -> str:
        return self.token.kind


class _Repair:
    """One pass over the tokens. `missing` is how many closing braces the file lacks (negative: has too many),
    so a repair is only made in the direction that the count asks for."""

    def __init__(self, scanned: Scan) -> None:
        self.scanned = scanned
        self.tokens = scanned.tokens
        self.out: list[Token] = []
        self.stack: list[_Open] = []
        # Lines with a lexical error: what brackets they seem to lack or have too many of comes from that.
        self.unreadable = frozenset(scanned.tainted)
        self.reported: set[int] = set()
        # Closing brackets of the line before the item that was begun last, which that item holds too many; its column.
        self.owed: list[str] = []
        self.owing = -1
        self.looks = _MAX_LOOKS
        kinds = [token.kind for token in self.tokens]
        self.missing = kinds.count("LBRACE") - kinds.count("RBRACE")
        self.regular = self._regular()

    def _regular(self) -> bool:
        """Whether indentation can be trusted even against the count: most lines that begin an item are indented. One
        brace too few and another too many cancel in the count."""
        columns = [t.column for i, t in enumerate(self.tokens) if t.first and item_shape(self.tokens, i)]
        self.outermost = min(columns, default=0)
        return bool(columns) and columns.count(min(columns)) <= len(columns) // 2

    def run(self) -> list[Token]:
        indent = head = 0
        open_at = missing_openings(self.tokens, -self.missing, self.regular)
        for index, token in enumerate(self.tokens):
            if index in open_at and (self.missing < 0 or self.regular):
                self._open(indent, index)
            if token.first:
                indent, head = token.column, index
                self._begin_line(index)
            if token.kind == "LBRACE" and is_call(self.tokens, index, self.stack[-1].indent if self.stack else -1):
                self.missing -= 1
                self._report("RLC0013", f"`{self.tokens[index - 1].text}{{` is closed by `)`", token, "expected `(`")
                self.scanned.tainted.add(token.line)
                token = token._replace(kind="LPAR", text="(")
            if token.kind == "LBRACE" and self._opened_twice(index):
                self.missing -= 1
                self._report("RLC0006", "a block is opened twice", token, "remove this")
                self.scanned.tainted.add(token.line)
            elif token.kind == "LBRACE" and self._too_many_opened() and opens_nothing(self.tokens, index, indent):
                self.missing -= 1
                self._report("RLC0013", "`{` is not closed", token, "no block and no set can begin here")
                self.scanned.tainted.add(token.line)
            elif token.kind in CLOSING:
                if token.kind == "LBRACE" and index == head + 2 and self.tokens[head].text == "def":
                    self.missing -= 1
                    self._report("RLC0013", "parameters are opened by `{`", token, "expected `(`")
                    self.scanned.tainted.add(token.line)
                    token = token._replace(kind="LPAR", text="(")
                elif token.kind != "LBRACE" and opens_block(self.tokens, head, index):
                    self.missing += 1
                    self._report("RLC0006", f"a block is opened by `{token.text}`", token, "expected `{`")
                    self.scanned.tainted.add(token.line)
                    token = token._replace(kind="LBRACE", text="{")
                self.stack.append(self._opened(token, indent, index + 1))
                self.out.append(token)
            elif token.kind in OPENING:
                closing = self._close(index)
                if closing is not None:
                    self.out.append(closing)
            elif token.kind != END:
                self.out.append(token)
        self._end()
        self.out.append(self.tokens[-1])
        return self.out

    # ---- what is put in

    def _opened(self, token: Token, indent: int, index: int) -> _Open:
        """An open bracket whose first token inside is that at `index`."""
        inside = self.tokens[index]
        block = token.kind == "LBRACE" and (inside.first or inside.kind == "RBRACE" or item_shape(self.tokens, index))
        if token.kind == "LBRACE" and not block and self.tokens[index + 1].first:
            # `stage train : { grpo`, and items on the next lines
            inside = self.tokens[index + 1]
            block = inside.column > indent and item_shape(self.tokens, index + 1)
        return _Open(token, indent, block, inside.column if inside.first and inside.kind == "NAME" else -1)

    def _opened_twice(self, index: int) -> bool:
        """Whether another `{` follows that opens nothing."""
        if self.tokens[index + 1].kind != "LBRACE":
            return False
        block = index > 0 and self.tokens[index - 1].kind in ("NAME", "TEXT")
        return self.missing > 0 or (block and self.regular)

    def _too_many_opened(self) -> bool:
        return self.missing > 0 or self.regular

    def _open(self, indent: int, index: int) -> None:
        before = self.out[-1]
        token = _synthetic("LBRACE", before)
        self.missing += 1
        self._report("RLC0006", "a block is not opened", before, "expected `{` after this")
        self.scanned.tainted.add(before.line)
        self.stack.append(self._opened(token, indent, index))
        self.out.append(token)

    def _begin_line(self, index: int) -> None:
        """Before a line: if it begins an item, close what its indentation says is over."""
        token = self.tokens[index]
        if not item_shape(self.tokens, index):
            return
        if token.column <= self.owing:
            self.owed, self.owing = [], -1
        opened = [CLOSING[o.kind] for o in self.stack if o.kind != "LBRACE"]
        self._end_items(index)
        shut = opened[sum(o.kind != "LBRACE" for o in self.stack) :]
        if shut and self.tokens[index - 1].kind in UNFINISHED:
            # Two lines in the wrong order, head and value: what closes those brackets is still to come.
            self.owed, self.owing = shut, token.column

    def _end_items(self, index: int) -> None:
        """Before an item: close what cannot hold it."""
        token = self.tokens[index]
        while self.stack and not self.stack[-1].block and self._no_argument(index):
            self._shut()
        while self.stack:
            top = self.stack[-1]
            if top.block and self._head_lost(index):
                return
            if token.column > top.indent or top.token.line == token.line:
                return
            if top.kind == "LBRACE" and self.missing <= 0 and not self.regular:
                return
            self._shut()
        self._head_lost(index)

    def _no_argument(self, index: int) -> bool:
        """Whether an item begins here that cannot stand in the innermost bracket, which is no block."""
        tokens, top = self.tokens, self.stack[-1]
        if top.token.line == tokens[index].line:
            return False
        plain = head_stop(tokens, index) == index + 1 and tokens[index + 1].kind != "LBRACE"
        return not plain or top.kind == "LSQB" or tokens[index - 1].kind not in ("COMMA", "LPAR")

    def _head_lost(self, index: int) -> bool:
        """Items that are deeper than those before them in their block, and a `}` behind them as deep as those before:
        the line with the head and the `{` is gone. Where that is so, say it, and read them as items of the block
        around."""
        tokens = self.tokens
        token = tokens[index]
        column = self.stack[-1].items if self.stack else self.outermost
        if column < 0 or token.column <= column or not (self.missing < 0 or self.regular):
            return False
        if index and (tokens[index - 1].kind in UNFINISHED or not closed_at(tokens, index, column)):
            return False
        self.missing += 1
        if not index or tokens[index - 1].line not in self.unreadable:
            self._report("RLC0006", "a block is not opened", token, "expected a head and `{` before this line")
        opening = token._replace(kind="LBRACE", text="{", stop=token.start)
        self.stack.append(_Open(opening, column, True, token.column, ghost=True))
        return True

    def _shut(self) -> None:
        """Close the innermost bracket here, and say so."""
        top = self.stack.pop()
        if top.ghost:
            self.missing -= 1
            return
        before = self.out[-1]
        sign = _SIGN[CLOSING[top.kind]]
        if top.kind == "LBRACE":
            self.missing -= 1
        if top.block and before.line != top.token.line:
            self._report(
                "RLC0006",
                "a block is not closed",
                before,
                f"expected `{sign}` after this",
                f"the block was opened on line {top.token.line + 1}",
            )
        else:
            self._report("RLC0013", f"`{top.token.text}` is not closed", top.token, f"expected `{sign}` to close this")
            self.scanned.tainted.update(range(top.token.line, before.line + 1))
        self.out.append(_synthetic(CLOSING[top.kind], before))

    # ---- what is there

    def _close(self, index: int) -> Token | None:
        """Match a closing bracket; return it, another that should stand for it, or None when it is
        dropped."""
        token = self.tokens[index]
        wanted = OPENING[token.kind]
        stack = self.stack
        depth = next((d for d in range(len(stack) - 1, -1, -1) if stack[d].kind == wanted), None)
        if token.kind == "RBRACE":
            return self._close_brace(index, depth)
        if depth is not None and self._reaches(index, depth):
            while len(stack) > depth + 1:
                self._shut()
            stack.pop()
            return token
        if stack and stack[-1].block and self._ends_block(index):
            self.missing -= 1
            top = stack.pop()
            self._report("RLC0013", f"`{{` is closed by `{token.text}`", token, "expected `}`")
            self.scanned.tainted.add(token.line)
            return None if top.ghost else token._replace(kind="RBRACE", text="}")
        if stack and not stack[-1].block and not closes_later(self.tokens, index, stack[-1].token, stack[-1].indent):
            if stack[-1].kind == "LBRACE":
                self.missing -= 1
            return self._closed_by(token)
        self._drop(token)
        return None

    def _closed_by(self, token: Token) -> Token:
        """The bracket that is meant by a wrong one that closes the innermost."""
        top = self.stack.pop()
        sign = _SIGN[CLOSING[top.kind]]
        self._report("RLC0013", f"`{top.token.text}` is closed by `{token.text}`", token, f"expected `{sign}`")
        self.scanned.tainted.add(token.line)
        return token._replace(kind=CLOSING[top.kind], text=sign)

    def _reaches(self, index: int, depth: int) -> bool:
        """Whether a `)` or `]` closes the bracket at a depth of the stack, and those inside of it lack theirs."""
        token, inside = self.tokens[index], self.stack[depth:]
        if any(o.kind == "LBRACE" and o.token.line != token.line for o in inside) and any(o.block for o in inside):
            return False
        return self.stack[-1].kind != "LBRACE" or self.stack[-1].block or self._short(index, depth + 1)

    def _short(self, index: int, count: int) -> bool:
        """Whether fewer brackets are closed behind a token, in the same item, than are open among the first `count` of
        the stack."""
        if not self._may_look():
            return False
        first = next((d for d in range(count, 0, -1) if self.stack[d - 1].block), 0)
        opened = [o for o in self.stack[first:count] if o.kind != "LBRACE"]
        return bool(opened) and len(opened) > closings_ahead(self.tokens, index + 1, opened[0].indent)

    def _may_look(self) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def _ends_block(self, index: int) -> bool:
        """Whether a `)` or `]` that closes nothing stands where the innermost block ends."""
        token, top, after = self.tokens[index], self.stack[-1], self.tokens[index + 1]
        if token.first:
            return token.column == top.indent and top.token.line != token.line
        if after.column > top.indent and item_shape(self.tokens, index + 1):
            return False
        line = [t.kind for t in self.tokens[index + 1 : index + LONGEST_LINE] if t.line == token.line]
        return top.token.line == token.line and after.first and line.count("RBRACE") <= line.count("LBRACE")

    def _ends_bracket(self, index: int, depth: int) -> bool:
        """Whether a `}` inside of `(` or `[` is meant to close that: the block around it ends later."""
        token, top, block = self.tokens[index], self.stack[-1], self.stack[depth]
        if token.first or top.token.line != token.line:
            return False
        if block.token.line != token.line:
            return closed_at(self.tokens, index + 1, block.indent)
        line = [t.kind for t in self.tokens[index + 1 : index + LONGEST_LINE] if t.line == token.line]
        return line.count("RBRACE") > line.count("LBRACE")

    def _close_brace(self, index: int, depth: int | None) -> Token | None:
        token, stack = self.tokens[index], self.stack
        after = self.tokens[index + 1]
        if depth is None and stack and self._short(index, len(stack)):
            return self._closed_by(token)
        if depth is None:
            self._drop(token, sure=after.kind not in (END, "RBRACE"))
            return None
        inline = after.kind not in (END, "RBRACE", "NAME") and not (after.first and after.column <= stack[depth].indent)
        if inline and stack[-1].kind != "LBRACE" and stack[depth].token.line != token.line:
            # Inside of parentheses that go on, a block does not end.
            self.missing += 1
            if self._short(index, len(stack)):
                return self._closed_by(token)
            self._drop(token)
            return None
        if len(stack) - 1 == depth + 1 and not stack[-1].block and self._ends_bracket(index, depth):
            self.missing += 1
            return self._closed_by(token)
        while stack[-1].kind != "LBRACE":
            self._shut()
        top = stack[-1]
        apart = top.token.line != token.line
        if token.first and (self.missing > 0 or (self.regular and token.column < top.indent)):
            indents = {o.indent for o in stack if o.kind == "LBRACE"}
            while self._too_many_opened() and token.column in indents and token.column < stack[-1].indent:
                self._shut()
        elif apart and self._not_here(index, top, inline):
            self.missing += 1
            self._drop(token)
            return None
        return None if stack.pop().ghost else token

    def _not_here(self, index: int, top: _Open, inline: bool) -> bool:
        """Whether a `}` does not end the block, opened on an earlier line, that is innermost."""
        token = self.tokens[index]
        if token.first and token.column == top.indent and self.missing >= 0:
            return False
        if self.regular and not token.first and self._may_look() and closed_at(self.tokens, index + 1, top.indent):
            return True
        return self._too_many() and (inline or self._strange(index, top))

    def _too_many(self) -> bool:
        return self.missing < 0 or (self.missing == 0 and self.regular)

    def _strange(self, index: int, top: _Open) -> bool:
        """Whether by its place a closing brace does not look like the end of a block: it begins a line that
        is not indented like the block's, or the next line goes on inside of the block."""
        token, after = self.tokens[index], self.tokens[index + 1]
        if token.first:
            return token.column != top.indent
        return after.first and after.kind == "NAME" and after.column > top.indent

    def _drop(self, token: Token, sure: bool = True) -> None:
        if token.kind in self.owed:
            self.owed.remove(token.kind)
            self.scanned.tainted.add(token.line)
            return
        diagnostic = Diagnostic(
            "RLC0007" if token.kind == "RBRACE" else "RLC0013",
            f"`{token.text}` closes nothing",
            token.span,
            label=f"no `{_SIGN[OPENING[token.kind]]}` is open here",
        )
        if token.line not in self.unreadable and token.line not in self.reported:
            self.reported.add(token.line)
            (self.scanned.diagnostics if sure else self.scanned.doubtful).append(diagnostic)
        self.scanned.tainted.add(token.line)

    def _end(self) -> None:
        """Close what is open at the end of the file, with one diagnostic for all blocks."""
        while self.stack and self.stack[-1].kind != "LBRACE":
            self._shut()
        self.stack = [o for o in self.stack if not o.ghost]
        blocks = [o for o in self.stack if o.kind == "LBRACE"]
        if not blocks:
            return
        before = self.out[-1]
        lines = ", ".join(str(o.token.line + 1) for o in blocks)
        said = "a block is not closed" if len(blocks) == 1 else f"{len(blocks)} blocks are not closed"
        opened = f"opened on line {lines}" if len(blocks) == 1 else f"opened on lines {lines}"
        self._report("RLC0006", said, before, "expected `}` after this", opened)
        self.scanned.tainted.add(before.line)
        while self.stack:
            self.out.append(_synthetic(CLOSING[self.stack.pop().kind], before))

    def _report(self, code: str, message: str, at: Token, label: str, *notes: str) -> None:
        if at.line not in self.unreadable and at.line not in self.reported:
            self.reported.add(at.line)
            self.scanned.diagnostics.append(Diagnostic(code, message, at.span, label=label, notes=notes))


def _synthetic(kind: str, before: Token) -> Token:
    """A bracket that is not in the text, right behind a token."""
    return Token(kind, _SIGN[kind], before.stop, before.stop, before.line, before.column, False)
