"""A training stage: rollouts, scores, updates, weights back to the engines, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlspec.compiler.catalog.critic import Ppo
from rlspec.compiler.catalog.resampling import Resample
from rlspec.compiler.catalog.stages import Grpo
from rlspec.runtime.evaluation import Evaluation
from rlspec.runtime.graph.scorer_role import Scored
from rlspec.runtime.learning.critic import critic_row, explained_variance
from rlspec.runtime.learning.loss import Denominators, kl_of_trajectory
from rlspec.runtime.learning.rows import Row, live, parts, sampled, shards
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.resampling import Resampling
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.schedule import evaluations_within
from rlspec.runtime.streams import stream
from rlspec.runtime.tolerance import tolerate

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


class TrainingStage:
    """One `grpo` stage of a run."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Grpo)
        self.stage = found
        riding = [s for s in run.plan.stages if isinstance(c := s.component(), Resample) and c.within == label]
        self.resamplings = [Resampling(run, s.label, label) for s in riding]

    def run(self) -> None:
        """All steps that are not done yet."""
        run, stage = self.run_, self.stage
        run.reporter.begin(self.label, stage.steps)
        if run.at.step == 0:
            run.failures.clear()
            run.executor.get([run.executor.call(t, "begin_stage", self.label) for t in run.trainers])
            run.sync_weights()
        while run.at.step < stage.steps:
            step = run.at.step
            metrics = self._step(step)
            run.at.step += 1
            run.log(metrics)
            due = stage.evaluate_every and run.at.step % stage.evaluate_every == 0 and run.at.step < stage.steps
            for label in evaluations_within(run.plan, self.label) if due else []:
                Evaluation(run, label).run(self.label, "after", run.at.step)
            if run.at.step % stage.checkpoint_every == 0 or run.asked_to_stop:
                run.ranks_agree()
                run.checkpoint(f"{self.label}-{run.at.step:06d}")
                run.stop_if_asked()

    def _step(self, step: int) -> dict[str, Any]:
        run = self.run_
        jobs = self.jobs(step)
        for resampling in self.resamplings:
            jobs += resampling.jobs(step, first=1 + max(job.group for job in jobs))
        with run.clock.phase("rollout"):
            shares = run.rollout(jobs, self.stage.temperature, self.stage.max_new_tokens)
        if self.stage.kl.coefficient > 0 and self.stage.kl.place == "reward":
            shares = self._with_kl(shares)
        read = {s.measure for source in run.plan.sources for s in source.signals}
        if read & {"policy.entropy", "policy.logprob"}:
            shares = self._with_policy(shares, read)
        if isinstance(self.stage, Ppo):
            shares = self._with_values(shares)
        with run.clock.phase("rollout"):
            scoring = run.executor.call("scorer", "score", shares, step)
            trajectories: list[Trajectory] = [t for share in run.executor.get(shares) for t in share]
        with run.clock.phase("score"):
            scored: Scored = run.executor.get(scoring)
        with run.clock.phase("record"):
            for trajectory, scores in zip(trajectories, scored.scores, strict=True):
                trajectory.scores = scores
            run.directory.write_trajectories(self.label, step, trajectories)
        tolerate(run.plan, trajectories, f"step {step}")
        again: dict[str, float] = {}
        for resampling in self.resamplings:
            resampling.take(step, jobs, trajectories)
            again |= resampling.metrics(trajectories)
        values = self._update_critic(trajectories) if isinstance(self.stage, Ppo) else {}
        alone = isinstance(self.stage, Ppo) and step < self.stage.critic.head_start
        update = {"updates": 0.0} if alone else self._update(scored.rows)
        run.sync_weights()
        return {"stage": self.label, "step": step, **scored.metrics, **again, **update, **values}

    def jobs(self, step: int) -> list[Job]:
        """The step's conversations: fresh tasks of the training split, each a group of its own."""
        run, stage = self.run_, self.stage
        sources = run.plan.drawn
        shares = [source.share for source in sources]
        chosen = stream(run.plan.seed, self.label, "mix", step).choice(len(sources), stage.tasks_per_step, p=shares)
        return [
            Job(
                key=f"{self.label}/{step}/{position}/{rollout}",
                env=sources[int(source)].env,
                split="train",
                task=step * stage.tasks_per_step + position,
                group=position,
                phrasing="train",
            )
            for position, source in enumerate(chosen)
            for rollout in range(stage.group)
        ]

    # ------------------------------------------------------------------------------------------------- updates

    def _update(self, rows: list[Row]) -> dict[str, float]:
        """The step's optimiser steps, over disjoint parts of whole groups. A part without an advantage is skipped."""
        run, stage = self.run_, self.stage
        found: list[dict[str, float]] = []
        for part in parts(rows, stage.updates_per_step):
            denominators = Denominators.of(part)
            kept = live(part) if stage.on_dead_groups == "skip" else part
            if not kept:
                continue
            if stage.kl.coefficient > 0 and stage.kl.place == "loss":
                kept = self._with_reference(kept)
            with run.clock.phase("learn"):
                dealt = shards(kept, len(run.trainers))
                call = run.executor.call
                gradients = [
                    call(trainer, "gradients", self.label, mine, denominators)
                    for trainer, mine in zip(run.trainers, dealt, strict=True)
                ]
                applied = [call(trainer, "apply", gradients) for trainer in run.trainers]
                found.append(run.executor.get(applied)[0])
            run.at.updates += 1
        out = {"updates": float(len(found))}
        for name in sorted({name for metrics in found for name in metrics} - {"tokens"}):
            values = [metrics[name] for metrics in found if name in metrics]
            out[name] = max(values) if name.startswith("max_") else sum(values) / len(values)
        return out

    def _update_critic(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """The step's optimiser steps of the critic, on all agent tokens.

        Returns:
            `value_loss`, mean over the updates; `explained_variance` of the values that advantages were made of.
        """
        run, stage = self.run_, self.stage
        assert isinstance(stage, Ppo)
        measure = f"{self.label}.value"
        rows = []
        for t in (t for t in trajectories if t.failure is None):
            returns = run.plan.source_of(t.env, t.key).returns
            assert returns is not None
            rows.append(critic_row(t.ledger, t.scores[returns], t.measures[measure], t.group))
        found: list[dict[str, float]] = []
        call = run.executor.call
        with run.clock.phase("critic"):
            for part in parts(rows, stage.critic.updates_per_step):
                if not part:
                    continue
                denominators, dealt = Denominators.of(part), shards(part, len(run.trainers))
                gradients = [
                    call(trainer, "critic_gradients", self.label, mine, denominators)
                    for trainer, mine in zip(run.trainers, dealt, strict=True)
                ]
                found.append(run.executor.get([call(t, "critic_apply", gradients) for t in run.trainers])[0])
        return {
            "value_loss": sum(m["loss"] for m in found) / max(len(found), 1),
            "value_grad_norm": sum(m["grad_norm"] for m in found) / max(len(found), 1),
            "explained_variance": explained_variance(rows),
        }

    def _reference(self, sequences: Sequence[Any]) -> list[Any]:
        """The reference policy's log-probabilities, the work dealt to all ranks."""
        run = self.run_
        ranks = len(run.trainers)
        with run.clock.phase("reference"):
            dealt = run.executor.get(
                [
                    run.executor.call(t, "reference_logprobs", list(sequences[r::ranks]), self.stage.temperature)
                    for r, t in enumerate(run.trainers)
                ]
            )
        found: list[Any] = [None] * len(sequences)
        for rank, share in enumerate(dealt):
            found[rank::ranks] = share
        return found

    def _with_reference(self, rows: list[Row]) -> list[Row]:
        found = self._reference([row.tokens_T for row in rows])
        return [replace(row, reference_T=logprobs) for row, logprobs in zip(rows, found, strict=True)]

    def _with_policy(self, shares: Any, read: set[str]) -> list[Any]:
        """Measure the policy at every agent token, under the weights before the step's first update. The work is dealt
        to the ranks by row, so that it does not depend on where trajectories were made."""
        run = self.run_
        trajectories: list[list[Trajectory]] = run.executor.get(shares)
        flat = [t for share in trajectories for t in share if t.failure is None]
        rows, ranks = [_row(t) for t in flat], len(run.trainers)
        with run.clock.phase("measure"):
            dealt = run.executor.get(
                [
                    run.executor.call(trainer, "measured", rows[rank::ranks], self.stage.temperature)
                    for rank, trainer in enumerate(run.trainers)
                ]
            )
        for rank, share in enumerate(dealt):
            for trajectory, measured in zip(flat[rank::ranks], share, strict=True):
                for name, values in zip(("policy.logprob", "policy.entropy"), measured, strict=True):
                    if name in read:
                        trajectory.measures[name] = values.tolist()
        return [run.executor.share(share) for share in trajectories]

    def _with_values(self, shares: Any) -> list[Any]:
        """Ask the critic at every agent token, before the step's first update."""
        run = self.run_
        trajectories: list[list[Trajectory]] = run.executor.get(shares)
        flat = [t for share in trajectories for t in share if t.failure is None]
        rows, ranks = [_row(t) for t in flat], len(run.trainers)
        with run.clock.phase("critic"):
            call = run.executor.call
            dealt = run.executor.get([call(t, "values", rows[rank::ranks]) for rank, t in enumerate(run.trainers)])
        for rank, share in enumerate(dealt):
            for trajectory, values in zip(flat[rank::ranks], share, strict=True):
                trajectory.measures[f"{self.label}.value"] = values.tolist()
        return [run.executor.share(share) for share in trajectories]

    def _with_kl(self, shares: Any) -> list[Any]:
        """Measure every trajectory's KL to the reference, which its reward then pays for."""
        trajectories: list[list[Trajectory]] = self.run_.executor.get(shares)
        flat = [t for share in trajectories for t in share if t.failure is None]
        rows = [_row(t) for t in flat]
        for trajectory, row in zip(flat, self._with_reference(rows), strict=True):
            trajectory.measures["policy.kl"] = kl_of_trajectory(row, self.stage.kl.estimator)
        return [self.run_.executor.share(share) for share in trajectories]


def _row(trajectory: Trajectory) -> Row:
    """A trajectory to look at, without an advantage."""
    return sampled(trajectory.ledger, [0.0] * int(trajectory.ledger.mask().sum()), trajectory.group)
