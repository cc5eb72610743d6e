"""Logs: recorded conversations with their tasks, wherever they come from.

    log = Log.open(path)                  # a run directory, or a directory that `rlc import` wrote
    log.trajectories()                    # all of them, groups numbered through the log
    log.task(trajectory)                  # with the gold calls, for judges

What `rlc import` writes:

    LOGDIR/
      log.json                            where it comes from, digests of the files, what it counted
      tasks.json                          the tasks by id, with their gold calls
      trajectories/import-000000.parquet  the conversations (`runtime/record/store.py`), without tokens
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rlspec.compiler.plan import Plan
from rlspec.compiler.stored import read_plan
from rlspec.runtime.record import durable, store
from rlspec.runtime.record.directory import PLAN, VERSIONS, RunDirectory
from rlspec.runtime.record.objects import object_bytes, read_object
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Task

LOG, TASKS, FORMAT, STAGE = "log.json", "tasks.json", "rlspec.log/1", "import"


@dataclass(slots=True)
class Log:
    """See the module. `plan` is a run's, None of an import; `about` what log.json says."""

    path: Path
    about: Mapping[str, Any]
    plan: Plan | None = None
    tasks: dict[str, Task] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> Log:
        """A log to read.

        Raises:
            Refusal: RLC0705 there is none, RLC0706 it is damaged.
            SpecError: the run's plan is not of this version.
        """
        if (path / VERSIONS).is_file():
            RunDirectory.open(path, None, resume=False)
            return cls(path, {"source": "run"}, read_plan(path / PLAN))
        about, tasks = _object(path / LOG), _object(path / TASKS)
        if about.get("format") != FORMAT:
            raise Refusal("RLC0706", f"{path / LOG} is of no format that this version reads", "import the log again")
        try:
            return cls(path, about, None, {name: _task(name, body) for name, body in tasks.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refusal("RLC0706", f"{path / TASKS} is damaged: {error}", "import the log again") from error

    def steps(self) -> list[tuple[str, int]]:
        """(stage, step) of every file of trajectories, in order."""
        if self.plan is not None:
            return RunDirectory.open(self.path, None, resume=False).steps()
        return [(STAGE, 0)]

    def trajectories(self, stage: str | None = None) -> list[Trajectory]:
        """All conversations of `batches`, in order."""
        return [trajectory for _, batch in self.batches(stage) for trajectory in batch]

    def batches(self, stage: str | None = None) -> list[tuple[int, list[Trajectory]]]:
        """The conversations of a stage, or of all, by the step of their stage at which they were had; groups are
        numbered through the log, so that those of different steps stay apart.

        Raises:
            Refusal: RLC0705 there is no such stage, RLC0706 a file is damaged.
        """
        steps = [place for place in self.steps() if stage in (None, place[0])]
        if not steps:
            there = ", ".join(dict.fromkeys(name for name, _ in self.steps())) or "none"
            raise Refusal("RLC0705", f"{self.path} has no trajectories of stage {stage}", f"its stages: {there}")
        numbers: dict[tuple[str, int, int], int] = {}
        return [
            (
                step,
                [
                    replace(trajectory, group=numbers.setdefault((name, step, trajectory.group), len(numbers)))
                    for trajectory in store.read(self.path / "trajectories" / store.file_name(name, step))
                ],
            )
            for name, step in steps
        ]

    def task(self, trajectory: Trajectory) -> Task:
        """The trajectory's task: as imported, or made again by the run's world.

        Raises:
            Refusal: RLC0705 the log does not know it.
        """
        if trajectory.task not in self.tasks:
            self.tasks[trajectory.task] = self._made_again(trajectory)
        return self.tasks[trajectory.task]

    def _made_again(self, trajectory: Trajectory) -> Task:
        from rlspec.runtime.worlds.registry import world_of

        source = next((s for s in self.plan.sources if s.env == trajectory.env), None) if self.plan else None
        if self.plan is not None and source is not None:
            file = getattr(world_of(self.plan, source), "file", None)
            listed = [] if file is None else [task for tasks in file.tasks.values() for task in tasks]
            for task in listed:
                if task.id == trajectory.task:
                    return task
        parts = trajectory.task.rsplit(".", 2)
        if self.plan is not None and source is not None and len(parts) == 3 and parts[2].isdigit():
            task = world_of(self.plan, source).task(parts[1], int(parts[2]))
            if task.id == trajectory.task:
                return task
        raise Refusal("RLC0705", f"{self.path} does not say what task {trajectory.task} is")


def write(path: Path, about: Mapping[str, Any], tasks: Sequence[Task], trajectories: Sequence[Trajectory]) -> None:
    """Write an imported log; the description comes last, so that half of one is none.

    Raises:
        Refusal: RLC0702 it cannot be written, or something else is at `path`.
    """
    known = {LOG, TASKS, "trajectories"}
    if path.is_dir() and (foreign := sorted(p.name for p in path.iterdir() if p.name not in known)):
        raise Refusal("RLC0702", f"{path} holds other things ({', '.join(foreign[:3])})", "choose another with -o")
    durable.make_directory(path / "trajectories")
    with durable.writing(path / LOG):
        (path / LOG).unlink(missing_ok=True)
    store.write(path / "trajectories" / store.file_name(STAGE, 0), trajectories)
    durable.write_file(path / TASKS, object_bytes({task.id: _said(task) for task in tasks}))
    durable.write_file(path / LOG, object_bytes({"format": FORMAT, **about}))


def _said(task: Task) -> dict[str, Any]:
    return {
        "split": task.split,
        "instruction": task.instruction,
        "gold": [asdict(call) for call in task.gold],
        "payload": dict(task.payload),
    }


def _task(name: str, body: Mapping[str, Any]) -> Task:
    gold = tuple(Call(str(call["name"]), dict(call["arguments"])) for call in body["gold"])
    return Task(name, str(body["split"]), str(body["instruction"]), gold, dict(body["payload"]))


def _object(path: Path) -> dict[str, Any]:
    if not path.exists():
        cure = "give a run directory, or one that `rlc import` wrote"
        raise Refusal("RLC0705", f"there is no log at {path.parent}", cure)
    return read_object(path, "import the log again")
