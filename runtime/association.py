"""What kinds of turn go with success: the table of iterative reward calibration (MT-GRPO + IRC, arXiv 2604.02869).

    rows = table([["read", "gold"], ["read"]], [1.0, 0.0], ("gold", "read"))
    rows[0].rho                   # correlation of "occurs in the trajectory" with the outcome
    weights(rows, 0.1, 1.0)       # {"gold": 1.0, "read": 0.0}

The correlation is the point-biserial one; with outcomes of 0 and 1 it is the phi coefficient. A kind that occurs in
all trajectories or in none, or outcomes that are all equal, leave it undefined: that is no evidence, told as such, and
weighs 0. It is never taken for a correlation of 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of turn. `share` of the trajectories have it; `turns` is how often it occurs; `with_it` and `without`
    are the mean outcomes of trajectories that have it and that do not (None: there are none); `rho` is 0 without
    `evidence`."""

    choice: str
    trajectories: int
    share: float
    turns: int
    with_it: float | None
    without: float | None
    rho: float
    evidence: bool


def table(labels: Sequence[Sequence[str]], outcomes: Sequence[float], choices: Sequence[str]) -> list[Row]:
    """A row per choice.

    Args:
        labels: of each trajectory, its turns' kinds.
        outcomes: of each trajectory.
    """
    rows = []
    for choice in choices:
        occurs = [choice in own for own in labels]
        has = [o for o, there in zip(outcomes, occurs, strict=True) if there]
        lacks = [o for o, there in zip(outcomes, occurs, strict=True) if not there]
        rho = correlation([float(there) for there in occurs], outcomes)
        rows.append(
            Row(
                choice,
                len(has),
                len(has) / len(labels) if labels else 0.0,
                sum(kind == choice for own in labels for kind in own),
                _mean(has),
                _mean(lacks),
                rho or 0.0,
                rho is not None,
            )
        )
    return rows


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's correlation in [-1, 1]; None when one side does not vary."""
    if len(x) < 2 or min(x) == max(x) or min(y) == max(y):
        return None
    mean_x, mean_y = fsum(x) / len(x), fsum(y) / len(y)
    from_x, from_y = [v - mean_x for v in x], [v - mean_y for v in y]
    size = sqrt(fsum(v * v for v in from_x)) * sqrt(fsum(v * v for v in from_y))
    if size == 0.0:  # differences too small to square
        return None
    return max(-1.0, min(1.0, fsum(a * b for a, b in zip(from_x, from_y, strict=True)) / size))


def weights(rows: Iterable[Row], threshold: float, scale: float) -> dict[str, float]:
    """scale * rho where |rho| is above the threshold, else 0."""
    return {row.choice: scale * row.rho if row.evidence and abs(row.rho) > threshold else 0.0 for row in rows}


def realised(
    labels: Sequence[Sequence[str]], advantages: Sequence[Sequence[float]], choices: Sequence[str]
) -> dict[str, float | None]:
    """Mean advantage over the turns of each kind; None for a kind without turns."""
    found: dict[str, list[float]] = {choice: [] for choice in choices}
    for kinds, values in zip(labels, advantages, strict=True):
        for kind, value in zip(kinds, values, strict=True):
            found[kind].append(value)
    return {choice: _mean(values) for choice, values in found.items()}


def mismatches(intended: Mapping[str, float], means: Mapping[str, float | None]) -> list[str]:
    """Kinds whose mean advantage has not the sign of their weight. A weight of 0 intends nothing."""
    return [
        choice
        for choice, weight in intended.items()
        if weight != 0.0 and (mean := means[choice]) is not None and mean * (1.0 if weight > 0 else -1.0) <= 0.0
    ]


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None
