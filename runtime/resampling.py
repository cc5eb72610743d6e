"""Resampling inside a training stage: failures are stored, and tried again as groups of their own.

Every step, the trajectories that failed go into a buffer, named by step and key; what a recovery needs of them is read
back from the run directory when its turn comes, so the buffer that a checkpoint keeps is small. Every `trigger` steps
the first of the buffer become recovery groups of that step: they are rolled out, scored and learned from together with
the step's ordinary groups, and normalised apart from them (Fission-GRPO, arXiv 2601.15625).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rlspec.compiler.catalog.resampling import Resample
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.failures import output_name
from rlspec.runtime.diagnosing import Diagnoses, metrics
from rlspec.runtime.metrics import mean
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.recovery import Start, start_of
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.worlds.diagnosticians import Case, Said

if TYPE_CHECKING:
    from rlspec.runtime.run import Run


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed trajectory: where it is recorded, its task, how often it was already tried again (`depth`), and the
    conversations that its user has been in, if it was a recovery."""

    step: int
    key: str
    env: str
    task: int
    depth: int
    keys: tuple[tuple[int, str], ...] = ()


class Resampling:
    """One `resample` stage, on its training stage."""

    def __init__(self, run: Run, label: str, within: str) -> None:
        self.run_, self.label, self.within = run, label, within
        stages = {s.label: s.component() for s in run.plan.stages}
        found, inside = stages[label], stages[within]
        assert isinstance(found, Resample)
        assert isinstance(inside, Grpo)
        self.stage, self.inside = found, inside
        self.stale = self.late = 0
        self._diagnoses = Diagnoses(run, label, found.feedback)
        self._said: dict[str, Said] = {}  # of the step's failures that are tried again, by key; empty by the rule
        self._depths: dict[str, int] = {}  # of the step's recoveries, by key
        self._read = lru_cache(maxsize=2)(
            lambda step: {t.key: t for t in run.directory.read_trajectories(within, step)}
        )

    @property
    def buffer(self) -> list[Failure]:
        """The stored failures, the oldest first; the run keeps them, so that checkpoints do."""
        return self.run_.failures.setdefault(self.label, [])

    def _recorded(self, step: int) -> dict[str, Trajectory]:
        """The trajectories of an earlier step, by key."""
        return {t.key: t for t in self.run_.directory.read_trajectories(self.within, step)}

    def jobs(self, step: int, first: int) -> list[Job]:
        """The recovery groups of a step, numbered from `first`; none before the trigger."""
        self.stale = self.late = 0
        self._depths, self._said = {}, {}
        if step == 0 or step % self.stage.trigger:
            return []
        order = queue(self.buffer, self.stage, step)
        self.stale = len(self.buffer) - len(order)
        chosen: list[Failure] = []
        taken: set[str] = set()
        for failure in order:
            if len(chosen) == self.stage.groups:
                break
            taken.add(failure.key)
            if self._room(failure) < 2 * self.inside.max_new_tokens:  # a message, and as much for its answer
                self.late += 1
                continue
            chosen.append(failure)
        if self.stage.errors == "live":
            kept = {f.key for f in order} - taken
            self.run_.failures[self.label] = [f for f in self.buffer if f.key in kept]
        return self._groups(step, first, chosen)

    def _groups(self, step: int, first: int, chosen: Sequence[Failure]) -> list[Job]:
        """The jobs of these failures' recovery groups; none of one of which nothing may be said."""
        feedback = self.stage.feedback
        if feedback.by != "rule" and feedback.given and chosen:
            self._said = self._diagnoses.of(step, [self._case(failure) for failure in chosen])
        out: list[Job] = []
        for failure in chosen:
            said = self._said.get(failure.key)
            if said is not None and said.feedback is None:
                continue
            group = first + len(out) // self.stage.group
            jobs = self._group(step, group, failure, said.feedback if said is not None else None)
            self._depths |= {job.key: failure.depth + 1 for job in jobs}
            out += jobs
        return out

    def _start(self, failure: Failure, written: str | None = None) -> Start:
        trajectory = self._read(failure.step)[failure.key]
        user = self.run_.plan.source_of(failure.env, failure.key).user
        return start_of(trajectory, self.label, self.stage, failure.keys or None, written, user)

    def _room(self, failure: Failure) -> int:
        """Tokens of the context that are left behind the failed attempt."""
        return int(self.run_.plan.policy.fields["context"]) - self._start(failure).tokens

    def _case(self, failure: Failure) -> Case:
        trajectory = self._read(failure.step)[failure.key]
        return Case(
            failure.key,
            failure.env,
            failure.task,
            tuple(trajectory.dialogue),
            int(trajectory.measures[f"{self.label}.fault"]),
            str(trajectory.measures[f"{self.label}.feedback"]),
            self._room(failure) - self.inside.max_new_tokens,
        )

    def _group(self, step: int, group: int, failure: Failure, written: str | None) -> list[Job]:
        """The jobs of one recovery group."""
        start = self._start(failure, written)
        return [
            Job(
                key=f"{self.label}/{step}/{group}/{rollout}",
                env=failure.env,
                split="train",
                task=failure.task,
                group=group,
                phrasing="train",
                start=start,
            )
            for rollout in range(self.stage.group)
        ]

    def take(self, step: int, jobs: Sequence[Job], trajectories: Sequence[Trajectory]) -> None:
        """Store the step's failures."""
        if self.stage.errors == "collected" and step >= self.stage.collect:
            return
        name, by_key = output_name(self.label), {job.key: job for job in jobs}
        groups: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
        for trajectory in trajectories:
            job = by_key[trajectory.key]
            if trajectory.failure is None and name in trajectory.scores and self._may_fail_again(job):
                groups[trajectory.env, trajectory.group].append(trajectory)
        for group in groups.values():
            failed = [t for t in group if t.scores[name]]
            if self.stage.of == "dead_group":
                reward = self.run_.plan.source_of(group[0].env, group[0].key).reward
                dead = len(failed) == len(group) and len({t.scores[reward] for t in group}) == 1
                failed = failed[:1] if dead else []
            for trajectory in failed:
                self.buffer.append(self._failure(step, by_key[trajectory.key]))

    def _may_fail_again(self, job: Job) -> bool:
        if job.start is None:
            return True
        return job.key in self._depths and self._depths[job.key] < self.stage.depth

    def _failure(self, step: int, job: Job) -> Failure:
        if job.start is None or job.start.anew:
            return Failure(step, job.key, job.env, job.task, self._depths.get(job.key, 0))
        keys = (*job.start.keys, (len(job.start.dialogue), job.key))
        return Failure(step, job.key, job.env, job.task, self._depths[job.key], keys)

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """How recoveries went (`recovered` is the error recovery rate), and what is stored."""
        own = [t for t in trajectories if t.failure is None and t.key.partition("/")[0] == self.label]
        first = [t for t in trajectories if t.failure is None and f"{self.label}.leaks" in t.measures]
        out = {
            "stored": float(len(self.buffer)),
            "stale": float(self.stale),
            "late": float(self.late),
            "leaks": mean(float(t.measures[f"{self.label}.leaks"] > 0) for t in first),
        }
        if self._said:
            out |= metrics(list(self._said.values()))
        elif self.stage.feedback.by != "rule":
            del out["leaks"]  # nobody was asked, and the rule's own texts were not said
        if own:
            out["groups"] = float(len({t.group for t in own}))
            out["recovered"] = mean(1.0 - float(t.scores[output_name(self.label)]) for t in own)
            out["success"] = mean(float(t.measures.get(f"{t.env}.verified", 0)) for t in own)
        return {f"{self.label}.{name}": value for name, value in out.items()}


def queue(failures: Sequence[Failure], stage: Resample, step: int) -> list[Failure]:
    """Those that may be tried again in a step, the first one first. Of a collected set none is too old, and each round
    begins where the one before ended."""
    if stage.errors == "live":
        fresh = [f for f in failures if step - f.step <= stage.max_age]
        return fresh[::-1] if stage.buffer == "lifo" else fresh
    order = list(failures)[::-1] if stage.buffer == "lifo" else list(failures)
    begin = (step // stage.trigger - 1) * stage.groups % max(1, len(order))
    return order[begin:] + order[:begin]


def stored(failures: Mapping[str, Sequence[Failure]]) -> dict[str, list[dict[str, Any]]]:
    """Buffers as JSON, for a checkpoint."""
    return {label: [asdict(f) for f in found] for label, found in failures.items()}


def restored(state: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Failure]]:
    """The reverse of `stored`."""
    return {
        label: [Failure(**{**f, "keys": tuple((int(at), str(key)) for at, key in f["keys"])}) for f in found]
        for label, found in state.items()
    }
