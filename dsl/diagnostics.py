"""Diagnostics: what is wrong, where, what was expected, and how to cure it.

Codes are stable: `RLC` and four digits by area (00 syntax, 01 names, 02 types, 03 levels and units, 04 ranges, 05
stages and budgets, 06 components, 07 runs and files, 08 claims, 09 style). `CODES` below is the register: a diagnostic
of a code that is not in it cannot be made, and `rlc explain CODE` prints its entry.

    error[RLC0101]: unknown name `verdct`
      --> quickstart.rlspec:21:12
       |
    21 |   10 * verdct
       |        ^^^^^^ did you mean `verdict`?
       = names in scope: outcome, verdict
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable

from rlspec.dsl import compiled
from rlspec.dsl.annotations import Any, Literal
from rlspec.dsl.codes import CODES
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.tree import Span

LONGEST_LINE = 240  # of longer lines an excerpt shows a part
_BREAK = compiled.pattern("\n")

Severity = Literal["error", "warning", "note"]


@dataclass(slots=True)
class Source:
    """The text of one file and its line table. Lines and columns are 1-based; columns count characters. `opener` reads
    the files that this one names, where it does not stand in a folder (a revision of git)."""

    path: str
    text: str
    opener: Callable[[str], Source] | None = field(default=None, repr=False, compare=False)
    _starts: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def _lines(self) -> list[int]:
        """Where each line begins; made when somebody asks for a place."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in _BREAK.finditer(self.text))]
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._lines(), offset) - 1
        return line + 1, offset - self._lines()[line] + 1

    def line(self, number: int) -> str:
        """The text of a line, without its end."""
        start = self._lines()[number - 1]
        stop = self._lines()[number] - 1 if number < len(self._lines()) else len(self.text)
        return self.text[start:stop].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Fix:
    """Replace the span by `text`; only offered where it cannot change a meaning that was right."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`label` stands beside the carets; `notes` are lines below; `fix` is a safe edit."""

    code: str
    message: str
    span: Span | None = None
    severity: Severity = "error"
    label: str = ""
    notes: tuple[str, ...] = ()
    fix: Fix | None = None
    source: Source | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not a registered diagnostic")


class SpecError(Exception):
    """Carries every diagnostic of a failed check."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics))


def near_name(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` was probably meant to be, if one is close."""
    import difflib  # only a misspelt name needs it

    found = difflib.get_close_matches(word, sorted(set(known)), n=1, cutoff=0.6)
    return found[0] if found else None


def render(diagnostic: Diagnostic, source: Source | None = None) -> str:
    """The text form, with an excerpt where there is a place. Of a span of several lines the first is marked."""
    source = diagnostic.source or source
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    if source is not None and diagnostic.span is not None:
        row, column = source.position(diagnostic.span.start)
        stop_row, stop_column = source.position(max(diagnostic.span.stop, diagnostic.span.start + 1))
        text = source.line(row)
        width = (stop_column if stop_row == row else len(text) + 1) - column
        text, before, width = _window(text, column - 1, width)
        gutter = " " * len(str(row))
        marker = "".join("\t" if c == "\t" else " " for c in text[:before]) + "^" * max(1, width)
        lines += [
            f"{gutter}--> {source.path}:{row}:{column}",
            f"{gutter} |",
            f"{row} | {text}",
            f"{gutter} | {marker} {diagnostic.label}".rstrip(),
        ]
    elif source is not None:
        lines.append(f" --> {source.path}")
    lines += [f"  = {note}" for note in diagnostic.notes]
    return "\n".join(lines)


def _window(text: str, before: int, width: int) -> tuple[str, int, int]:
    """A long line's part around its mark, where the mark begins in it, and how far it goes."""
    if len(text) <= LONGEST_LINE:
        return text, before, width
    start = max(0, min(before - LONGEST_LINE // 3, len(text) - LONGEST_LINE))
    shown = text[start : start + LONGEST_LINE]
    left, right = "..." * (start > 0), "..." * (start + LONGEST_LINE < len(text))
    at = before - start + len(left)
    return f"{left}{shown}{right}", at, min(width, len(left) + len(shown) - at)


def as_json(diagnostic: Diagnostic, source: Source | None = None) -> dict[str, Any]:
    """The machine form: code, severity, message, path, line, column, end, label, notes, fix."""
    source = diagnostic.source or source
    out: dict[str, Any] = {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "label": diagnostic.label,
        "notes": list(diagnostic.notes),
    }
    if source is not None:
        out["path"] = source.path
        if diagnostic.span is not None:
            out["line"], out["column"] = source.position(diagnostic.span.start)
            out["end_line"], out["end_column"] = source.position(diagnostic.span.stop)
            if diagnostic.fix is not None:
                fix = diagnostic.fix
                out["fix"] = {"start": fix.span.start, "stop": fix.span.stop, "text": fix.text}
    return out
