"""Semantic tokens and inlay hints: what an editor paints into the text."""

from __future__ import annotations

from dataclasses import dataclass

from rlspec.compiler.catalog import catalog
from rlspec.compiler.experiment import FORMULAS, OTHERS, SETTINGS
from rlspec.compiler.functions import FUNCTIONS
from rlspec.compiler.levels import BY_LABEL
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import Token
from rlspec.editor.document import Document
from rlspec.editor.facts import Facts

_SIGNS = ("PLUS", "MINUS", "STAR", "SLASH", "CIRCUMFLEX", "COMPARE", "EQUAL")
_BASES = ("real", "int", "bool", "text")


@dataclass(frozen=True, slots=True)
class Painted:
    """One token: [start, stop), what it is, and marks."""

    start: int
    stop: int
    sort: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hint:
    """A text that an editor shows behind an offset, without its being there."""

    offset: int
    text: str
    tooltip: str


def painted(document: Document) -> list[Painted]:
    """The semantic tokens of a text, in its order; on one line each."""
    words = set(load().keywords.values())
    sorts = _named(document)
    out = [Painted(c.span.start, c.span.stop, "comment") for c in document.scanned.comments]
    tokens = document.tokens
    for at, token in enumerate(tokens):
        if token.kind == "NAME":
            out.append(_name(token, tokens, at, sorts))
        elif token.kind in words:
            out.append(Painted(token.start, token.stop, "keyword"))
        elif token.kind == "NUMBER":
            out.append(Painted(token.start, token.stop, "number"))
        elif token.kind == "TEXT":
            out.append(Painted(token.start, token.stop, "string"))
        elif token.kind in _SIGNS:
            out.append(Painted(token.start, token.stop, "operator"))
    return sorted((p for p in out if p.stop > p.start), key=lambda p: p.start)


def _named(document: Document) -> dict[int, tuple[str, tuple[str, ...]]]:
    """By start of a name: what it declares or means, from the symbols and heads of the tree."""
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    symbols = document.symbols
    for span, meant in symbols.uses:
        found[span.start] = (_sort(meant[0].kind), ())
    for declaration in symbols.declarations:
        found[declaration.span.start] = (_sort(declaration.kind), ("declaration",))
    kinds = {*catalog(), *FORMULAS, *OTHERS, *SETTINGS, "experiment", "def", "rlspec"}
    stack = [(item, 0) for item in document.file.items]
    while stack:
        item, depth = stack.pop()
        head = item.head
        word = depth < 2 and (head.path[0].value in kinds or bool(head.labels))
        for number, name in enumerate(head.path):
            found.setdefault(name.span.start, ("keyword" if word and number == 0 else "property", ()))
        if head.type is not None and head.path[0].value in catalog():
            found.setdefault(head.type.base.span.start, ("class", ("defaultLibrary",)))
        stack += [(inner, depth + 1) for inner in item.body or ()]
    return found


def _sort(kind: str) -> str:
    return {"def": "function", "parameter": "parameter", "param": "parameter"}.get(
        kind, "class" if kind in catalog() or kind == "experiment" else "variable"
    )


def _name(token: Token, tokens: list[Token], at: int, sorts: dict[int, tuple[str, tuple[str, ...]]]) -> Painted:
    before = tokens[at - 1].kind if at else ""
    after = tokens[at + 1]
    if token.start in sorts:
        sort, marks = sorts[token.start]
    elif before == "AT" or (before, token.text in _BASES) == ("COLON", True):
        sort, marks = "type", ("defaultLibrary",)
    elif after.kind == "LPAR":
        sort, marks = "function", ("defaultLibrary",) if token.text in FUNCTIONS or before == "DOT" else ()
    elif before == "DOT":
        sort, marks = "property", ()
    elif after.kind == "EQUAL":
        sort, marks = "parameter", ()
    elif token.text in BY_LABEL:
        sort, marks = "type", ("defaultLibrary",)
    elif token.text == "std":
        sort, marks = "macro", ("defaultLibrary",)
    elif token.text == "on" and before != "EQUAL" and after.kind == "NAME" and not token.first:
        sort, marks = "keyword", ()
    else:
        sort, marks = "enumMember", ()
    return Painted(token.start, token.stop, sort, marks)


def hints(document: Document, facts: Facts, start: int, stop: int) -> list[Hint]:
    """The derived type of every formula whose declaration does not say all of it, behind its declared type or name."""
    out = []
    for item, _ in document.expressions():
        head = item.head
        if head.path[0].value not in FORMULAS or head.path[0].value == "signal" or not head.labels:
            continue
        offset = head.type.span.stop if head.type is not None else head.labels[-1].span.stop
        if not start <= offset <= stop:
            continue
        written = "".join(document.text[head.type.span.start : head.type.span.stop].split()) if head.type else ""
        for fact in facts.formula(item):
            shown = fact.text
            if written:
                _, sign, reach = shown.partition(" in ")
                if not sign or f"in{''.join(reach.split())}" in written:
                    continue
                shown = f"in {reach}"
            else:
                shown = f": {shown}"
            on = f" on {fact.env}" if fact.env else ""
            out.append(Hint(offset, f" {shown}{on}", f"derived: {fact.text}"))
    return out
