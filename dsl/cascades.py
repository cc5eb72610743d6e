"""Errors that are only the echo of the one before.

An item that goes on over several lines is read to its end as if it were sound; behind its first fault, or behind one
on the line right before it (two lines in the wrong order), what follows in the same item is guesswork. So of what the
parser says of brackets and of tokens that do not fit, only the first is told on three lines of such an item. What is
wrong for itself, such as a sign of another language or a text that is not closed, is always told.
"""

from __future__ import annotations

import bisect

from rlspec.dsl.tokens import Scan

_GUESSED = frozenset({"RLC0005", "RLC0007", "RLC0008", "RLC0013"})
# How many lines on an error is still taken for such an echo.
_NEAR = 2


def prune(scanned: Scan, text: str) -> None:
    """Drop the diagnostics that follow from others, in place."""
    if len(scanned.diagnostics) < 2:
        return
    own = [t for t in scanned.tokens if t.first and not t.synthetic]
    starts = [t.start for t in own]
    begins = _beginnings(scanned)
    told: set[int] = set()
    kept = []
    for found in sorted(scanned.diagnostics, key=lambda d: d.span.start if d.span else 0):
        at = bisect.bisect_right(starts, found.span.start) - 1 if found.span else -1
        if at >= 0 and found.span:
            line = own[at].line
            if found.code in _GUESSED and line in told and "\n" in text[own[at].start : found.span.start]:
                # A line whose brackets were all dropped, right behind.
                continue
            begin = begins.get(line, line)
            before = begin - 1 if begin != line else begin
            if found.code in _GUESSED and any(n in told for n in range(max(before, line - _NEAR), line)):
                continue
            if found.code not in ("RLC0006", "RLC0014"):  # the lines behind these are read as they were meant
                told.add(line)
        kept.append(found)
    scanned.diagnostics = kept


def _beginnings(scanned: Scan) -> dict[int, int]:
    """For each line that continues an item (it is deeper than the first line of its block): the line on which that item
    begins."""
    out: dict[int, int] = {}
    columns: list[int] = [-1]
    item, opened = 0, False
    for token in scanned.tokens:
        if token.first and not token.synthetic:
            if columns[-1] < 0:
                columns[-1] = token.column
            if token.column > columns[-1] and not opened:
                out[token.line] = item
            else:
                item = token.line
        opened = token.kind == "LBRACE"
        if token.kind == "LBRACE":
            columns.append(-1)
        elif token.kind == "RBRACE" and len(columns) > 1:
            columns.pop()
    return out
