"""Safe fixes: offering the near name as an edit, and applying edits to a text.

A near name is offered as an edit only where the word that was written is one slip of the hand away from it (a letter
missing, doubled, wrong, or two swapped), so that nobody could have meant anything else. Whoever applies fixes checks
the result again and keeps it only when it holds fewer errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from rlspec.dsl.diagnostics import Diagnostic, Fix, Source
from rlspec.dsl.tree import Span

_NEAR = re.compile(r"did you mean `([^`]+)`\?")
_QUOTED = re.compile(r"`([^`]+)`")
SHORTEST_WORD = 4  # of shorter words, one slip leads to too many others


def slip(written: str, meant: str) -> bool:
    """Whether one inserted, missing, wrong or swapped letter leads from one word to the other.

    >>> slip("layerz", "layers"), slip("trian", "train"), slip("clip_lo", "clip_high")
    (True, True, False)
    """
    if written == meant or abs(len(written) - len(meant)) > 1 or min(len(written), len(meant)) < SHORTEST_WORD:
        return False
    start = 0
    while start < min(len(written), len(meant)) and written[start] == meant[start]:
        start += 1
    rest, wanted = written[start:], meant[start:]
    if len(rest) == len(wanted):
        swapped = len(rest) >= 2 and rest[1] + rest[0] + rest[2:] == wanted
        return rest[1:] == wanted[1:] or swapped
    return rest[1:] == wanted or rest == wanted[1:]


def offered(diagnostics: Iterable[Diagnostic], source: Source) -> list[Diagnostic]:
    """The same diagnostics, those with an unambiguous near name with their fix."""
    return [_offered(d, d.source or source) for d in diagnostics]


def _offered(diagnostic: Diagnostic, source: Source) -> Diagnostic:
    near = _NEAR.fullmatch(diagnostic.label)
    if diagnostic.fix is not None or diagnostic.span is None or near is None or diagnostic.severity != "error":
        return diagnostic
    span, meant = diagnostic.span, near[1]
    for written in _QUOTED.findall(diagnostic.message):
        word = re.compile(rf"(?<!\w){re.escape(written)}(?!\w)")
        places = [m.start() for m in word.finditer(source.text[span.start : span.stop])]
        if len(places) == 1 and slip(written, meant):
            at = span.start + places[0]
            return replace(diagnostic, fix=Fix(Span(at, at + len(written)), meant))
    return diagnostic


def applied(text: str, fixes: Iterable[Fix]) -> tuple[str, int]:
    """The text after the edits, and how many were made; of edits that overlap the first is made, of equal ones one."""
    chosen: list[Fix] = []
    for fix in sorted(set(fixes), key=lambda f: (f.span.start, f.span.stop)):
        if not chosen or fix.span.start >= chosen[-1].span.stop:
            chosen.append(fix)
    for fix in reversed(chosen):
        text = text[: fix.span.start] + fix.text + text[fix.span.stop :]
    return text, len(chosen)


def cured(fixed: Iterable[Diagnostic], remaining: Iterable[Diagnostic]) -> bool:
    """Whether none of the mistakes that were fixed is still reported. Others may have come to light."""
    left = {(d.code, d.message) for d in remaining}
    return not any((d.code, d.message) in left for d in fixed)
