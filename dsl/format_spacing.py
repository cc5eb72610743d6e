"""What stands between two tokens of an item: a blank or nothing, and where a line may break.

Only neighbours decide, and what the tree knows about braces (a block's or a set's) and minus signs (of one operand or
two), so a walk over the tokens needs no printer.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.dsl.tokens import Token

# What an operand may end with; a bracket right behind it is a call or an index, a minus one between two operands.
_OPERAND_ENDS = frozenset(["NAME", "NUMBER", "TEXT", "TRUE", "FALSE", "RPAR", "RSQB", "RBRACE"])
_OPENERS = frozenset(["LPAR", "LSQB", "LBRACE"])
_CLOSERS = frozenset(["RPAR", "RSQB", "RBRACE"])
# No blank on either side of them, before them, behind them.
_TIGHT = frozenset(["DOT", "AT"])
_TIGHT_BEFORE = _TIGHT | _CLOSERS | {"COMMA"}
_TIGHT_BEHIND = _TIGHT | _OPENERS
# A line does not begin with these, nor end with those of `_TIGHT` and the minus of one operand.
_NEVER_FIRST = frozenset(["COMMA", "AT", "EQUAL", "COLON"])


class Spacing:
    """Of a token list: `tight[i]` tells that nothing stands between tokens i - 1 and i on a line, `joined[i]` that a
    line break between them is not kept (where no comment asks for it), `signs` where a minus has one operand.

    `blocks` are the offsets of braces around items; all others are those of sets.
    """

    def __init__(self, tokens: Sequence[Token], blocks: frozenset[int]) -> None:
        self.signs: set[int] = set()
        self.tight = [False] * len(tokens)
        self.joined = [False] * len(tokens)
        for index, after in enumerate(tokens):
            if index:
                self._between(index, tokens[index - 1], after, blocks)

    def _between(self, index: int, before: Token, after: Token, blocks: frozenset[int]) -> None:
        operand = before.kind in _OPERAND_ENDS and before.start not in blocks
        if after.kind == "MINUS" and not operand:
            self.signs.add(index)
        sign = index - 1 in self.signs
        applied = operand and after.kind in ("LPAR", "LSQB")
        empty = before.kind in _OPENERS and after.kind in _CLOSERS
        self.joined[index] = (
            applied or empty or sign or before.kind in _TIGHT or after.kind in _NEVER_FIRST or after.start in blocks
        )
        if before.start not in blocks and after.start not in blocks:
            self.tight[index] = applied or sign or before.kind in _TIGHT_BEHIND or after.kind in _TIGHT_BEFORE

    def line(self, tokens: Sequence[Token], begin: int, end: int) -> str:
        """Tokens [begin, end) on one line."""
        parts = [tokens[begin].text]
        for index in range(begin + 1, end):
            if not self.tight[index]:
                parts.append(" ")
            parts.append(tokens[index].text)
        return "".join(parts)
