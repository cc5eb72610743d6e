"""Ranges: which numbers a value can take. Interval arithmetic, with finite sets where they are known.

    >>> str(Range(0, 1) * Range.of(10) - Range.of(5))
    '[-5, 5]'

Sharper than plain intervals where rewards need it: finite sets stay sets through comparisons, and a sum of members over
their own count is a mean (see `rlspec.compiler.elaborate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from rlspec.dsl.dataclass import dataclass

INF = math.inf


def _mul(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def number_text(value: float) -> str:
    """5 for 5.0, 0.25 for 0.25, inf for infinity."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


@dataclass(frozen=True, slots=True)
class Range:
    """[low, high]; `values` lists them all when they are few and known."""

    low: float = -INF
    high: float = INF
    values: frozenset[float] | None = None

    @staticmethod
    def of(*values: float) -> Range:
        """Exactly these values."""
        return Range(min(values), max(values), frozenset(values))

    @property
    def constant(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        if self.values is not None and len(self.values) > 1:
            return "{" + ", ".join(number_text(v) for v in sorted(self.values)) + "}"
        return f"[{number_text(self.low)}, {number_text(self.high)}]"

    def within(self, other: Range, slack: float = 1e-9) -> bool:
        """Every value of this range lies in the other (sets are compared as sets)."""
        if other.values is not None:
            return self.values is not None and self.values <= other.values
        return self.low >= other.low - slack and self.high <= other.high + slack

    def union(self, other: Range) -> Range:
        values = self.values | other.values if self.values is not None and other.values is not None else None
        return Range(min(self.low, other.low), max(self.high, other.high), values)

    def narrowed(self, values: Iterable[float]) -> Range:
        """What is left when the value is known to be one of `values`."""
        kept = [v for v in values if self.low <= v <= self.high and (self.values is None or v in self.values)]
        return Range.of(*kept) if kept else Range.of(0.0)

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, frozenset(-v for v in self.values) if self.values else None)

    def __add__(self, other: Range) -> Range:
        return self._combine(other, lambda a, b: a + b, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return self + (-other)

    def __mul__(self, other: Range) -> Range:
        corners = [_mul(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return self._combine(other, lambda a, b: a * b, min(corners), max(corners))

    def __truediv__(self, other: Range) -> Range:
        if other.low <= 0 <= other.high:
            return Range()
        corners = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        corners = [0.0 if math.isnan(c) else c for c in corners]
        return Range(min(corners), max(corners))

    def power(self, exponent: Range) -> Range:
        """Base in [0, inf), or an even whole exponent; anything else is unbounded."""
        even = exponent.constant and exponent.low > 0 and exponent.low % 2 == 0
        if self.low < 0 and even:
            return Range(0.0 if self.high >= 0 else -self.high, max(-self.low, self.high)).power(exponent)
        if self.low < 0:
            return Range()
        if even and self.high < INF:
            return Range(self.low**exponent.low, self.high**exponent.low)
        if self.high <= 1 and exponent.low >= 0:
            return Range(0.0, 1.0)
        return Range(0.0, INF)

    def clipped(self, low: float, high: float) -> Range:
        return Range(min(max(self.low, low), high), max(min(self.high, high), low))

    def _combine(self, other: Range, op: Callable[[float, float], float], low: float, high: float) -> Range:
        values = None
        if self.values is not None and other.values is not None and len(self.values) * len(other.values) <= 64:
            values = frozenset(op(a, b) for a in self.values for b in other.values)
        low, high = (-INF if math.isnan(low) else low), (INF if math.isnan(high) else high)
        return Range(low, high, values)


def decided(op: str, left: Range, right: Range) -> bool | None:
    """The answer of a comparison (`==`, `!=`, `<` ...) that the ranges alone give; None where it depends.

    >>> decided("==", Range.of(-1, 0, 1), Range.of(-2)), decided(">", Range(0, 1), Range.of(1)), decided("<", ANY, ANY)
    (False, False, None)
    """
    apart = left.high < right.low or left.low > right.high
    if left.values is not None and right.values is not None:
        apart = apart or not left.values & right.values
    match op:
        case "==" | "!=":
            return (op == "!=") if apart else None
        case "<" | ">=":
            less = True if left.high < right.low else False if left.low >= right.high else None
            return less if op == "<" or less is None else not less
        case _:
            more = True if left.low > right.high else False if left.high <= right.low else None
            return more if op == ">" or more is None else not more


ANY = Range()
