"""The lines of a formatted file, and the alignment that was meant.

`=` signs and comments that stand below each other, with more blanks than they need, were put there by somebody: they
stay below each other, as far left as they can. A single blank (two before a comment) otherwise.

Aligned once, a run is found again by the same rule: every other line that meets its column by chance has no more than
the least number of blanks, so the widest line of the run still decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlspec.dsl.dataclass import dataclass

INDENT = 2
WIDTH = 120


@dataclass(slots=True)
class Place:
    """Where something that may be aligned stood in the source: its column, and how many blanks lay before it."""

    column: int
    blanks: int


@dataclass(slots=True)
class Row:
    """One line: `text` without its indent. `equal` is set of lines that are one short `head = value`, whose head is
    `head` characters long; `comment` stands behind the text, or alone where the text is empty."""

    indent: int
    text: str
    blank: bool = False
    head: int = 0
    equal: Place | None = None
    comment: str = ""
    beside: Place | None = None

    @property
    def width(self) -> int:
        return self.indent + len(self.text)


def written(rows: Sequence[Row]) -> str:
    """The text of the lines; they are aligned in place."""
    _align_signs(rows)
    _align_comments(rows)
    lines: list[str] = []
    for row in rows:
        if row.blank and lines:
            lines.append("")
        lines.append(f"{' ' * row.indent}{row.text}{row.comment}")
    return "".join(f"{line}\n" for line in lines)


def _align_signs(rows: Sequence[Row]) -> None:
    # A comment on a line of its own does not part the lines around it; all else that is not `head = value` does.
    lines = [row for row in rows if row.text or row.blank]
    for run in _runs(lines, lambda row: row.equal, lambda row, last: row.indent == last.indent):
        if any(row.equal and row.equal.blanks > 1 for row in run):
            widest = max(row.head for row in run)
            for row in run:
                row.text = row.text[: row.head].ljust(widest) + row.text[row.head :]


def _align_comments(rows: Sequence[Row]) -> None:
    for run in _runs(rows, lambda row: row.beside if row.text else None, lambda row, last: True):
        meant = any(row.beside and row.beside.blanks > 2 for row in run)
        widest = max(row.width for row in run)
        for row in run:
            row.comment = " " * (2 + meant * (widest - row.width)) + row.comment


def _runs(
    rows: Sequence[Row], place: Callable[[Row], Place | None], fits: Callable[[Row, Row], bool]
) -> list[list[Row]]:
    """Neighbouring lines, without a blank line between, with something in the same column of the source."""
    runs: list[list[Row]] = []
    last: Row | None = None
    for row in rows:
        here, there = place(row), place(last) if last is not None else None
        if here is not None and there is not None and last is not None and here.column == there.column:
            together = not row.blank and fits(row, last)
        else:
            together = False
        if together:
            runs[-1].append(row)
        elif here is not None:
            runs.append([row])
        last = row
    return runs
