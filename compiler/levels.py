"""Levels: how finely a value varies.

A training batch is a tree: a *step* holds *groups* (the rollouts of one task), a group holds *trajectories*, a
trajectory holds *turns* (one message of the agent each), a turn holds *tokens* (those that the agent sampled). A value
has the level of the finest thing that it varies with. Coarse values lift to finer levels without a word; fine values
become coarse only through a named reducer.

    >>> Level.TRAJ < Level.TURN
    True
    >>> finest([Level.CONST, Level.TURN, Level.TRAJ]).label
    'turn'
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Level(IntEnum):
    """Coarse to fine; comparison follows the charter: const < step < group < traj < turn < token."""

    CONST = 0
    STEP = 1
    GROUP = 2
    TRAJ = 3
    TURN = 4
    TOKEN = 5

    @property
    def label(self) -> str:
        """The word that specs use."""
        return _LABELS[self]


_LABELS = tuple(level.name.lower() for level in Level)
BY_LABEL: dict[str, Level] = {level.label: level for level in Level}


def finest(levels: Iterable[Level]) -> Level:
    """The level of an expression over operands of these levels (CONST when there are none)."""
    return max(levels, default=Level.CONST)
