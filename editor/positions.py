"""Offsets of a text and the positions that editors speak: (line, character), from 0, characters in UTF-16 units."""

from __future__ import annotations

import bisect


class Lines:
    """The line table of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self.plain = text.isascii()

    def position(self, offset: int) -> tuple[int, int]:
        """(line, character) of an offset; an offset outside of the text is moved to its nearer end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        return line, offset - start if self.plain else _units(self.text[start:offset])

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; one behind a line's end is moved to that end."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        stop = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.text)
        if self.plain:
            return min(start + max(character, 0), stop)
        at = start
        while at < stop and character > 0:
            character -= 2 if ord(self.text[at]) > 0xFFFF else 1
            at += 1
        return at


def _units(text: str) -> int:
    return len(text) + sum(ord(c) > 0xFFFF for c in text)
