"""The cold start of a run: making the embedded policy, and the `sft` stage over the graph's trainer ranks.

Both depend only on policy, environment, user, stage, seed and code, so they are kept in the cache under the digest of
these; every experiment with the same start (ablations, resumed runs) shares it, its recorded metrics included.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlspec.compiler.catalog.answers import VerifiedAnswers
from rlspec.compiler.catalog.base import Component
from rlspec.compiler.catalog.policies import HuggingFace
from rlspec.compiler.catalog.stages import Sft
from rlspec.compiler.contents import content, named_files
from rlspec.compiler.plan import Plan, canonical
from rlspec.runtime.learning.learner import Optimisation
from rlspec.runtime.learning.loss import merge, per_token
from rlspec.runtime.learning.rows import Row
from rlspec.runtime.learning.sft import ColdStart, Position
from rlspec.runtime.record import durable
from rlspec.runtime.record.cache import cache_directory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import derived_seed
from rlspec.runtime.worlds.registry import live_of

if TYPE_CHECKING:
    from rlspec.runtime.run import Run

CORPUS = 256
"""Dialogues from which the tokenizer is made when the experiment has no cold start."""
KEPT = 8
"""Cold starts that the cache keeps, the most recently used."""


def make_policy(run: Run) -> Path:
    """The folder of the policy that the run begins with: as the spec names it, or the embedded one, made once and
    kept in the run directory."""
    component = run.plan.policy.component()
    if isinstance(component, HuggingFace):
        return Path(component.model)
    directory = run.directory.path / "policy"
    if (directory / "tokenizer.json").exists():
        return directory
    with run.clock.phase("policy"):
        cached = cache_entry(run) / "policy"
        if cached.is_dir():
            _install(cached, directory)
        else:
            made = run.directory.path / f"policy.tmp-{os.getpid()}"  # swept on the next start if this process dies
            shares = demonstrations(run)
            run.executor.get(run.executor.call(run.trainers[0], "build_policy", str(made), shares))
            _install(made, directory)
            shutil.rmtree(made)
    return directory


def _install(source: Path, target: Path) -> None:
    """Copy a folder's files, the tokenizer last: with it the policy is there."""
    durable.make_directory(target)
    for path in sorted(source.iterdir(), key=lambda p: p.name == "tokenizer.json"):
        durable.write_file(target / path.name, path.read_bytes())


def _stage(run: Run) -> tuple[str, Sft | None]:
    """The cold start of the plan: its label and settings."""
    for stage in run.plan.stages:
        component = stage.component()
        if isinstance(component, Sft):
            return stage.label, component
    return "policy", None


def demonstrations(run: Run) -> list[Any]:
    """Handles of all demonstrations, one share per trainer rank, made by the ranks when they are first asked for."""
    if run.demonstrations:
        return run.demonstrations
    label, stage = _stage(run)
    total = CORPUS if stage is None else stage.demonstrations + stage.held_out
    ranks = len(run.trainers)
    cuts = [total * rank // ranks for rank in range(ranks + 1)]
    run.demonstrations = [
        run.executor.call(trainer, "demonstrate", label, start, stop - start)
        for trainer, (start, stop) in zip(run.trainers, pairwise(cuts), strict=True)
    ]
    return run.demonstrations


@cache
def code_digest() -> str:
    """SHA-256 of the package's Python files: a changed program does not use what another one made."""
    import rlspec.compiler
    import rlspec.runtime

    digest = hashlib.sha256()
    for package in (rlspec.compiler, rlspec.runtime):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def cache_entry(run: Run) -> Path:
    """Where the plan's cold start is kept."""
    import torch

    label, stage = _stage(run)
    identity = {
        "policy": run.plan.policy.model_dump(mode="json"),
        "weights": _weights(run.plan.policy.component()),
        "seed": run.plan.seed,
        "shown": shown_by(run.plan),
        "stage": [label, stage.model_dump(mode="json"), _files(stage, dict(stage))] if stage else [label, None],
        "ranks": len(run.trainers),
        "threads": run.plan.graph.bundles[0].threads,
        "code": code_digest(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    return cache_directory() / "coldstart" / hashlib.sha256(canonical(identity).encode()).hexdigest()[:32]


def shown_by(plan: Plan) -> dict[str, Any]:
    """What demonstrations, and the words of the embedded policy, depend on: the environments without what only their
    verdict depends on, their shares where demonstrations are mixed by them, the live users with whom the demonstrators
    talk (whoever trains), what synthesised environments are made from, what judges say during a rollout; of files that
    are named, what is in them. Labels are names, and change nothing."""
    drawn = []
    mixed = any(isinstance(plan.labelled(source.env).component(), VerifiedAnswers) for source in plan.drawn)
    for source in plan.drawn:
        env = plan.labelled(source.env)
        fields = {k: v for k, v in env.fields.items() if k not in env.component().VERDICT}
        fields["files"] = _files(env.component(), fields)
        user = live_of(plan, source.user).model_dump(mode="json")
        drawn.append({"env": env.name, "fields": fields, "share": source.share if mixed else None, "user": user})
    said = [str(j.fields["objection"]) for j in plan.judges if j.fields.get("when") == "during_rollout"]
    made = [{**s.fields, "files": _files(s.component(), s.fields)} for s in plan.stages if s.name == "codegym"]
    return {"drawn": drawn, "made": made, "objections": said}


def _files(component: Component, fields: Mapping[str, Any]) -> dict[str, str]:
    """What is in the files and folders that a component's fields name."""
    return {name: content(path) for name, path in named_files(type(component), fields, Path())}


def _weights(policy: Component) -> list[list[Any]]:
    """A local model's files by name, size and time: its weights may be too many to read each time."""
    folder = Path(policy.model) if isinstance(policy, HuggingFace) else None
    if folder is None or not folder.is_dir():
        return []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [[path.relative_to(folder).as_posix(), (s := path.stat()).st_size, s.st_mtime_ns] for path in files]


class GraphPupil:
    """What learns: all trainer ranks in step. Demonstrations are named by number, every rank holds them."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        return [self.run.executor.call(trainer, method, *arguments) for trainer in self.run.trainers]

    def restart(self, attempt: int) -> None:
        self.run.executor.get(self._all("restart", attempt))

    def begin(self, optimisation: Optimisation) -> None:
        self.run.executor.get(self._all("begin", optimisation))

    def step(self, rows: Sequence[Row]) -> float:
        shared = self.run.executor.share(list(rows))
        parts = self._all("imitate", shared)
        return float(self.run.executor.get(self._all("apply", parts))[0]["nll"])

    def measure(self, rows: Sequence[Row]) -> float:
        shared = self.run.executor.share(list(rows))
        return per_token(merge(self.run.executor.get(self._all("measure", shared))))["nll"]


class ColdStartStage:
    """The `sft` stage of a run."""

    def __init__(self, run: Run, label: str) -> None:
        self.run_, self.label = run, label
        found = next(s for s in run.plan.stages if s.label == label).component()
        assert isinstance(found, Sft)
        self.stage = found

    def run(self) -> None:
        """Learn from the cache or from the demonstrations.

        Raises:
            Refusal: RLC0709, no attempt met the criterion.
            Interrupted: the user asked to stop; the cold start begins again then.
        """
        run = self.run_
        run.reporter.begin(self.label, None)
        entry = cache_entry(run)
        if (entry / "record.json").exists():
            self._from_cache(entry)
        else:
            self._learn(entry)
        # The optimiser has done its work; a stage that follows begins its own.
        fresh = Optimisation.of(self.stage, self.stage.max_steps)
        run.executor.get([run.executor.call(t, "begin", fresh) for t in run.trainers])
        run.ranks_agree()

    def _learn(self, entry: Path) -> None:
        run = self.run_
        with run.clock.phase("demonstrate"):
            shares = demonstrations(run)
            held = run.executor.get([run.executor.call(t, "hold_demonstrations", shares) for t in run.trainers])
        run.demonstrations = []  # the ranks hold them as rows now
        count, alphabet, marker, length = held[0]
        learned = count - self.stage.held_out
        cold = ColdStart(
            self.stage,
            range(learned),  # type: ignore[arg-type]
            range(learned, count),  # type: ignore[arg-type]
            alphabet,
            marker,
            derived_seed(run.plan.seed, self.label),
        )
        lines: list[dict[str, Any]] = []
        steps = 0
        before: Position | None = None
        progress = cold.run(GraphPupil(run))
        while True:
            with run.clock.phase("imitate"):
                at = next(progress, None)
            if at is None:
                break
            steps += 1
            phase_changed = before is None or before.phase != at.phase or before.attempt != at.attempt
            if phase_changed or cold.done or steps % self.stage.stop.every == 0:
                line = {"stage": self.label, "step": steps, "demonstration_tokens": length, **asdict(at)}
                line = {k: v for k, v in line.items() if v is not None}
                line.pop("stale", None)
                line["phase_step"] = at.step
                line["step"] = steps
                lines.append(line)
                run.log(line)
            before = Position(**asdict(at))
            run.stop_if_asked()
        run.at.updates += steps
        self._keep(entry, lines, steps)

    # ------------------------------------------------------------------------------------------------ the cache

    def _from_cache(self, entry: Path) -> None:
        from safetensors.torch import load_file

        run = self.run_
        with run.clock.phase("imitate"):
            record = json.loads((entry / "record.json").read_text())
            weights = run.executor.share(load_file(entry / "weights.safetensors"))
            run.executor.get([run.executor.call(t, "load_weights", weights) for t in run.trainers])
            os.utime(entry)
        run.at.updates += record["steps"]
        for line in record["lines"]:
            run.log(line)
        run.reporter.note("the cold start came from the cache")

    def _keep(self, entry: Path, lines: list[dict[str, Any]], steps: int) -> None:
        """Into the cache; a cache that cannot be written costs time later, nothing else."""
        from safetensors.torch import save_file

        run = self.run_
        weights = run.executor.get(run.executor.call(run.trainers[0], "weights"))
        try:
            with durable.writing(entry):
                entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".new-") as made:
                    folder = Path(made) / "entry"
                    folder.mkdir()
                    save_file(weights, folder / "weights.safetensors")
                    policy = run.directory.path / "policy"
                    if policy.is_dir() and any(policy.iterdir()):
                        shutil.copytree(policy, folder / "policy")
                    record = {"lines": lines, "steps": steps}
                    (folder / "record.json").write_text(json.dumps(record))
                    if not entry.exists():
                        folder.rename(entry)
                entries = sorted((p for p in entry.parent.iterdir() if p.is_dir()), key=lambda p: -p.stat().st_mtime)
                for old in entries[KEPT:]:
                    shutil.rmtree(old, ignore_errors=True)
        except Refusal as refusal:
            run.reporter.note(f"the cold start is not kept in the cache: {refusal.reason}")
