"""What a log says about rewards for turns, before anything is trained: evidence per tier, signs, dead turns, the floor.

    for found in audit(Log.open(path), plan):
        found.rows                    # the evidence, see `rlspec.runtime.association`
        found.health.dead             # with a spec: by its own advantage
        found.floor.passed            # tasks that a policy passes that does nothing

Without a spec the tiers are those of the judge `tiers` with its defaults, and the outcome is what was verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb, fsum
from typing import Any

from rlspec.compiler.catalog.calibration import Irc
from rlspec.compiler.catalog.tiers import TIERS, Tiers
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.association import Row, correlation, mismatches, realised, table, weights
from rlspec.runtime.irc import Calibration, by_turn, mean_of, search
from rlspec.runtime.logs.fitting import fitted, score
from rlspec.runtime.logs.log import Log
from rlspec.runtime.metrics import health_of
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.turn_health import TurnHealth
from rlspec.runtime.worlds.tiers import TierJudge

THRESHOLD, SCALE = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Floor:
    """What doing nothing earns: of how many tasks it is known, how many end in the wanted state untouched, and how many
    of those also ask for no text to be said (None: the log does not say)."""

    tasks: int
    passed: int
    silent: int | None


@dataclass(frozen=True, slots=True)
class Audit:
    """One environment of a log. `suggested` are the weights that the evidence gives by itself. With a spec: `paid` is
    the mean reward of a tier's turns, `realised` their mean advantage, `mismatches` tiers where the two signs differ,
    `agreement` the correlation of a trajectory's mean reward with its outcome, `calibrations` what the spec's `irc`
    stages find here."""

    env: str
    conversations: int
    tasks: int
    turns: int
    success: float
    floor: Floor
    threshold: float
    scale: float
    rows: list[Row]
    suggested: dict[str, float]
    paid: dict[str, float | None] | None = None
    realised: dict[str, float | None] | None = None
    mismatches: list[str] | None = None
    agreement: float | None = None
    health: TurnHealth | None = None
    calibrations: dict[str, Calibration] | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def audit(
    log: Log, plan: Plan | None, stage: str | None = None, threshold: float | None = None, scale: float | None = None
) -> list[Audit]:
    """Audit every environment of a log. `threshold` and `scale` are by default those of the spec's `irc` stage.

    Raises:
        Refusal: RLC0705 the log has no outcomes, or not what the spec's formulas read.
    """
    if plan is None:
        trajectories = [t for t in log.trajectories(stage) if t.failure is None]
        envs = dict.fromkeys(t.env for t in trajectories)
        own = {env: [t for t in trajectories if t.env == env] for env in envs}
        found = []
        for env, listed in own.items():
            kinds = [TierJudge(Tiers()).label(log.task(t).gold, t.dialogue)[0] for t in listed]
            found.append(
                _evidence(log, env, listed, kinds, TIERS, THRESHOLD if threshold is None else threshold, scale or SCALE)
            )
        return found
    batches = fitted(log, plan, stage)
    tables: dict[str, list[float]] = {}
    calibrations: dict[str, Calibration] = {}
    config: Irc | None = None
    for declared in plan.stages:
        component = declared.component()
        if isinstance(component, Irc):
            config = config or component
            calibrations[declared.label] = search(plan, declared.label, lambda _: batches, tables)
            tables[f"{declared.label}.weight"] = list(calibrations[declared.label].weights.values())
    score(plan, batches, tables)
    if threshold is None:
        threshold = config.threshold if config else THRESHOLD
    if scale is None:
        scale = config.scale if config else SCALE
    out = []
    for source in plan.drawn:
        listed = [t for _, batch in batches for t in batch if t.env == source.env]
        if listed:
            labels, choices = _labels(log, plan, source, listed, config)
            evidence = _evidence(log, source.env, listed, labels, choices, threshold, scale)
            out.append(_with_spec(evidence, source, listed, labels, choices, calibrations))
    return out


def floor_of(log: Log, trajectories: Sequence[Trajectory]) -> Floor:
    """What doing nothing earns on the tasks of these trajectories: by hashes where the log has them, else by asking a
    fresh world."""
    chosen = {t.task: t for t in trajectories}
    known = passed = 0
    silent: int | None = None
    for trajectory in chosen.values():
        task = log.task(trajectory)
        before, after = task.payload.get("initial_hash"), task.payload.get("reference_hash")
        told = trajectory.measures.get(f"{trajectory.env}.floor")
        if told is not None:  # the world said it when it was there
            known, passed = known + 1, passed + int(told)
        elif before is not None and after is not None:
            known, passed = known + 1, passed + (before == after)
            if "outputs" in task.payload:
                silent = (silent or 0) + (before == after and not task.payload["outputs"])
        elif log.plan is not None:
            known, passed = known + 1, passed + _untouched(log.plan, trajectory, log)
    return Floor(known, passed, silent)


def _untouched(plan: Plan, trajectory: Trajectory, log: Log) -> bool:
    from rlspec.runtime.worlds.registry import world_of

    world = world_of(plan, next(s for s in plan.drawn if s.env == trajectory.env))
    session = world.reset(log.task(trajectory))
    try:
        return bool(session.measure().get("verified", 0))
    finally:
        session.close()


def _outcome(log: Log, trajectory: Trajectory) -> float:
    name = f"{trajectory.env}.verified"
    if name not in trajectory.measures:
        raise Refusal(
            "RLC0705",
            f"{trajectory.key} in {log.path} has no outcome (`{name}`)",
            "import records that have a `reward` of 0 or 1",
        )
    return float(trajectory.measures[name])


def _evidence(
    log: Log,
    env: str,
    trajectories: Sequence[Trajectory],
    labels: Sequence[Sequence[str]],
    choices: Sequence[str],
    threshold: float,
    scale: float,
) -> Audit:
    outcomes = [_outcome(log, t) for t in trajectories]
    rows = table(labels, outcomes, choices)
    return Audit(
        env=env,
        conversations=len(trajectories),
        tasks=len({t.task for t in trajectories}),
        turns=sum(t.ledger.turns for t in trajectories),
        success=fsum(outcomes) / len(outcomes) if outcomes else 0.0,
        floor=floor_of(log, trajectories),
        threshold=threshold,
        scale=scale,
        rows=rows,
        suggested=weights(rows, threshold, scale),
    )


def _labels(
    log: Log, plan: Plan, source: SourcePlan, trajectories: Sequence[Trajectory], config: Irc | None
) -> tuple[list[Sequence[str]], tuple[str, ...]]:
    """The kinds of turn that the spec tells apart: of its `irc` stage's signal, else of its `tiers` judge, else the
    default ones."""
    judges = {label: plan.labelled(label).component() for label in source.judges}
    for signal in source.signals:
        label, _, name = signal.measure.partition(".")
        if (config is not None and signal.name == config.signal) or (
            config is None and name == "tier" and isinstance(judges.get(label), Tiers)
        ):
            return [t.measures[signal.measure] for t in trajectories], signal.choices
    judge = next((j for j in judges.values() if isinstance(j, Tiers)), Tiers())
    return [TierJudge(judge).label(log.task(t).gold, t.dialogue)[0] for t in trajectories], TIERS


def _with_spec(
    evidence: Audit,
    source: SourcePlan,
    trajectories: Sequence[Trajectory],
    labels: Sequence[Sequence[str]],
    choices: Sequence[str],
    calibrations: dict[str, Calibration],
) -> Audit:
    advantages = [by_turn(t, t.scores[source.advantage]) for t in trajectories]
    rewards = [t.scores[source.reward] for t in trajectories]
    paid: dict[str, float | None] = dict.fromkeys(choices)
    if all(isinstance(r, list) and len(r) == t.ledger.turns for r, t in zip(rewards, trajectories, strict=True)):
        paid = realised(labels, rewards, choices)
    means = realised(labels, advantages, choices)
    intended = {choice: value for choice, value in paid.items() if value is not None}
    outcomes = [float(t.measures[f"{t.env}.verified"]) for t in trajectories]
    return Audit(
        **{name: getattr(evidence, name) for name in Audit.__slots__[: Audit.__slots__.index("paid")]},
        paid=paid,
        realised=means,
        mismatches=mismatches(intended, means),
        agreement=correlation([mean_of(r) for r in rewards], outcomes),
        health=health_of(source, trajectories),
        calibrations=calibrations,
    )


def pass_powers(log: Log, ks: Sequence[int], stage: str | None) -> dict[int, tuple[float | None, int]]:
    """pass^k of a log, and how many tasks it is over: the mean over tasks with at least k trials of C(c, k) / C(n, k)
    for c successes in n trials (Yao et al. 2024, tau-bench). None where no task has k trials; trials that the machinery
    lost are left out.

    Raises:
        Refusal: RLC0705 the log has no outcomes.
    """
    trials: dict[tuple[str, str], list[bool]] = {}
    for t in log.trajectories(stage):
        if t.failure is None:
            trials.setdefault((t.env, t.task), []).append(_outcome(log, t) == 1.0)
    out: dict[int, tuple[float | None, int]] = {}
    for k in ks:
        parts = [comb(sum(v), k) / comb(len(v), k) for v in trials.values() if len(v) >= k]
        out[k] = (fsum(parts) / len(parts) if parts else None, len(parts))
    return out
