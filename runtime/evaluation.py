"""An evaluation: success on tasks of a split, several trials each; weights stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlspec.compiler.catalog.stages import Evaluate
from rlspec.runtime.metrics import describe, pass_at
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.tolerance import tolerate

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


class Evaluation:
    """One `evaluate` stage. The same tasks, users and random numbers every time, so that before and after differ by
    the weights alone."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Evaluate)
        self.stage = found

    def jobs(self) -> list[Job]:
        """Every task of every source that is measured, `trials` times."""
        sources = self.run_.plan.examined(self.stage.on)
        return [
            Job(
                key=f"{self.label}/{source.env}/{task}/{trial}",
                env=source.env,
                split=self.stage.split,
                task=task,
                group=number * self.stage.tasks + task,
                phrasing=self.stage.phrasing,
                user=self.stage.user if self.run_.plan.examines(self.stage.user, source.env) else "",
            )
            for number, source in enumerate(sources)
            for task in range(self.stage.tasks)
            for trial in range(self.stage.trials)
        ]

    def run(self, about: str, place: str, at_step: int | None = None) -> None:
        """Measure and record. `about` is the stage before or after which it runs, `at_step` a step inside it."""
        run, stage = self.run_, self.stage
        run.reporter.begin(f"{self.label} {place} {about}" if about else self.label, None)
        run.sync_weights()
        with run.clock.phase("evaluate"):
            handles = run.rollout(self.jobs(), stage.temperature, stage.max_new_tokens)
            shares: list[list[Trajectory]] = run.executor.get(handles)
        trajectories = sorted((t for share in shares for t in share), key=lambda t: t.group)
        number = run.at.evaluations
        run.directory.write_trajectories(self.label, number, trajectories)
        tolerate(run.plan, trajectories, f"evaluation {number} of `{self.label}`")
        run.at.evaluations += 1
        place_of = {place: about} if about else {}
        run.log(
            {
                "stage": self.label,
                "step": number,
                "kind": "evaluation",
                **place_of,
                **({"at_step": at_step} if at_step is not None else {}),
                **pass_at(trajectories, stage.pass_at),
                **describe(run.plan, trajectories),
            }
        )
