"""Going on after a syntax error: one report for each fault, and as much of the file kept as is sound.

The brackets match when this starts (`layout` saw to it), so nesting can be trusted. Where a token does not
fit, in this order:

1. A head that its line ended is said to be one (RLC0008), and the next line begins an item.
2. A value that is missing before the next item is reported where it is missing.
3. One-token repairs are tried: the word that was meant, a token too many, a sign or a value too few. The
   first that lets the next tokens fit is taken. A value that was invented never reaches the tree: its item
   is dropped.
4. Else the item is dropped. If its block is still to come, the head is kept as far as it goes, so that
   errors inside the block are found too.

Each round takes a token, or drops one, or pops the stack to a block that the next token fits, so this
terminates.
"""

from __future__ import annotations

import bisect

from rlspec.dsl.annotations import Any
from rlspec.dsl.automaton import HEAD_SIGNS, MAX_STACK, Automaton
from rlspec.dsl.diagnostics import Diagnostic, Fix, near_name
from rlspec.dsl.reductions import name_of
from rlspec.dsl.shapes import CLOSING, OPENING, item_shape
from rlspec.dsl.tables import END, Tables
from rlspec.dsl.tokens import Scan, Token
from rlspec.dsl.tree import Head, Name, Span, Text

# After so many errors, told or not, the rest of the text is not read.
MAX_FAULTS = 300
# How many tokens must fit behind a repair.
_PROBE = 4
_SIGNS_TOO_FEW = ("COMMA", "EQUAL", "COLON", "THEN", "ELSE", "OVER", "DOT", "STAR")
_OPERATORS = frozenset(
    {"EQUAL", "PLUS", "MINUS", "STAR", "SLASH", "CIRCUMFLEX", "COMPARE", "IN", "AND", "OR", "NOT"}
    | {"THEN", "ELSE", "IF", "COLON", "AT", "EXTENDS", "ON", "DOT", "WHERE", "OVER", "ALIGN"}
)
_INFIX = ("and", "or", "in", "not", "over", "where")
# `env shop = { n = 1 }`: what stands before the second `=`.
_SET_FOR_BLOCK = ["EQUAL", "LBRACE", "NAME"]
_PARAMETER_STATES = ("parameters: LPAR . RPAR", "parameter: NAME . COLON type")
_LABEL_STATES = ("path: NAME .", "path: path DOT NAME .", "labels: labels NAME .", "labels: labels TEXT .")


class Recovery:
    """Drives an automaton over the tokens of a text and writes what it finds into `scanned.diagnostics`."""

    def __init__(self, tables: Tables, scanned: Scan, start: str) -> None:
        self.tables = tables
        self.scanned = scanned
        self.tokens = scanned.tokens
        self.start = start
        self.automaton = Automaton(tables, start)
        self.errors: list[Diagnostic] = []
        self._levels: list[int] | None = None
        self._begins: list[int] | None = None

    def run(self) -> Any:
        """The value of the start symbol; for a file with errors, its sound items; else None."""
        tokens, automaton = self.tokens, self.automaton
        label_states = {s for s, k in enumerate(self.tables.kernels) if len(k) == 1 and k[0] in _LABEL_STATES}
        index, last, faults = 0, len(tokens) - 1, 0
        while True:
            index, stuck = automaton.advance(tokens, index, label_states)
            token = tokens[index]
            if token.first and not stuck:
                if automaton.states[-1] in label_states and token.kind in ("NAME", "TEXT"):
                    index = self._head_ended(index)
                    continue
                if token.kind in HEAD_SIGNS:
                    self._check_same_line(index)
            if not stuck and automaton.take(token):
                if index == last:
                    break
                index += 1
                if len(automaton.states) > MAX_STACK:
                    self._report("RLC0010", "an expression nests too deeply", token, "the rest was not read")
                    break
                continue
            index = self._error(index)
            faults += 1
            if index < 0 or faults > MAX_FAULTS:
                break
        self.scanned.diagnostics += automaton.too_deep
        if not self.scanned.cut:
            self.scanned.diagnostics += self.errors
        if not self.scanned.diagnostics:
            self.scanned.diagnostics += self.scanned.doubtful
        return automaton.values[0] if automaton.values else None

    # ---- reporting

    def _report(
        self,
        code: str,
        message: str,
        at: Token | Span,
        label: str = "",
        *,
        line: int = -1,
        fix: Fix | None = None,
    ) -> None:
        """Say it, unless something was said of this line already."""
        span = at.span if isinstance(at, Token) else at
        line = at.line if isinstance(at, Token) else line
        if line not in self.scanned.tainted:
            self.scanned.tainted.add(line)
            self.errors.append(Diagnostic(code, message, span, label=label, fix=fix))

    # ---- what is wrong

    def _error(self, index: int) -> int:
        """Report that a token does not fit, and return the index to go on from, or -1 to give up."""
        token, automaton = self.tokens[index], self.automaton
        accepted = automaton.accepted()
        if token.text in self.tables.contextual and not token.first:
            kind = self.tables.contextual[token.text]
            if automaton.fits([kind]) is not None:
                self.tokens[index] = token._replace(kind=kind)
                return index
        before = self.tokens[index - 1] if index else None
        ended = before is not None and (
            token.synthetic or token.kind == END or (token.first and token.kind in ("NAME", "RBRACE"))
        )
        if ended and {"EQUAL", "LBRACE"} <= accepted:
            return self._head_ended(index)
        begun = self._begun_item(index)
        if begun is not None:
            return self._value_missing(begun)
        if token.kind == "EQUAL" and [t.kind for t in self.tokens[max(index - 3, 0) : index]] == _SET_FOR_BLOCK:
            self._report(
                "RLC0005",
                "a block follows its head without `=`",
                self.tokens[index - 3],
                "remove this",
                fix=Fix(Span(self.tokens[index - 4].stop, self.tokens[index - 3].stop), ""),
            )
            return self._panic(index)
        kernel = self.tables.kernels[automaton.before[-1]]
        if kernel and kernel[0] in _PARAMETER_STATES and self._item_start(index).text != "def":
            return self._parameters_of_no_def(index)
        from rlspec.dsl.expectations import expectation  # a sound file needs no words

        said = expectation(automaton.before[-1], self.start, self.tables, accepted, before, token)
        fix = Fix(token.span, said.instead) if said.instead else None
        if ended and before is not None:
            # Nothing is wrong with the next line: the fault is where this one ends.
            if before.kind != "EQUAL" or not self._value_before(index - 1):
                self._report("RLC0005", said.message, before, said.label)
        else:
            self._report("RLC0005", said.message, token, said.label, fix=fix)
        if said.instead:
            kind = self.tables.keywords.get(said.instead) or self.tables.contextual[said.instead]
            if self._fits_with([kind], index + 1):
                self.tokens[index] = token._replace(kind=kind, text=said.instead)
                return index
        repaired = self._repaired(index, accepted)
        return self._panic(index) if repaired is None else repaired

    def _head_ended(self, index: int) -> int:
        """A head that neither `=` nor `{` follows on its line."""
        tokens = self.tokens
        last = tokens[index - 1]
        word = self._foreign_infix(index)
        if word is not None:
            token, meant = word
            self._report(
                "RLC0005",
                f"expected an operator or the next item, found `{token.text}`",
                token,
                f"did you mean `{meant}`?",
                fix=Fix(token.span, meant),
            )
        else:
            span = Span(self._item_start(index).start, last.stop)
            message = "a head ends without `=` or `{`"
            self._report("RLC0008", message, span, "expected `=` or `{` after this", line=last.line)
            if (
                not item_shape(tokens, index)
                and tokens[index].column > self._indent(index)
                and self._fits_with(["EQUAL"], index)
            ):
                # The value stands on the next line, and only the sign is missing.
                self.automaton.invented.append(last.stop)
                self.automaton.take(last._replace(kind="EQUAL", text="=", start=last.stop))
                return index
        return self._panic(index)

    def _parameters_of_no_def(self, index: int) -> int:
        """`place reported(loss)`: a `=` was forgotten, and the value was read as the parameters of a
        `def`."""
        opening = next(v for v in reversed(self.automaton.values) if isinstance(v, Token) and v.kind == "LPAR")
        before = self.tokens[self._index_of(opening) - 1]
        message = f"expected `=` before `{before.text}(`"
        self._report("RLC0005", message, before, "only the head of a `def` has parameters")
        return self._panic(index)

    def _indent(self, index: int) -> int:
        """How far the line is indented on which the item that is being read began."""
        return self.tokens[self._line_begin(self._index_of(self._item_start(index)))].column

    def _item_start(self, index: int) -> Token:
        """The first token of the item that is being read, before `index`."""
        automaton = self.automaton
        gotos = self.tables.gotos
        for depth in range(len(automaton.states) - 1, -1, -1):
            if "item" in gotos[automaton.states[depth]]:
                if depth < len(automaton.values):
                    start = _start_of(automaton.values[depth])
                    at = bisect.bisect_left(self.tokens, start, key=lambda t: t.start)
                    while self.tokens[at].synthetic:
                        at += 1
                    return self.tokens[at]
                break
        return self.tokens[index - 1]

    def _foreign_infix(self, index: int) -> tuple[Token, str] | None:
        """`x = a adn b` reads as an item `x` and a head `adn b`: the word that begins such a head, not its
        line, and what was probably meant."""
        token = self._item_start(index)
        if token.first or token.kind != "NAME":
            return None
        meant = near_name(token.text.lower(), _INFIX)
        return (token, meant) if meant else None

    def _check_same_line(self, index: int) -> None:
        """A head that goes on with `:`, `@` or `extends` on the next line, outside of parentheses."""
        if self.levels[index] == self._block_level():
            message = "a head stands on one line"
            self._report("RLC0008", message, self.tokens[index], "write this on the line on which the head begins")

    def _begun_item(self, index: int) -> int | None:
        """If the token that does not fit belongs to the head of an item that was read as a value (`x =` and,
        on the next line, `y = 5`): where that item begins."""
        tokens, token = self.tokens, self.tokens[index]
        if token.kind not in ("EQUAL", "COLON", "LBRACE", "NAME", "TEXT"):
            return None
        start = self._line_begin(index)
        if start != index and tokens[start].first and self._is_next_item(start):
            return start
        if index > 1 and tokens[index - 2].kind == "EQUAL" and self._is_next_item(index - 1):
            return index - 1
        return None

    def _is_next_item(self, start: int) -> bool:
        tokens = self.tokens
        return (
            start > 0
            and tokens[start - 1].kind in _OPERATORS
            and item_shape(tokens, start)
            and self.levels[start] == self._block_level()
        )

    def _value_missing(self, start: int) -> int:
        """The item before `start` breaks off behind an operator."""
        before = self.tokens[start - 1]
        found = self.tokens[start]
        what = "a name" if before.kind in ("DOT", "ALIGN", "OVER", "ON", "EXTENDS") else "a value"
        what = {"COLON": "a type or a component", "AT": "a level"}.get(before.kind, what)
        from rlspec.dsl.expectations import shown

        message = f"expected {what} after `{before.text}`, found the next item, {shown(found)}"
        if not self._value_before(start - 1):
            self._report("RLC0005", message, before)
        return self._panic(start)

    def _value_before(self, index: int) -> bool:
        """Whether the line before that of a token was refused, and is deeper than it and begins no item: the value that
        is missing there, in the wrong order."""
        begin = self._line_begin(index)
        value = self._line_begin(begin - 1) if begin else begin
        token = self.tokens[value]
        refused = token.line == self.tokens[begin].line - 1 and token.line in self.scanned.tainted
        return refused and token.column > self.tokens[begin].column and not item_shape(self.tokens, value)

    # ---- repairs of one token

    def _fits_with(self, put_in: list[str], index: int) -> bool:
        """Whether these terminals and then the tokens from `index` on would fit."""
        ahead = [t.kind for t in self.tokens[index : index + _PROBE]]
        return self.automaton.fits([*put_in, *ahead]) is not None

    def _repaired(self, index: int, accepted: set[str]) -> int | None:
        """Try to go on as if one token were other than it is; the index to go on from, or None."""
        token, automaton = self.tokens[index], self.automaton
        if token.kind == END or (token.first and item_shape(self.tokens, index)):
            return None
        paired = token.kind in CLOSING or token.kind in OPENING
        if not paired and index and token.text == self.tokens[index - 1].text and self._fits_with([], index + 1):
            return index + 1
        if token.kind == "EQUAL" and "COMPARE" in accepted and self._fits_with(["COMPARE"], index + 1):
            automaton.invented.append(token.start)
            self.tokens[index] = token._replace(kind="COMPARE")
            return index
        for kind in _SIGNS_TOO_FEW:
            if kind in accepted and self._fits_with([kind], index):
                automaton.invented.append(token.start)
                automaton.take(token._replace(kind=kind, stop=token.start))
                return index
        if "NUMBER" in accepted and self._fits_with(["NAME"], index):
            automaton.invented.append(token.start)
            automaton.take(token._replace(kind="NAME", text="_", stop=token.start))
            return index
        if not paired and self._fits_with([], index + 1):
            automaton.invented.append(token.start)
            return index + 1
        return None

    # ---- dropping an item

    def _panic(self, index: int) -> int:
        """Back to the block around, on to the next item in it or to its end; -1 where there is none."""
        automaton, tokens = self.automaton, self.tokens
        if self.start != "file":
            return -1
        token = tokens[index]
        indent = self._indent(index)
        if (token.first or token.kind == "COMMA") and automaton.finish_item():
            dropped = []
        else:
            dropped = automaton.drop_item()
        level = self._block_level()
        head = _head_so_far(dropped)
        if head is not None:
            body = self._body_ahead(index, level, dropped)
            if body is not None:
                automaton.push("head", head)
                return body
        levels = self.levels
        while True:
            token = tokens[index]
            if token.kind == END or levels[index] < level:
                return index
            if levels[index] == level and token.kind == "NAME" and self._begins_item(index, indent):
                return index
            index += 1

    def _body_ahead(self, index: int, level: int, dropped: list[Any]) -> int | None:
        """The `{` of the block of a head that was dropped, if it stands on the line of the error."""
        tokens, levels = self.tokens, self.levels
        opened = next((v for v in dropped if isinstance(v, Token) and v.kind in ("LBRACE", "EQUAL")), None)
        if opened is not None:
            # `env shop : shop = { a = 1 }`: the set that was begun is a block.
            at = next((v for v in dropped if isinstance(v, Token) and v.kind == "LBRACE"), None)
            position = self._index_of(at) if at is not None else -1
            fits = position > 0 and tokens[position - 1].kind == "EQUAL" and item_shape(tokens, position + 1)
            return position if fits else None
        line = tokens[index - 1].line if index else 0
        while tokens[index].line == line and levels[index] >= level and tokens[index].kind != END:
            if tokens[index].kind == "LBRACE" and levels[index] == level:
                after = tokens[index + 1].kind
                return index if after == "RBRACE" or item_shape(tokens, index + 1) else None
            index += 1
        return None

    def _begins_item(self, index: int, indent: int) -> bool:
        """Whether to go on here: at what looks like an item, or at a line no deeper than that of the dropped
        one."""
        tokens = self.tokens
        if item_shape(tokens, index):
            return tokens[index].first or tokens[index - 1].kind not in _OPERATORS
        return tokens[index].first and tokens[index].column <= indent

    # ---- nesting

    @property
    def levels(self) -> list[int]:
        """How many brackets are open around each token; an opening one and its closing one have the same
        number."""
        if self._levels is None:
            self._levels, level = [], 0
            for token in self.tokens:
                if token.kind in OPENING:
                    level -= 1
                self._levels.append(level)
                if token.kind in CLOSING:
                    level += 1
        return self._levels

    def _line_begin(self, index: int) -> int:
        """The index of the first token of a token's line."""
        if self._begins is None:
            self._begins = [index for index, token in enumerate(self.tokens) if token.first]
        return self._begins[max(bisect.bisect_right(self._begins, index) - 1, 0)]

    def _block_level(self) -> int:
        """The level of the items of the innermost open block."""
        automaton, gotos = self.automaton, self.tables.gotos
        for depth in range(len(automaton.states) - 1, 0, -1):
            if "item" in gotos[automaton.states[depth]]:
                opening = automaton.values[depth - 2] if depth > 1 else None
                if isinstance(opening, Token):
                    return self.levels[self._index_of(opening)] + 1
                return 0
        return 0

    def _index_of(self, token: Token) -> int:
        index = bisect.bisect_left(self.tokens, token.start, key=lambda t: t.start)
        while self.tokens[index] is not token:
            index += 1
        return index


def _start_of(value: Any) -> int:
    """Where a value of the stack begins in the text."""
    if isinstance(value, Token):
        return value.start
    if isinstance(value, list):
        return _start_of(value[0]) if value else 0
    return int(value.span.start)


def _head_so_far(dropped: list[Any]) -> Head | None:
    """The head among the values that were popped, as far as it was read."""
    if not dropped:
        return None
    first = dropped[0]
    if isinstance(first, Head):
        return first
    if isinstance(first, Token):
        path, rest = [name_of(first)] if first.kind == "NAME" else [], dropped[1:]
    elif isinstance(first, list):
        path, rest = [n for n in first if isinstance(n, Name)], dropped[1:]
    else:
        return None
    if not path:
        return None
    labels = [n for part in rest[:1] if isinstance(part, list) for n in part if isinstance(n, Name | Text)]
    stop = (labels or path)[-1].span.stop
    return Head(tuple(path), tuple(labels), None, None, None, None, Span(path[0].span.start, stop))
