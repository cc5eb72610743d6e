"""A curve drawn with characters, for a terminal (block elements) or for a file (plain ASCII).

print("\\n".join(plot([0.1, 0.4, 0.7, 0.8], width=40, height=8)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"


def buckets(values: Sequence[float], width: int) -> list[float]:
    """At most `width` means of neighbouring finite values, in order; NaN where a bucket has none."""
    width = min(width, len(values))
    means = []
    for index in range(width):
        part = values[index * len(values) // width : (index + 1) * len(values) // width]
        finite = [value for value in part if math.isfinite(value)]
        means.append(math.fsum(value / len(finite) for value in finite) if finite else math.nan)
    return means


def sparkline(values: Sequence[float], width: int = 20) -> str:
    """One line of blocks from the smallest to the largest value; spaces where there is none."""
    means = buckets(values, width)
    low, high = _range(means)
    return "".join(_BLOCKS[1 + round(7 * _share(v, low, high))] if math.isfinite(v) else " " for v in means)


def plot(values: Sequence[float], width: int = 60, height: int = 8, plain: bool = False) -> list[str]:
    """Lines of a filled curve with its range at the left; [] when no value is finite."""
    means = buckets(values, width)
    if not any(map(math.isfinite, means)):
        return []
    low, high = _range(means)
    if high == low:
        height = 1
    # The smallest value still shows: it fills one eighth of the lowest line.
    most = height * 8 - 1
    eighths = [1 + round(most * _share(v, low, high)) if math.isfinite(v) else 0 for v in means]
    labels = {0: f"{high:.4g}", height - 1: f"{low:.4g}"}
    margin = max(map(len, labels.values()))
    lines = []
    for row in range(height):
        floor = (height - 1 - row) * 8
        filled = [min(max(count - floor, 0), 8) for count in eighths]
        marks = "".join(("#" if n >= 4 or (n and not floor) else " ") if plain else _BLOCKS[n] for n in filled)
        lines.append(f"{labels.get(row, ''):>{margin}} {'|' if plain else '│'}{marks}".rstrip())
    return lines


def _range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)


def _share(value: float, low: float, high: float) -> float:
    """Where a value stands between the smallest and the largest: from 0 to 1."""
    if math.isinf(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low) if high > low else 0.0
