"""A calibration stage: episodes of the policy as it is, and from them what each kind of turn is worth.

It changes no weights. What it finds is bound into the programs of the stages behind it, kept with every checkpoint, and
written to `results/<stage>.json` in the run directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlspec.compiler.catalog.calibration import Irc
from rlspec.runtime.irc import Calibration, Round, search, sources_of
from rlspec.runtime.metrics import describe
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.streams import stream
from rlspec.runtime.tolerance import tolerate

if TYPE_CHECKING:
    from rlspec.runtime.logs.fitting import Batches
    from rlspec.runtime.run import Run


class CalibrationStage:
    """One `irc` stage of a run."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Irc)
        self.stage = found
        self._batches: Batches = []

    def run(self) -> None:
        """All rounds, from the first: the stage is short, and a round needs the episodes of those before."""
        run = self.run_
        run.reporter.begin(self.label, self.stage.rounds)
        run.sync_weights()
        found = search(run.plan, self.label, self._episodes, run.tables)
        for (number, trajectories), round_ in zip(self._batches, found.rounds, strict=False):
            run.directory.write_trajectories(self.label, number, trajectories)
            run.log({"stage": self.label, "step": number, **describe(run.plan, trajectories), **_numbers(round_)})
        run.directory.write_result(self.label, {"kind": "irc", **result_of(found)})
        run.bind({f"{self.label}.weight": list(found.weights.values())})
        run.reporter.note(f"{self.label}: {_line(found)}")

    def _episodes(self, number: int) -> Batches:
        """Those of the rounds so far; a round's are had when it is asked for."""
        run, stage = self.run_, self.stage
        with run.clock.phase("rollout"):
            shares = run.executor.get(run.rollout(self.jobs(number), stage.temperature, stage.max_new_tokens))
        trajectories: list[Trajectory] = sorted((t for share in shares for t in share), key=lambda t: t.group)
        tolerate(run.plan, trajectories, f"round {number}")
        self._batches.append((number, trajectories))
        return [(step, [t for t in batch if t.failure is None]) for step, batch in self._batches]

    def jobs(self, number: int) -> list[Job]:
        """A round's conversations: tasks of the training split, `group` trajectories each."""
        run, stage = self.run_, self.stage
        sources = sources_of(run.plan, stage)
        tasks = stage.episodes // stage.group
        shares = [source.share for source in sources]
        chosen = stream(run.plan.seed, self.label, "mix", number).choice(
            len(sources), tasks, p=[share / sum(shares) for share in shares]
        )
        return [
            Job(
                key=f"{self.label}/{number}/{position}/{rollout}",
                env=sources[int(source)].env,
                split="train",
                task=number * tasks + position,
                group=position,
                phrasing="train",
            )
            for position, source in enumerate(chosen)
            for rollout in range(stage.group)
        ]


def result_of(found: Calibration) -> dict[str, Any]:
    """What is written: the tables that programs are bound with, and the report of all rounds."""
    return {"results": {"weight": found.weights}, "report": found.plain()}


def _numbers(round_: Round) -> dict[str, Any]:
    """A round as metrics: weight and evidence of each kind of turn."""
    out: dict[str, Any] = {"mismatches": float(len(round_.mismatches)), "agreement": round_.agreement or 0.0}
    for row in round_.rows:
        out |= {f"weight.{row.choice}": round_.weights[row.choice], f"rho.{row.choice}": row.rho}
    return out


def _line(found: Calibration) -> str:
    return ", ".join(f"{choice} {value:+.3f}" for choice, value in found.weights.items()) + f" ({found.ended})"
