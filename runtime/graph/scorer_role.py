"""The scorer role: trajectories in; rewards, advantages and rows to learn from out.

Each source is scored by its own program, compiled to one kernel; credit spreads the advantage over the agent's tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.learning.rows import Row, sampled
from rlspec.runtime.metrics import describe
from rlspec.runtime.record.batching import SignalSpec, ragged
from rlspec.runtime.record.ragged import RaggedBatch
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.scoring import Kernel


def cache_directory() -> Path:
    """Where compiled kernels and cold starts are kept: $RLSPEC_CACHE, or ~/.cache/rlspec."""
    return Path(os.environ.get("RLSPEC_CACHE") or Path.home() / ".cache" / "rlspec")


@dataclass(slots=True)
class Scored:
    """One step after scoring: each trajectory's scores, in the order given (none of a failed one); rows to learn from
    in the order of groups; metrics."""

    scores: list[dict[str, Any]]
    rows: list[Row]
    metrics: dict[str, float]


def signal_specs(source: SourcePlan) -> list[SignalSpec]:
    """The inputs of a source's program, as the batch is built from them."""
    return [SignalSpec(s.name, BY_LABEL[s.level], s.measure, s.kind, s.choices or None) for s in source.signals]


class ScorerRole:
    """See the module."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self._kernels: dict[str, Kernel] = {}

    def kernel(self, source: SourcePlan) -> Kernel:
        """The source's compiled program."""
        if source.env not in self._kernels:
            self._kernels[source.env] = Kernel(source.program, cache_directory() / "kernels")
        return self._kernels[source.env]

    def score(self, shares: Iterable[list[Trajectory]]) -> Scored:
        """Score the trajectories of all rollout workers as one step."""
        trajectories = [t for share in shares for t in share]
        rows: list[Row] = []
        for source in self.plan.sources:
            own = [t for t in trajectories if t.env == source.env]
            batch, members = ragged(own, signal_specs(source))
            if members:
                rows += self._score(source, batch, members)
        rows.sort(key=lambda row: row.group)
        return Scored([t.scores for t in trajectories], rows, describe(self.plan, trajectories))

    def _score(self, source: SourcePlan, batch: RaggedBatch, members: list[Trajectory]) -> list[Row]:
        results = self.kernel(source)(batch)
        for name, step in source.program.outputs.items():
            level = BY_LABEL[source.program.steps[step].level]
            for trajectory, value in zip(members, _per_trajectory(results[name], level, batch), strict=True):
                trajectory.scores[name] = value
        advantages = _over_tokens(results[source.advantage], BY_LABEL[source.advantage_level], batch)
        first = batch.token_offsets[batch.turn_offsets]
        return [sampled(t.ledger, advantages[first[i] : first[i + 1]], t.group) for i, t in enumerate(members)]


def _over_tokens(values: NDArray[np.float64], level: Level, batch: RaggedBatch) -> NDArray[np.float64]:
    """Credit to the agent's tokens: every token carries its trajectory's, turn's or own advantage, shape (L,)."""
    if level is Level.TRAJ:
        values, level = np.repeat(values, np.diff(batch.turn_offsets)), Level.TURN
    if level is Level.TURN:
        values = np.repeat(values, np.diff(batch.token_offsets))
    return values


def _per_trajectory(values: NDArray[np.float64], level: Level, batch: RaggedBatch) -> list[Any]:
    """A result cut to trajectories: a number each for trajectory and coarser values, a list for turns and tokens."""
    match level:
        case Level.CONST | Level.STEP:
            return [float(values[0])] * batch.size(Level.TRAJ)
        case Level.GROUP:
            return np.repeat(values, np.diff(batch.group_offsets)).tolist()
        case Level.TRAJ:
            return values.tolist()
        case Level.TURN:
            cuts = batch.turn_offsets
        case Level.TOKEN:
            cuts = batch.token_offsets[batch.turn_offsets]
    return [values[cuts[i] : cuts[i + 1]].tolist() for i in range(len(cuts) - 1)]
