"""A run: the plan's stages on an executor, recorded so that it can be killed at any point and gone on with.

    with RunDirectory.create(...) as directory, executor_for("ray", plan) as executor:
        report = Run(plan, directory, executor, reporter).execute()

All randomness is named by seed, stage, step, task and rollout, so nothing of it has to be saved: a run that goes on
from its newest checkpoint repeats the steps since then to the last bit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.plan import Plan
from rlspec.runtime import synthesis_stage
from rlspec.runtime.calibration import CalibrationStage
from rlspec.runtime.coldstart import ColdStartStage, make_policy
from rlspec.runtime.diagnostician_stage import DiagnosticianStage
from rlspec.runtime.evaluation import Evaluation
from rlspec.runtime.graph.executor import Executor
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.refusal import Interrupted, Refusal
from rlspec.runtime.reporter import Reporter
from rlspec.runtime.resampling import Failure, restored, stored
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.schedule import Unit, schedule
from rlspec.runtime.training import TrainingStage


@dataclass(slots=True)
class Position:
    """Where a run is: `unit` of the schedule, `step`s of it that are done, `updates` of the weights so far (their
    version), `evaluations` so far."""

    unit: int = 0
    step: int = 0
    updates: int = 0
    evaluations: int = 0


@dataclass(slots=True)
class Clock:
    """Seconds by phase since the last line of metrics."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time in here as `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """What was counted; the clock starts anew."""
        out, self.seconds = self.seconds, {}
        return out


class Run:
    """See the module."""

    def __init__(self, plan: Plan, directory: RunDirectory, executor: Executor, reporter: Reporter) -> None:
        self.plan, self.directory, self.executor, self.reporter = plan, directory, executor, reporter
        self.trainers = [r.name for r in plan.graph.roles if r.role == "trainer"]
        self.rollouts = [r.name for r in plan.graph.roles if r.role == "rollout"]
        self.units = schedule(plan)
        self.at = Position()
        self.clock = Clock()
        self.failures: dict[str, list[Failure]] = {}  # what stages that sample failures again have stored, by stage
        self.tables: dict[str, list[float]] = {}  # what stages have found, by "stage.result"
        self.demonstrations: list[Any] = []  # handles, between making the policy and the cold start
        self._stop = False
        self._began = time.perf_counter()

    def execute(self) -> dict[str, Any]:
        """Run to the end, from the newest checkpoint if there is one.

        Returns:
            The report that is also written as `report.json`.

        Raises:
            Interrupted: after Ctrl-C, at the end of the step, everything saved.
            Refusal: what made it stop.
        """
        with self._interruptible():
            loaded = self.directory.restore("torch")
            synthesis_stage.prepare(self)
            policy = make_policy(self)
            with self.clock.phase("prepare"):
                everyone = [*self.trainers, *self.rollouts]
                self.executor.get([self.executor.call(role, "prepare", str(policy)) for role in everyone])
            if loaded is not None:
                self.at = Position(**loaded.state["at"])
                self._load_state(loaded.tensors, loaded.state["learner"])
                self.bind(loaded.state.get("tables", {}))
                self.failures = restored(loaded.state.get("failures", {}))
                for difference in loaded.differences:
                    self.reporter.note(f"since the checkpoint: {difference}; numbers may differ in their last bits")
                self.reporter.note(f"going on from {loaded.name}")
            if self.at.unit > 0 or self.at.step > 0:
                self.sync_weights()
            while self.at.unit < len(self.units):
                self._run_unit(self.units[self.at.unit])
        report = self._report()
        self.directory.finish(report)
        return report

    def _run_unit(self, unit: Unit) -> None:
        if unit.kind == "sft":
            ColdStartStage(self, unit.stage).run()
        elif issubclass(schema("stage", unit.kind), Grpo):
            TrainingStage(self, unit.stage).run()
        elif unit.kind == "irc":
            CalibrationStage(self, unit.stage).run()
        elif unit.kind == "diagnostician":
            DiagnosticianStage(self, unit.stage).run()
        elif unit.kind == "codegym":
            synthesis_stage.SynthesisStage(self, unit.stage).run()
        else:
            Evaluation(self, unit.stage).run(unit.about, unit.place)
        self.at.unit, self.at.step = self.at.unit + 1, 0
        self.checkpoint(f"{unit.stage}-done")
        self.stop_if_asked()

    # --------------------------------------------------------------------------------------- weights and state

    def sync_weights(self) -> None:
        """The trainers' weights into every engine, proven by a probe."""
        with self.clock.phase("sync"):
            call = self.executor.call
            tokens, expected = self.executor.get(call(self.trainers[0], "probe"))
            weights = call(self.trainers[0], "weights")
            self.executor.get(
                [call(r, "load_weights", weights, self.at.updates, tokens, expected) for r in self.rollouts]
            )

    def bind(self, tables: Mapping[str, Sequence[float]]) -> None:
        """Tables that a stage has found ("calibrate.weight" -> a value per choice), from now on part of what is scored;
        checkpoints keep them."""
        self.tables |= {name: [float(v) for v in values] for name, values in tables.items()}
        if tables:
            self.executor.get(self.executor.call("scorer", "bind", self.tables))

    def rollout(self, jobs: list[Job], temperature: float, max_new_tokens: int) -> list[Any]:
        """Conversations, dealt to the rollout workers by group; handles of each worker's trajectories. How they are
        dealt is part of the plan, so that the executor cannot change a number."""
        count = len(self.rollouts)
        return [
            self.executor.call(role, "run", [j for j in jobs if j.group % count == rank], temperature, max_new_tokens)
            for rank, role in enumerate(self.rollouts)
        ]

    def checkpoint(self, name: str) -> None:
        """Save everything that the next step depends on."""
        with self.clock.phase("checkpoint"):
            tensors, notes = self.executor.get(self.executor.call(self.trainers[0], "state"))
            state = {
                "at": {
                    "unit": self.at.unit,
                    "step": self.at.step,
                    "updates": self.at.updates,
                    "evaluations": self.at.evaluations,
                },
                "learner": notes,
                "tables": self.tables,
                "failures": stored(self.failures),
            }
            self.directory.save_checkpoint(name, tensors, state)

    def _load_state(self, tensors: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
        shared = self.executor.share(dict(tensors))
        self.executor.get([self.executor.call(t, "load_state", shared, dict(notes)) for t in self.trainers])

    def ranks_agree(self) -> None:
        """Every rank must hold the same weights.

        Raises:
            Refusal: RLC0708, they drifted apart.
        """
        sums = self.executor.get([self.executor.call(t, "checksum") for t in self.trainers])
        if len(set(sums)) != 1:
            raise Refusal("RLC0708", "the trainer ranks no longer hold the same weights", "go on with --resume")

    # ------------------------------------------------------------------------------------------------ recording

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Record a line of metrics with the seconds since the last: by phase as the driver waits, and, of the first
        worker, by what it did ("worker.generation", "worker.world", "worker.logprobs" ...)."""
        spent = self.executor.get([self.executor.call(r, "timings") for r in (self.rollouts[0], self.trainers[0])])
        timings = self.clock.take()
        for part in spent:
            timings |= {f"worker.{name}": value for name, value in part.items()}
        timings["total"] = time.perf_counter() - self._began
        self.directory.log(metrics, {f"seconds.{k}": v for k, v in timings.items()})
        self.reporter.line(metrics)

    def _report(self) -> dict[str, Any]:
        lines = self.directory.metrics.read()
        evaluations = [line for line in lines if line.get("kind") == "evaluation"]
        seconds: dict[str, float] = {}
        for line in self.directory.timings.read():
            for key, value in line.items():
                if key.startswith("seconds.") and key != "seconds.total":  # workers' seconds lie within the driver's
                    name = key.removeprefix("seconds.")
                    seconds[name] = seconds.get(name, 0.0) + float(value)
        return {
            "name": self.plan.name,
            "digest": self.plan.digest,
            "seed": self.plan.seed,
            "evaluations": evaluations,
            "seconds": seconds,
            "wall_seconds": time.perf_counter() - self._began,
            "peak_bytes": self.executor.peak_memory(),
        }

    # ------------------------------------------------------------------------------------------------ stopping

    def stop_if_asked(self) -> None:
        """Raise Interrupted when the user asked for it; call only where everything is saved."""
        if self._stop:
            raise Interrupted()

    @property
    def asked_to_stop(self) -> bool:
        return self._stop

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C (or SIGTERM) finishes the step; the second is the usual one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, _: Any) -> None:
            self._stop = True
            signal.signal(number, before[signal.Signals(number)])
            self.reporter.note("stopping after this step; press Ctrl-C again to stop at once")

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
