"""What a merge that was not finished leaves in a text: lines of `<<<<<<<`, `|||||||`, `=======` and `>>>>>>>`.

Each conflict is one fault. It is reported once and blanked out but for our own side, so that the rest of the file is
read as it was before the merge.
"""

from __future__ import annotations

from rlspec.dsl import compiled
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.tree import Span

if TYPE_CHECKING:
    import re

SIGNS = ("<<<<<<<", "=======", ">>>>>>>")
_SHOWN = compiled.pattern(r"[^\n]")
_MARK = compiled.pattern(r"^(<{7}|\|{7}|={7}|>{7})(?:[ \t][^\n]*)?\r?$", compiled.MULTILINE)


def hidden(text: str) -> tuple[str, list[Diagnostic], set[int]]:
    """The text, of the same length and with the same lines, without conflicts; what to say; the (0-based) lines of the
    marks."""
    marks = list(_MARK.finditer(text))
    found: list[Diagnostic] = []
    at = 0
    blank: list[tuple[int, int]] = []
    while at < len(marks):
        mark, end = marks[at], _end(marks, at)
        span = Span(mark.start(1), mark.end(1))
        blank.append(mark.span())
        if end is None:
            found.append(Diagnostic("RLC0014", "a line that a merge left behind", span, label="remove this line"))
            at += 1
            continue
        blank.append((marks[at + 1].start(), marks[end].end()))
        last = text.count("\n", 0, marks[end].start()) + 1
        label = f"keep one of the two sides, up to line {last}, and remove the lines that mark them"
        found.append(Diagnostic("RLC0014", "a merge was not finished", span, label=label))
        at = end + 1
    lines = {text.count("\n", 0, mark.start()) for mark in marks}
    for start, stop in reversed(blank):
        text = text[:start] + _SHOWN.sub(" ", text[start:stop]) + text[stop:]
    return text, found, lines


def _end(marks: list[re.Match[str]], at: int) -> int | None:
    """The index of the mark that ends the conflict which begins at a mark, if one begins there."""
    if marks[at][1] != SIGNS[0]:
        return None
    following = next((n for n in range(at + 1, len(marks)) if marks[n][1] in (SIGNS[0], SIGNS[2])), None)
    return following if following is not None and marks[following][1] == SIGNS[2] else None
