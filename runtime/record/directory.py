"""The run directory: everything a run was given and everything it found out.

    runs/quickstart-3f2a.../
      plan.json  resolved.rlspec  versions.json      what was run, and with what
      metrics.jsonl                                  numbers that the same run gives again, to the byte
      timings.jsonl                                  seconds and memory, which differ from time to time
      trajectories/train-000012.parquet              a step's trajectories, with scores (`store`)
      checkpoints/ckpt-000003/                       `checkpoint`
      policy/                                        the policy before training, in Hugging Face layout
      results/calibrate.json                         what a stage found that later ones are scored with
      diagnoses.jsonl                                what was said of failures: every draft, the verdict on it
      diagnosticians/coach/                          a policy that says it, in Hugging Face layout
      events/                                        TensorBoard
      report.json                                    the last thing written: the run is finished

    with RunDirectory.create(path, plan_json, digest, resolved) as run:
        run.write_trajectories("train", 0, trajectories)
        run.log({"stage": "train", "step": 0, "reward_mean": 0.25}, {"generation_seconds": 1.5})
        run.save_checkpoint("train-000000", tensors, state)

    with RunDirectory.open(path, digest) as run:     # after a SIGKILL, say
        loaded = run.restore()                       # newest whole checkpoint, the files as they were at it

One process at a time: a lock is held until the process ends, however it ends (`lock`).
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from rlspec.runtime.record import checkpoint, durable, store, versions
from rlspec.runtime.record.events import Events
from rlspec.runtime.record.lines import Lines, finite, plain
from rlspec.runtime.record.lock import LOCK, Lock
from rlspec.runtime.record.objects import object_bytes, read_object
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal

PLAN, RESOLVED, VERSIONS, REPORT = "plan.json", "resolved.rlspec", "versions.json", "report.json"
DIAGNOSES, DIAGNOSTICIANS = "diagnoses.jsonl", "diagnosticians"
_FOLDERS = ("trajectories", "checkpoints", "events", "policy")
_KNOWN = {
    PLAN, RESOLVED, VERSIONS, REPORT, LOCK, "metrics.jsonl", "timings.jsonl", "results", DIAGNOSES, DIAGNOSTICIANS,
    *_FOLDERS,
}  # fmt: skip


class RunDirectory:
    """See the module. Made by `create`, `open` or `view`, never directly."""

    def __init__(self, path: Path, plan_digest: str, lock: Lock | None) -> None:
        self.path, self.plan_digest, self._lock = path, plan_digest, lock
        self.metrics = Lines(path / "metrics.jsonl")
        self.diagnoses = Lines(path / DIAGNOSES)
        self.timings = Lines(path / "timings.jsonl")
        self.events = Events(path / "events")
        self.checkpoints = path / "checkpoints"
        self.trajectories = path / "trajectories"

    @classmethod
    def create(
        cls,
        path: Path,
        plan_json: str,
        plan_digest: str,
        resolved_text: str,
        *,
        spec: Path | None = None,
        restart: bool = False,
    ) -> Self:
        """Start a run in a new or empty directory; its parents are made.

        Args:
            spec: the spec's file, for its repository's commit in `versions.json`.
            restart: a run of the same plan that is there already is removed first; else it is refused.

        Raises:
            Refusal: RLC0703 when another plan's run is there, RLC0704 when a process is using it, RLC0702
                when the system does not let it be written (nothing is left behind then), or something else is
                in it.
        """
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        lock, begun = None, False
        try:
            durable.make_directory(path)
            if not (path / VERSIONS).exists():
                _refuse_foreign(path)
            lock = Lock(path)
            if (path / VERSIONS).exists():
                _same_plan(path, plan_digest)
                if not restart:
                    reason = f"{path} holds a run of this plan already"
                    raise Refusal("RLC0702", reason, "go on with --resume, or choose another directory with --out")
            begun = True
            _clear(path)
            durable.sweep(path)
            for folder in _FOLDERS:
                durable.make_directory(path / folder)
            durable.write_file(path / PLAN, plan_json.encode())
            durable.write_file(path / RESOLVED, resolved_text.encode())
            record = {
                "format": 1,
                "plan_digest": plan_digest,
                "sha256": {PLAN: _sha256(plan_json.encode()), RESOLVED: _sha256(resolved_text.encode())},
                "created": versions.collect(spec),
                "resumed": [],
            }
            # Last: a directory is a run's from here on.
            durable.write_file(path / VERSIONS, object_bytes(record))
        except BaseException:
            with suppress(OSError, Refusal):  # the first error is the one to tell
                if begun:
                    _clear(path)
                    (path / LOCK).unlink(missing_ok=True)
            if lock is not None:
                lock.release()
            _unmake(made)
            raise
        return cls(path, plan_digest, lock)

    @classmethod
    def open(cls, path: Path, plan_digest: str | None, resume: bool = True) -> Self:
        """Open a run that exists, to go on with it (`resume`) or only to read it.

        To go on, the directory is locked, leftovers of a killed process are removed and torn last lines are
        cut. To read, nothing is changed or locked, also while the run is going on. `plan_digest` None takes
        any plan's run.

        Raises:
            Refusal: RLC0705 when there is no run, RLC0703 when it is another plan's, RLC0704 when another
                process is going on with it, RLC0706 when its plan or a line is damaged, RLC0702 when it
                cannot be written.
        """
        digest = _same_plan(path, plan_digest)
        if not resume:
            return cls(path, digest, None)
        lock = Lock(path)
        try:
            run = cls(path, digest, lock)
            for folder in (path, run.trajectories, run.checkpoints):
                durable.sweep(folder)
            run.metrics.repair()
            run.timings.repair()
            run.diagnoses.repair()
            record = run.versions()
            now = versions.collect()
            record["resumed"].append({"differences": versions.differences(record["created"], now), "versions": now})
            durable.write_file(path / VERSIONS, object_bytes(record))
        except BaseException:
            lock.release()
            raise
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # An error on its way out is the one to tell, not what it made of closing.
        with suppress(Refusal) if kind is not None else nullcontext():
            self.close()

    def close(self) -> None:
        """Close files and give the lock back."""
        try:
            self.metrics.close()
            self.diagnoses.close()
            self.timings.close()
            self.events.close()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def log(self, metrics: Mapping[str, Any], timings: Mapping[str, Any] | None = None) -> None:
        """A step is done: one line of metrics (with `stage` and `step`; deterministic numbers only), and one
        of timings (seconds, bytes), which gets `stage`, `step` and the unix `time` here. On the disk when
        this returns.

        Raises:
            Refusal: RLC0702 when the system does not take it.
            KeyError: `stage` or `step` is missing.
        """
        metrics = plain(dict(metrics))
        place = {"stage": metrics["stage"], "step": metrics["step"]}
        clocked = plain(dict(timings or {})) | place | {"time": time.time()}
        self.metrics.append(metrics)
        self.timings.append(clocked)
        self.events.add(metrics, clocked["time"])
        self.events.add(clocked, clocked["time"], area="time")
        self.events.flush()

    def diagnostician(self, label: str) -> Path:
        """The folder of the policy that a `diagnostician` stage trains."""
        return self.path / DIAGNOSTICIANS / label

    def write_trajectories(self, stage: str, step: int, trajectories: Sequence[Trajectory]) -> Path:
        """Write a step's trajectories (after scoring, before the step's line of metrics). Raises as
        `store.write`."""
        path = self.trajectories / store.file_name(stage, step)
        store.write(path, trajectories)
        return path

    def read_trajectories(self, stage: str, step: int) -> list[Trajectory]:
        """A step's trajectories. Raises as `store.read`."""
        return store.read(self.trajectories / store.file_name(stage, step))

    def write_result(self, stage: str, result: Mapping[str, Any]) -> Path:
        """Write what a stage found: `results` are its tables by name, each a value per choice, `report` how it came to
        them. Raises Refusal RLC0702."""
        durable.make_directory(self.path / "results")
        path = self.path / "results" / f"{stage}.json"
        durable.write_file(
            path, object_bytes({"format": "rlspec.results/1", "stage": stage, **finite(plain(dict(result)))})
        )
        return path

    def results(self) -> dict[str, dict[str, Any]]:
        """What stages found, by stage. Raises Refusal RLC0706 when a file is damaged."""
        return {path.stem: read_object(path) for path in sorted((self.path / "results").glob("*.json"))}

    def steps(self) -> list[tuple[str, int]]:
        """(stage, step) of every file of trajectories: stages in the order in which the metrics name them,
        other stages after them by name, steps in order."""
        if not self.trajectories.is_dir():
            return []
        found = [store.stage_and_step(path.name) for path in self.trajectories.iterdir()]
        order = list(dict.fromkeys(line.get("stage") for line in self.metrics.read()))
        place = {stage: index for index, stage in enumerate(order)}
        return sorted((f for f in found if f is not None), key=lambda f: (place.get(f[0], len(place)), *f))

    def position(self) -> dict[str, Any]:
        """Where the run's files stand, for a checkpoint's state."""
        marks = {name: lines.mark() for name, lines in (("metrics", self.metrics), ("timings", self.timings))}
        return {name: {"lines": mark.lines, "sha256": mark.sha256} for name, mark in marks.items()} | {
            "trajectories": sorted(path.name for path in self.trajectories.glob("*.parquet"))
        }

    def rewind(self, position: Mapping[str, Any] | None) -> None:
        """Bring the files back to a `position` (None: to the beginning): later lines, trajectories, events
        and the report are dropped, so that the steps to come are written once.

        Raises:
            Refusal: RLC0706 when lines or trajectories of that position are no longer there.
        """
        empty = {"lines": 0, "sha256": None}
        position = position or {"metrics": empty, "timings": empty, "trajectories": []}
        kept = set(position["trajectories"])
        lost = sorted(name for name in kept if not (self.trajectories / name).exists())
        if lost:
            reason = f"{len(lost)} files of trajectories are missing in {self.trajectories}: {', '.join(lost[:3])}"
            raise Refusal("RLC0706", reason, "restore them from a copy, or start the run in a new directory")
        self.metrics.keep(position["metrics"]["lines"], position["metrics"]["sha256"])
        self.timings.keep(position["timings"]["lines"], position["timings"]["sha256"])
        self._drop(path for path in self.trajectories.glob("*.parquet") if path.name not in kept)

    def truncate_after(self, stage: str, step: int) -> None:
        """Rewind to just after the last line of (stage, step), for a caller without a `position`. A step's
        trajectories stay when its line stays; those of stages without any line stay too.

        Raises:
            Refusal: RLC0705 when there is no such line.
        """
        lines = self.metrics.read()
        places = [(line.get("stage"), line.get("step")) for line in lines]
        if (stage, step) not in places:
            raise Refusal("RLC0705", f"{self.metrics.path} has no line of step {step} of stage {stage}")
        count = len(places) - places[::-1].index((stage, step))
        kept, stages = set(places[:count]), {place[0] for place in places}
        clocked = [(line.get("stage"), line.get("step")) in kept for line in self.timings.read()]
        self.metrics.keep(count)
        self.timings.keep(len(clocked) - clocked[::-1].index(True) if True in clocked else 0)
        self._drop(
            path
            for path in self.trajectories.glob("*.parquet")
            if (found := store.stage_and_step(path.name)) is not None and found[0] in stages and found not in kept
        )

    def _drop(self, trajectories: Iterable[Path]) -> None:
        for path in [*trajectories, self.path / REPORT]:
            with durable.writing(path):
                path.unlink(missing_ok=True)
        self.events.rewrite(self.metrics.read(), self.timings.read())

    def save_checkpoint(
        self,
        name: str,
        tensors: Mapping[str, Any],
        state: Mapping[str, Any],
        *,
        files: Mapping[str, bytes | Path] | None = None,
        keep: int = 2,
    ) -> Path:
        """`checkpoint.save`, with the position of the run's files in it. Call it between steps."""
        whole = {"run": dict(state), "position": self.position()}
        return checkpoint.save(
            self.checkpoints, name, tensors, whole, files=files, plan_digest=self.plan_digest, keep=keep
        )

    def restore(self, framework: Literal["numpy", "torch"] = "numpy") -> checkpoint.Loaded | None:
        """`checkpoint.load_newest`, and the run's files brought back to where they were at it (to the
        beginning when there is no checkpoint yet: None). `state` is what was given to `save_checkpoint`."""
        loaded = checkpoint.load_newest(self.checkpoints, plan_digest=self.plan_digest, framework=framework)
        if loaded is None:
            self.rewind(None)
            return None
        checkpoint.set_aside(loaded)
        self.rewind(loaded.state["position"])
        return replace(loaded, state=loaded.state["run"])

    def finish(self, report: Mapping[str, Any]) -> None:
        """Write `report.json`: the run is finished. Raises Refusal RLC0702."""
        self.events.flush()
        durable.write_file(self.path / REPORT, object_bytes(finite(plain(dict(report)))))

    def report(self) -> dict[str, Any] | None:
        """The report of a finished run; None while it is not. Raises Refusal RLC0706 when damaged."""
        return read_object(self.path / REPORT) if (self.path / REPORT).exists() else None

    def versions(self) -> dict[str, Any]:
        """What the run was made, and gone on, with. Raises Refusal RLC0706 when damaged."""
        return read_object(self.path / VERSIONS)

    def differences(self) -> list[str]:
        """What changed between the first start and the last resume; empty: the numbers agree to the last
        bit."""
        resumed = self.versions()["resumed"]
        return list(resumed[-1]["differences"]) if resumed else []


def _same_plan(path: Path, plan_digest: str | None) -> str:
    """The digest of the run at `path`, which must be `plan_digest` if that is given; its plan is verified."""
    if not (path / VERSIONS).is_file():
        raise Refusal("RLC0705", f"there is no run at {path}", "look for its directory under runs/")
    record = read_object(path / VERSIONS)
    digest = str(record.get("plan_digest"))
    if plan_digest is not None and digest != plan_digest:
        reason = f"{path} belongs to plan {digest}, not to {plan_digest}"
        raise Refusal("RLC0703", reason, "choose another directory with --out")
    for name, expected in record.get("sha256", {}).items():
        try:
            found = _sha256((path / name).read_bytes())
        except OSError as error:
            raise Refusal("RLC0706", f"{path / name} cannot be read: {error.strerror}") from error
        if found != expected:
            cure = "restore it from a copy, or start the run in a new directory"
            raise Refusal("RLC0706", f"{path / name} is not the file that the run was started with", cure)
    return digest


def _refuse_foreign(path: Path) -> None:
    """Refuse a directory that holds anything but a run."""
    with durable.writing(path):
        foreign = sorted(p.name for p in path.iterdir() if p.name not in _KNOWN and not durable.is_temporary(p))
    if foreign:
        reason = f"{path} is not empty and is not a run's directory (it has {', '.join(foreign[:3])})"
        raise Refusal("RLC0702", reason, "choose another directory with --out")


def _clear(path: Path) -> None:
    """Remove a run's files, what makes it one first; the lock stays."""
    with durable.writing(path):
        for name in (VERSIONS, *sorted(_KNOWN - {VERSIONS, LOCK})):
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            else:
                (path / name).unlink(missing_ok=True)


def _unmake(made: list[Path]) -> None:
    """Remove directories that were made for a run that could not be started, as far as they are empty."""
    for folder in made:
        with suppress(OSError):
            folder.rmdir()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
