"""The scorer role: trajectories in; rewards, advantages and rows to learn from out.

Each source is scored by its own program, compiled to one kernel; credit spreads the advantage over the agent's tokens,
or over those of them that `where` leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlspec.compiler.binding import bind, tables_of
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.learning.rows import Row, sampled
from rlspec.runtime.metrics import describe
from rlspec.runtime.record.batching import batch_of
from rlspec.runtime.record.cache import cache_directory
from rlspec.runtime.record.ragged import RaggedBatch, per_trajectory
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.scoring import Kernel


@dataclass(slots=True)
class Scored:
    """One step after scoring: each trajectory's scores, in the order given (none of a failed one); rows to learn from
    in the order of groups; metrics, `credited` is the share of agent tokens, where `where` restricts it."""

    scores: list[dict[str, Any]]
    rows: list[Row]
    metrics: dict[str, float]


class ScorerRole:
    """See the module."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self._kernels: dict[tuple[str, str | None], Kernel] = {}
        self._tables: dict[str, list[float]] = {}

    def bind(self, tables: Mapping[str, Sequence[float]]) -> None:
        """Take tables that stages have found ("calibrate.weight" -> a value per choice); the newest counts."""
        self._tables |= {name: [float(v) for v in values] for name, values in tables.items()}
        self._kernels.clear()

    def kernel(self, source: SourcePlan) -> Kernel:
        """The source's compiled program, with its tables.

        Raises:
            Refusal: RLC0708, a table is still open.
        """
        key = (source.env, source.stage)
        if key not in self._kernels:
            program = bind(source.program, self._tables)
            if waiting := tables_of(program):
                name = next(iter(waiting))
                raise Refusal("RLC0708", f"`{name}` is not known yet: its stage has not run",
                              "run the stages in the order of the plan")  # fmt: skip
            self._kernels[key] = Kernel(program, cache_directory() / "kernels")
        return self._kernels[key]

    def score(self, shares: Iterable[list[Trajectory]], step: int = 0) -> Scored:
        """Score the trajectories of all rollout workers as one step, number `step` of its training stage."""
        trajectories = [t for share in shares for t in share]
        rows: list[Row] = []
        for source in self.plan.sources:
            own = [t for t in trajectories if self.plan.source_of(t.env, t.key) is source]
            batch, members = batch_of(source, own, step)
            if members:
                rows += self._score(source, batch, members)
        rows.sort(key=lambda row: row.group)
        metrics = describe(self.plan, trajectories)
        if self.plan.credit.where is not None:
            sound = sum(int(t.ledger.mask().sum()) for t in trajectories if t.failure is None)
            metrics["credited"] = sum(row.learned for row in rows) / max(sound, 1)
        return Scored([t.scores for t in trajectories], rows, metrics)

    def _score(self, source: SourcePlan, batch: RaggedBatch, members: list[Trajectory]) -> list[Row]:
        results = self.kernel(source)(batch)
        for name, step in source.program.outputs.items():
            level = BY_LABEL[source.program.steps[step].level]
            for trajectory, value in zip(members, per_trajectory(results[name], level, batch), strict=True):
                trajectory.scores[name] = value
        advantages = _over_tokens(results[source.advantage], BY_LABEL[source.advantage_level], batch)
        credited = np.ones(len(advantages), dtype=np.bool_)
        if (where := self.plan.credit.where) is not None:
            level = BY_LABEL[source.program.steps[source.program.outputs[where]].level]
            credited = _over_tokens(results[where], level, batch) != 0.0
        first = batch.token_offsets[batch.turn_offsets]
        cuts = [slice(first[i], first[i + 1]) for i in range(len(members))]
        rows = [sampled(t.ledger, advantages[c], t.group, credited[c]) for t, c in zip(members, cuts, strict=True)]
        return rows if where is None else [row for row in rows if row.learned]


def _over_tokens(values: NDArray[np.float64], level: Level, batch: RaggedBatch) -> NDArray[np.float64]:
    """A value of any level at the agent's tokens: each carries its group's, trajectory's, turn's or own, shape (L,)."""
    if level <= Level.STEP:
        return np.repeat(values, batch.size(Level.TOKEN))
    if level is Level.GROUP:
        values, level = np.repeat(values, np.diff(batch.group_offsets)), Level.TRAJ
    if level is Level.TRAJ:
        values, level = np.repeat(values, np.diff(batch.turn_offsets)), Level.TURN
    if level is Level.TURN:
        values = np.repeat(values, np.diff(batch.token_offsets))
    return values
