"""From text to tree: `parse` always gives the tree of what is sound and every syntax error of the file at once.

Three steps. `tokens.scan` makes the token list. `layout.repair` sees to it that brackets match, by indentation where
they do not. The driver below runs the LALR tables over the result; where a token does not fit it

1. says what was expected (`expectations`),
2. tries the one-token repairs (a misspelt word, a doubled sign, a missing comma or `=`) that let the next tokens fit,
3. else drops the item: it pops the stack to the block around, and goes on at the next place where an item begins.

Every round of the driver takes a token or ends, so it terminates; at most one syntax error a line is reported.
"""

from __future__ import annotations

import bisect
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from rlspec.dsl import layout
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError
from rlspec.dsl.expectations import expectation
from rlspec.dsl.reductions import REDUCTIONS
from rlspec.dsl.tables import END, Tables, load
from rlspec.dsl.tokens import Scan, Token, scan
from rlspec.dsl.tree import Expression, File, Item, Span, TypeExpr

MAX_CHARACTERS = 1 << 20
# An expression nested more deeply than this, or blocks and brackets whose parser stack is higher, are refused, so that
# whoever walks the tree may recurse.
MAX_DEPTH = 150
MAX_STACK = 256
MAX_ERRORS = 100


# ------------------------------------------------------------------------------------------------------------- files


def read(path: str | Path) -> Source:
    """The text of a spec file. Raises SpecError with RLC0701 (cannot be read), RLC0010 (too large), RLC0001 (not
    UTF-8 text) or RLC0002 (nothing but blanks and comments)."""
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
        text = data.decode("utf-8-sig")
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


# ----------------------------------------------------------------------------------------------------------- parsing


def parse(source: Source) -> tuple[File, list[Diagnostic]]:
    """The tree of all sound items of a file, and its syntax errors in the order of the text. Never raises."""
    items, comments, diagnostics = _run(source, "file")
    return File(tuple(items or ()), comments), diagnostics


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
    layout.repair(scanned, source)
    driver = _Driver(tables, scanned, start)
    tree = driver.run()
    found = sorted(
        scanned.diagnostics, key=lambda d: (d.span.start if d.span else 0, d.span.stop if d.span else 0)
    )
    if len(found) > MAX_ERRORS:
        more = f"{len(found) - MAX_ERRORS} more errors are not listed"
        found = [*found[: MAX_ERRORS - 1], _with_note(found[MAX_ERRORS - 1], more)]
    return tree, tuple(scanned.comments), [_with_source(d, source) for d in found]


def _with_source(diagnostic: Diagnostic, source: Source) -> Diagnostic:
    return replace(diagnostic, source=source)


def _with_note(diagnostic: Diagnostic, note: str) -> Diagnostic:
    return replace(diagnostic, notes=(*diagnostic.notes, note))


# ------------------------------------------------------------------------------------------------------------ driver


class _Driver:
    """The LR automaton with its two stacks, and what it does about errors."""

    def __init__(self, tables: Tables, scanned: Scan, start: str) -> None:
        self.tables = tables
        self.tokens = scanned.tokens
        self.diagnostics = scanned.diagnostics
        self.quiet = scanned.tainted
        self.start = start
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        # Offsets at which the repair of an error invented a value: the item around is not kept.
        self.invented: list[int] = []
        self._levels: list[int] | None = None

    # ---- the automaton

    def run(self) -> Any:
        """The value of the start symbol; on an error that nothing can be saved from, what there is of it."""
        tokens, actions, states = self.tokens, self.tables.actions, self.states
        labels = _label_states(self.tables)
        index = 0
        while True:
            token = tokens[index]
            if token.first and states[-1] in labels and token.kind in ("NAME", "TEXT"):
                index = self._head_ended(index)
                continue
            if token.first and token.kind in _HEAD_SIGNS:
                self._check_same_line(index)
            kind = token.kind
            action = actions[states[-1]].get(kind)
            before = states
            if action is not None and action < 0:
                before = states.copy()
                action = self._reduce(kind, action)
            if action is None:
                if kind == END and states[-1] == self.tables.ends[self.start]:
                    return self.values[-1]
                index = self._error(index, before if before is not states else states.copy())
                if index < 0:
                    return self._remains()
                continue
            states.append(action)
            self.values.append(token)
            index += 1
            if len(states) > MAX_STACK:
                self._report(Diagnostic("RLC0010", "blocks and brackets nest too deeply", token.span), token)
                return self._remains()

    def _reduce(self, kind: str, action: int | None) -> int | None:
        """Reduce as long as the terminal asks for it; return the shift that follows, or None."""
        states, values, rules = self.states, self.values, self.tables.rules
        actions, gotos = self.tables.actions, self.tables.gotos
        while action is not None and action < 0:
            origin, length, name = rules[-1 - action]
            if name:
                if length:
                    parts = values[-length:]
                    del values[-length:], states[-length:]
                else:
                    parts = []
                if origin == "items" and length:
                    values.append(self._with_item(parts))
                else:
                    values.append(REDUCTIONS[name](parts))
            else:
                states.pop()
            states.append(gotos[states[-1]][origin])
            action = actions[states[-1]].get(kind)
        return action

    def _with_item(self, parts: list[Any]) -> list[Item]:
        """Keep a finished item, unless a repair invented a part of it or it nests too deeply."""
        items, item = parts
        own = item.head.span if item.value is None else item.span
        if any(own.start <= offset <= own.stop for offset in self.invented):
            return items
        if own.stop - own.start > MAX_DEPTH:
            deep = _too_deep(item)
            if deep is not None:
                self.diagnostics.append(
                    Diagnostic("RLC0010", f"an expression nests more than {MAX_DEPTH} levels deep", deep)
                )
                return items
        items.append(item)
        return items

    def _remains(self) -> Any:
        """After giving up: the outermost items so far."""
        return (
            self.values[0]
            if self.values and self.start == "file" and isinstance(self.values[0], list)
            else []
        )

    # ---- looking ahead without moving

    def _fits(self, states: list[int], kinds: list[str]) -> bool:
        """Whether the automaton would take these terminals one after another."""
        return _run_states(self.tables, states, kinds, self.tables.ends[self.start]) is not None

    def _accepted(self, states: list[int]) -> set[str]:
        """The terminals that would be taken next: exact, where the table's own entries over-report."""
        return {kind for kind in self.tables.actions[states[-1]] if self._fits(states, [kind])}

    # ---- errors

    def _report(self, diagnostic: Diagnostic, token: Token) -> None:
        """Say it, unless something was said of this line already."""
        if token.line not in self.quiet:
            self.quiet.add(token.line)
            self.diagnostics.append(diagnostic)

    def _error(self, index: int, states: list[int]) -> int:
        """Report that a token does not fit, and return the index to go on from, or -1 to give up."""
        token, tokens = self.tokens[index], self.tokens
        accepted = self._accepted(states)
        if token.kind == "NAME" and token.text in self.tables.contextual and not token.first:
            kind = self.tables.contextual[token.text]
            if kind in accepted:
                tokens[index] = token._replace(kind=kind)
                return index
        if token.first and {"EQUAL", "LBRACE"} <= accepted and "COLON" not in accepted - {"COLON"}:
            return self._head_ended(index)
        before = tokens[index - 1] if index else None
        said = expectation(states[-1], self.start, self.tables, accepted, before, token)
        at = token
        if before is not None and (token.first or token.kind == END) and token.line > before.line:
            # Nothing is wrong with the next line: the fault is where the line before ends.
            span, at = Span(before.start, before.stop), before
        else:
            span = Span(token.start, token.stop)
        self._report(Diagnostic("RLC0005", said.message, span, label=said.label), at)
        return self._panic(index)

    def _head_ended(self, index: int) -> int:
        """A head that neither `=` nor `{` follows on its line."""
        self._report(Diagnostic("RLC0008", "head", self.tokens[index - 1].span), self.tokens[index - 1])
        return self._panic(index)

    def _check_same_line(self, index: int) -> None:
        return

    def _panic(self, index: int) -> int:
        """Drop the item: back to the block around, on to the next item in it or to its end."""
        gotos, states, values = self.tables.gotos, self.states, self.values
        while len(states) > 1 and "item" not in gotos[states[-1]]:
            states.pop()
            values.pop()
        if "item" not in gotos[states[-1]]:
            # Before the first item, or no file at all.
            if self.start != "file":
                return -1
            states.append(gotos[states[-1]]["items"])
            values.append([])
        opening = next((v for v in reversed(values) if isinstance(v, Token) and v.kind == "LBRACE"), None)
        levels = self.levels
        level = levels[self._index_of(opening)] + 1 if opening is not None else 0
        tokens = self.tokens
        while True:
            token = tokens[index]
            if token.kind == END or levels[index] < level:
                return index
            if levels[index] == level and token.kind == "NAME" and self._begins_item(index):
                return index
            index += 1

    def _begins_item(self, index: int) -> bool:
        if index and self.tokens[index - 1].kind == "DOT":
            return False
        return self.tokens[index].first or layout.item_shape(self.tokens, index)

    @property
    def levels(self) -> list[int]:
        """How many brackets are open around each token; an opening one and its closing one have the same number."""
        if self._levels is None:
            self._levels, level = [], 0
            for token in self.tokens:
                if token.kind in layout.OPENING:
                    level -= 1
                self._levels.append(level)
                if token.kind in layout.CLOSING:
                    level += 1
        return self._levels

    def _index_of(self, token: Token) -> int:
        return bisect.bisect_left(self.tokens, token.start, key=lambda t: t.start)


_HEAD_SIGNS = frozenset({"COLON", "EXTENDS", "AT"})


@cache
def _label_states_of(kernels: tuple[str, ...]) -> frozenset[int]:
    wanted = {"path: NAME .", "path: path DOT NAME .", "labels: labels NAME .", "labels: labels TEXT ."}
    return frozenset(state for state, kernel in enumerate(kernels) if kernel in wanted)


def _label_states(tables: Tables) -> frozenset[int]:
    """The states in which a head goes on with a label, if one follows."""
    return _label_states_of(tuple(kernel[0] if len(kernel) == 1 else "" for kernel in tables.kernels))


def _run_states(tables: Tables, states: list[int], kinds: list[str], end: int) -> list[int] | None:
    """The stack after these terminals, or None where one does not fit. The stack given is left alone."""
    actions, gotos, rules = tables.actions, tables.gotos, tables.rules
    stack = states.copy()
    for kind in kinds:
        while True:
            action = actions[stack[-1]].get(kind)
            if action is None:
                return stack if kind == END and stack[-1] == end else None
            if action >= 0:
                stack.append(action)
                break
            origin, length, _ = rules[-1 - action]
            if length:
                del stack[-length:]
            stack.append(gotos[stack[-1]][origin])
    return stack


def _too_deep(item: Item) -> Span | None:
    """Where an item's expressions nest more deeply than MAX_DEPTH, if they do."""
    todo: list[tuple[Any, int]] = [(item.head, 0), (item.value, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, tuple):
            todo += [(part, depth) for part in node]
        elif hasattr(node, "span"):
            if depth > MAX_DEPTH:
                return item.span
            todo += [(getattr(node, slot.name), depth + 1) for slot in fields(node) if slot.name != "span"]
    return None
