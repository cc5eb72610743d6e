"""Dead and misaligned turns: two different things that can be wrong with a turn's advantage.

A turn is *dead* when the advantages at its place are all equal within its group: nothing tells the rollouts apart there
(MT-GRPO + IRC: zero variance within the group). A turn that only one rollout of the group reached is dead when its
advantage is 0. A turn is *misaligned* when its advantage has the sign opposite to its trajectory's outcome advantage,
which is the outcome less its mean over the group. The paper argues that dead turns may be useful focusing, so neither
is called good or bad here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

NOISE = 1e-12
"""Advantages, and differences of advantages, that are smaller are rounding, not signal."""


@dataclass(frozen=True, slots=True)
class TurnHealth:
    """Shares of all agent turns, in [0, 1]; 0 of none."""

    turns: int
    dead: float
    misaligned: float


def turn_health(groups: Sequence[int], outcomes: Sequence[float], advantages: Sequence[Sequence[float]]) -> TurnHealth:
    """Count over trajectories.

    Args:
        groups: of each trajectory, the number of its group.
        outcomes: of each trajectory.
        advantages: of each trajectory, one advantage per turn of the agent.
    """
    at: dict[tuple[int, int], list[float]] = defaultdict(list)
    of: dict[int, list[float]] = defaultdict(list)
    for group, outcome, values in zip(groups, outcomes, advantages, strict=True):
        of[group].append(outcome)
        for place, value in enumerate(values):
            at[group, place].append(value)
    turns = sum(map(len, at.values()))
    dead = sum(len(values) for values in at.values() if _dead(values))
    mixed = {group: fsum(values) / len(values) for group, values in of.items() if min(values) < max(values)}
    misaligned = sum(
        group in mixed and abs(value) > NOISE and value * (outcome - mixed[group]) < 0
        for group, outcome, values in zip(groups, outcomes, advantages, strict=True)
        for value in values
    )
    return TurnHealth(turns, dead / turns if turns else 0.0, misaligned / turns if turns else 0.0)


def _dead(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= NOISE and (len(values) > 1 or abs(values[0]) <= NOISE)
