"""Brackets that do not match, put right by indentation before the parser sees them.

Newlines mean nothing to the grammar, so a file whose brackets match is left alone, however it is laid out.
Where they do not match, people's indentation tells best what they meant: a line that begins an item, no
further in than the line that opened the innermost block, says that a `}` is missing before it. The pass below
puts in the closing (or opening) brackets that are missing, drops those that close nothing, and reports each
once; the parser then runs over brackets that match, which makes skipping to the next item safe.

Lines that such a fault makes unreadable are tainted, so that it is not reported a second time.
"""

from __future__ import annotations

from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.tables import END
from rlspec.dsl.tokens import Scan, Token

CLOSING = {"LBRACE": "RBRACE", "LPAR": "RPAR", "LSQB": "RSQB"}
OPENING = {closing: opening for opening, closing in CLOSING.items()}
_SIGN = {"LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]"}


# Brackets inside each other, at most.
MAX_BRACKETS = 64
# How many tokens a look ahead for the end of a head or a line takes into account, so that it stays cheap on
# garbage.
_LONGEST_HEAD = 32
_LONGEST_LINE = 200


def item_shape(tokens: list[Token], index: int) -> bool:
    """Whether an item could begin at a token: a path, labels, then `=`, `{` or `:`, on one line."""
    stop = head_stop(tokens, index)
    sign = tokens[stop]
    return stop > index and sign.kind in ("EQUAL", "LBRACE", "COLON") and sign.line == tokens[index].line


def head_stop(tokens: list[Token], index: int) -> int:
    """The index behind the path and labels that begin at a token, or the index itself when none do."""
    line, limit = tokens[index].line, index + _LONGEST_HEAD
    if tokens[index].kind != "NAME":
        return index
    index += 1
    while tokens[index].kind == "DOT" and tokens[index + 1].kind == "NAME" and index < limit:
        index += 2
    while tokens[index].kind in ("NAME", "TEXT") and tokens[index].line == line and index < limit:
        index += 1
    return index


def repair(scanned: Scan) -> None:
    """Make the brackets of the token list match, in place. Where they nest too deeply, say so and cut the
    list off."""
    stack: list[str] = []
    matched = True
    for index, token in enumerate(scanned.tokens):
        if token.kind in CLOSING:
            stack.append(CLOSING[token.kind])
            if len(stack) > MAX_BRACKETS:
                _cut(scanned, index, stack[:-1])
                return
        elif token.kind in OPENING:
            if stack and stack[-1] == token.kind:
                stack.pop()
            else:
                matched = False
    if stack or not matched:
        scanned.tokens = _Repair(scanned).run()


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
    """An open bracket, and how far in the line is indented on which it stands."""

    token: Token
    indent: int

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
        kinds = [token.kind for token in self.tokens]
        self.missing = kinds.count("LBRACE") - kinds.count("RBRACE")
        self.regular = self._regular()

    def _regular(self) -> bool:
        """Whether indentation can be trusted even against the count: most lines that begin an item are indented. One
        brace too few and another too many cancel in the count."""
        columns = [t.column for i, t in enumerate(self.tokens) if t.first and item_shape(self.tokens, i)]
        return bool(columns) and columns.count(min(columns)) <= len(columns) // 2

    def run(self) -> list[Token]:
        indent = 0
        open_at = self._missing_openings()
        for index, token in enumerate(self.tokens):
            if index in open_at and (self.missing < 0 or self.regular):
                self._open(indent)
            if token.first:
                indent = token.column
                self._begin_line(index)
            if token.kind == "LBRACE" and self.missing > 0 and self.tokens[index + 1].kind == "LBRACE":
                self.missing -= 1
                self._report("RLC0006", "a block is opened twice", token, "remove this")
            elif token.kind in CLOSING:
                self.stack.append(_Open(token, indent))
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

    def _missing_openings(self) -> set[int]:
        """Where the file has too many closing braces: the tokens before which a `{` was probably forgotten,
        behind `kind label : component` when a deeper line or, before a `}` of the same line, another item
        follows."""
        found: set[int] = set()
        tokens = self.tokens
        wanted = -self.missing
        for index, token in enumerate(tokens):
            if len(found) >= wanted and not self.regular:
                break
            if not token.first or token.kind != "NAME":
                continue
            stop = head_stop(tokens, index)
            typed = tokens[stop].kind == "COLON"
            if typed:
                if tokens[stop + 1].kind != "NAME":
                    continue
                stop += 2
                while tokens[stop].kind == "DOT" and tokens[stop + 1].kind == "NAME":
                    stop += 2
            elif tokens[stop].kind == "DOT":
                stop -= 1
            if stop < index + 2:
                continue
            after = tokens[stop]
            if after.kind == "NAME" and after.first and after.column > token.column:
                if len(found) < wanted or (typed and item_shape(tokens, stop)):
                    found.add(stop)
            elif after.kind == "NAME" and not after.first and item_shape(tokens, stop):
                line = [t.kind for t in tokens[stop : stop + _LONGEST_LINE] if t.line == token.line]
                more = line.count("RBRACE") > line.count("LBRACE")
                if (typed and more) or (len(found) < wanted and (typed or more)):
                    found.add(stop)
        return found

    def _open(self, indent: int) -> None:
        before = self.out[-1]
        token = _synthetic("LBRACE", before)
        self.missing += 1
        self._report("RLC0006", "a block is not opened", before, "expected `{` after this")
        self.scanned.tainted.add(before.line)
        self.stack.append(_Open(token, indent))
        self.out.append(token)

    def _begin_line(self, index: int) -> None:
        """Before a line that begins an item: close what its indentation says is over."""
        token = self.tokens[index]
        if not item_shape(self.tokens, index):
            return
        while self.stack:
            top = self.stack[-1]
            if token.column > top.indent or top.token.line == token.line:
                return
            if top.kind == "LBRACE" and self.missing <= 0 and not self.regular:
                return
            self._shut()

    def _shut(self) -> None:
        """Close the innermost bracket here, and say so."""
        top = self.stack.pop()
        before = self.out[-1]
        sign = _SIGN[CLOSING[top.kind]]
        if top.kind == "LBRACE":
            self.missing -= 1
        if top.kind == "LBRACE" and before.line != top.token.line:
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
        if depth is not None and all(o.kind != "LBRACE" or o.token.line == token.line for o in stack[depth:]):
            while len(stack) > depth + 1:
                self._shut()
            stack.pop()
            return token
        if stack and stack[-1].kind != "LBRACE" and not self._closes_later(index, stack[-1].kind):
            top = stack.pop()
            sign = _SIGN[CLOSING[top.kind]]
            self._report("RLC0013", f"`{top.token.text}` is closed by `{token.text}`", token, f"expected `{sign}`")
            self.scanned.tainted.add(token.line)
            return token._replace(kind=CLOSING[top.kind], text=sign)
        self._drop(token)
        return None

    def _closes_later(self, index: int, kind: str) -> bool:
        """Whether the rest of the line closes a bracket that is open before it; of a bracket that was opened on an
        earlier line, whether anything behind does, before the next item."""
        token, depth = self.tokens[index], 0
        line, before = token.line, self.stack[-1].token.line < token.line
        indent = self.stack[-1].indent
        if before and token.first:
            return False
        for at in range(index + 1, min(index + _LONGEST_LINE, len(self.tokens))):
            token = self.tokens[at]
            if token.kind == END or (token.line != line and not before):
                return False
            if token.first and token.column <= indent and token.kind == "NAME":
                return False
            if token.kind == kind:
                depth += 1
            elif token.kind == CLOSING[kind]:
                depth -= 1
                if depth < 0:
                    return True
        return False

    def _close_brace(self, index: int, depth: int | None) -> Token | None:
        token, stack = self.tokens[index], self.stack
        if depth is None:
            self._drop(token, sure=self.tokens[index + 1].kind not in (END, "RBRACE"))
            return None
        follows = self.tokens[index + 1].kind
        inline = follows not in (END, "RBRACE", "NAME")
        if inline and stack[-1].kind != "LBRACE" and stack[depth].token.line != token.line:
            # Inside of parentheses that go on, a block does not end.
            self.missing += 1
            self._drop(token)
            return None
        while stack[-1].kind != "LBRACE":
            self._shut()
        top = stack[-1]
        apart = top.token.line != token.line
        if self.missing > 0 and token.first:
            indents = {o.indent for o in stack if o.kind == "LBRACE"}
            while self.missing > 0 and token.column in indents and token.column < stack[-1].indent:
                self._shut()
        elif self._too_many() and apart and (inline or self._strange(index, top)):
            self.missing += 1
            self._drop(token)
            return None
        stack.pop()
        return token

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
        diagnostic = Diagnostic(
            "RLC0007" if token.kind == "RBRACE" else "RLC0013",
            f"`{token.text}` closes nothing",
            token.span,
            label=f"no `{_SIGN[OPENING[token.kind]]}` is open here",
        )
        if token.line not in self.unreadable | self.reported:
            self.reported.add(token.line)
            (self.scanned.diagnostics if sure else self.scanned.doubtful).append(diagnostic)
        self.scanned.tainted.add(token.line)

    def _end(self) -> None:
        """Close what is open at the end of the file, with one diagnostic for all blocks."""
        while self.stack and self.stack[-1].kind != "LBRACE":
            self._shut()
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
        if at.line not in self.unreadable | self.reported:
            self.reported.add(at.line)
            self.scanned.diagnostics.append(Diagnostic(code, message, at.span, label=label, notes=notes))


def _synthetic(kind: str, before: Token) -> Token:
    """A bracket that is not in the text, right behind a token."""
    return Token(kind, _SIGN[kind], before.stop, before.stop, before.line, before.column, False)
