"""Safe fixes: offering the near name as an edit, and applying edits to a text.

A near name is offered as an edit only where the word that was written is one slip of the hand away from it (a letter
missing, doubled, wrong, or two swapped), so that nobody could have meant anything else. Whoever applies fixes checks
the result again and keeps it only when it holds fewer errors.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlspec.dsl import compiled
from rlspec.dsl.dataclass import replace
from rlspec.dsl.diagnostics import Diagnostic, Fix, Source
from rlspec.dsl.slips import slip
from rlspec.dsl.tree import Span

_NEAR = compiled.pattern(r"did you mean `([^`]+)`\?")
_QUOTED = compiled.pattern(r"`([^`]+)`")


def offered(diagnostics: Iterable[Diagnostic], source: Source) -> list[Diagnostic]:
    """The same diagnostics, those with an unambiguous near name or another safe cure with their fix."""
    return [_offered(d, d.source or source) for d in diagnostics]


def _offered(diagnostic: Diagnostic, source: Source) -> Diagnostic:
    if diagnostic.fix is not None or diagnostic.span is None or diagnostic.severity != "error":
        return diagnostic
    from rlspec.dsl.cures import cure  # only where something is wrong: a sound spec is checked sooner

    found = cure(diagnostic, source)
    if found is not None:
        return replace(diagnostic, fix=found)
    near = _NEAR.fullmatch(diagnostic.label)
    if near is None:
        return diagnostic
    import re

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
