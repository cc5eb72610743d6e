"""Brackets that do not match, put right by indentation before the parser sees them."""

from __future__ import annotations

from rlspec.dsl.diagnostics import Source
from rlspec.dsl.tokens import Scan, Token

CLOSING = {"LBRACE": "RBRACE", "LPAR": "RPAR", "LSQB": "RSQB"}
OPENING = {closing: opening for opening, closing in CLOSING.items()}


def item_shape(tokens: list[Token], index: int) -> bool:
    """Whether an item could begin at a token: a path, labels, then `=`, `{`, `:` or parameters, on one line."""
    line, kind = tokens[index].line, tokens[index].kind
    if kind != "NAME":
        return False
    index += 1
    while tokens[index].kind == "DOT" and tokens[index + 1].kind == "NAME":
        index += 2
    while tokens[index].kind in ("NAME", "TEXT") and tokens[index].line == line:
        index += 1
    return tokens[index].kind in ("EQUAL", "LBRACE", "COLON")


def repair(scanned: Scan, source: Source) -> None:
    pass
