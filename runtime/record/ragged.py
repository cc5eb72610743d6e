"""The ragged batch: one step's trajectories as a struct of arrays with offsets. Nothing is padded to score.

Members of a level are numbered through the batch; `group_offsets[g] : group_offsets[g + 1]` are the trajectories of
group g, `turn_offsets[i] : ...` the agent turns of trajectory i, `token_offsets[t] : ...` the agent tokens of turn t.

    G groups, N trajectories, M turns, L agent tokens
    group_offsets (G+1,)   turn_offsets (N+1,)   token_offsets (M+1,)     int64, first 0, last N / M / L
    signals[name]          (1,), (G,), (N,), (M,) or (L,) by the signal's level, float64

Only trajectories without an infrastructure failure are members: a failure is never scored as 0, it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlspec.compiler.levels import Level

Offsets = NDArray[np.int64]
Signal = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RaggedBatch:
    """See the module for shapes."""

    group_offsets: Offsets
    turn_offsets: Offsets
    token_offsets: Offsets
    signals: dict[str, Signal] = field(default_factory=dict)
    sizes: tuple[int, ...] = field(init=False, compare=False)
    """Number of members at every level, from CONST (1) and STEP (1) to TOKEN."""

    def __post_init__(self) -> None:
        for name in ("group_offsets", "turn_offsets", "token_offsets"):  # once, and not in every kernel's call
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int64))
        for name, offsets, parents in (
            ("group_offsets", self.group_offsets, None),
            ("turn_offsets", self.turn_offsets, self.group_offsets[-1]),
            ("token_offsets", self.token_offsets, self.turn_offsets[-1]),
        ):
            if offsets[0] != 0 or np.any(np.diff(offsets) < 0):
                raise ValueError(f"{name} must start at 0 and never fall")
            if parents is not None and len(offsets) != parents + 1:
                raise ValueError(f"{name} has {len(offsets) - 1} members for {parents} parents' members")
        groups, turns, tokens = self.group_offsets, self.turn_offsets, self.token_offsets
        sizes = (1, 1, len(groups) - 1, len(turns) - 1, len(tokens) - 1, int(tokens[-1]))
        object.__setattr__(self, "sizes", sizes)

    def size(self, level: Level) -> int:
        """Number of members at a level (1 for CONST and STEP)."""
        return self.sizes[level]


def per_trajectory(values: Any, level: Level, batch: RaggedBatch) -> list[Any]:
    """A result cut to trajectories: a number each for trajectory and coarser values, a list for turns and tokens.

    Args:
        values: one per member of the level, an array or a list.
    """
    column = np.asarray(values, dtype=np.float64)
    match level:
        case Level.CONST | Level.STEP:
            return [float(column[0])] * batch.size(Level.TRAJ)
        case Level.GROUP:
            return np.repeat(column, np.diff(batch.group_offsets)).tolist()
        case Level.TRAJ:
            return column.tolist()
        case Level.TURN:
            cuts = batch.turn_offsets
        case Level.TOKEN:
            cuts = batch.token_offsets[batch.turn_offsets]
    return [column[cuts[i] : cuts[i + 1]].tolist() for i in range(len(cuts) - 1)]
