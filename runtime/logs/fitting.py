"""A log as a spec sees it: measures named by the spec's labels, tiers judged by the spec's judge, formulas computed.

    batches = fitted(log, plan)                      # trajectories by step, with what the plan's formulas read
    score(plan, batches, {"calibrate.weight": [1.0, ...]})
    batches[0][1][0].scores["A"]

Nothing is generated again, and nothing is made up: a measure that neither the log has nor a judge can tell from the
dialogue is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlspec.compiler.binding import bind
from rlspec.compiler.catalog.tiers import Tiers
from rlspec.compiler.evaluator import evaluate
from rlspec.compiler.levels import BY_LABEL
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.logs.log import Log
from rlspec.runtime.record.batching import batch_of
from rlspec.runtime.record.ragged import per_trajectory
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.tiers import TierJudge

Batches = list[tuple[int, list[Trajectory]]]
"""Trajectories by the step of their stage at which they were had."""


def fitted(log: Log, plan: Plan, stage: str | None = None) -> Batches:
    """The log's trajectories by step, without those that the machinery lost.

    Raises:
        Refusal: RLC0705 the spec has no environment of the log's name (and more than one of another), or the log has no
            such stage.
    """
    envs = [source.env for source in plan.drawn]
    judges = {source.env: _judges(log, plan, source) for source in plan.drawn}
    out: Batches = []
    for step, batch in log.batches(stage):
        mine = []
        for trajectory in batch:
            if trajectory.failure is not None:
                continue
            env = _env(log, trajectory.env, envs)
            measures = {_renamed(name, trajectory.env, env): value for name, value in trajectory.measures.items()}
            for label, judge in judges[env].items():
                found = judge.measure(log.task(trajectory), trajectory.dialogue, stream(0, "judge", label))
                measures |= {f"{label}.{name}": value for name, value in found.items()}
            mine.append(replace(trajectory, env=env, measures=measures, scores={}))
        out.append((step, mine))
    return out


def score(plan: Plan, batches: Batches, tables: Mapping[str, Sequence[float]]) -> None:
    """Compute every source's results into `scores`, step by step, with these tables bound.

    Raises:
        Refusal: RLC0705 a formula reads what the log does not have.
    """
    for source in plan.drawn:
        program = bind(source.program, tables)
        for step, batch in batches:
            own = [t for t in batch if t.env == source.env]
            try:
                table, members = batch_of(source, own, step)
                results = evaluate(program, table) if members else {}  # type: ignore[arg-type]
            except ValueError as error:
                cure = "a log can be scored by what it measured and by what a `tiers` judge reads off its dialogues"
                raise Refusal("RLC0705", str(error), cure) from error
            for name, values in results.items():
                level = BY_LABEL[program.steps[program.outputs[name]].level]
                for trajectory, value in zip(members, per_trajectory(values, level, table), strict=True):
                    trajectory.scores[name] = value


def _env(log: Log, name: str, envs: Sequence[str]) -> str:
    if name in envs:
        return name
    if len(envs) == 1:
        return envs[0]
    raise Refusal(
        "RLC0705",
        f"{log.path} has conversations on `{name}`, the spec has {', '.join(envs)}",
        "import the log again with --env and the label that is meant",
    )


def _renamed(measure: str, old: str, new: str) -> str:
    label, dot, name = measure.partition(".")
    return f"{new}{dot}{name}" if label == old else measure


def _judges(log: Log, plan: Plan, source: SourcePlan) -> dict[str, TierJudge]:
    """Judges that can label the log now, but for those that labelled it in just this way when it was recorded."""
    recorded = {part.label: part.component() for part in log.plan.judges} if log.plan is not None else {}
    found = {label: plan.labelled(label).component() for label in source.judges}
    return {
        label: TierJudge(component)
        for label, component in found.items()
        if isinstance(component, Tiers) and recorded.get(label) != component
    }
