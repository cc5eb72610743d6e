"""Metrics of trajectories: deterministic numbers that say what a step or an evaluation was like."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import comb, fsum

from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.turn_health import TurnHealth, turn_health

FINISHES = ("user_done", "transferred", "turn_limit", "context_limit", "malformed")


def mean(values: Iterable[float]) -> float:
    """The mean, 0 of nothing; exactly rounded, so that the order does not matter."""
    listed = list(values)
    return fsum(listed) / len(listed) if listed else 0.0


def describe(plan: Plan, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Success, rewards with their terms, dead groups, lengths, how talks ended, and the means of all measures.

    `success` is the share whose env says `verified`; `dead_groups` the share of groups whose rewards are all equal
    (no advantage comes from them); `failed` the share that the machinery lost, which counts nowhere else, and
    `failed.judge` and so on whose failures they were, where there are any. What was
    sampled again after a failure counts in `trajectories` and in its own source's figures only;
    `error_recovery` is the success of those that the env answered with an error at least once, where there are any;
    `dead_turns` and `misaligned_turns` are those of `rlspec.runtime.turn_health`.
    """
    sound = [t for t in trajectories if t.failure is None]
    first = [t for t in sound if plan.source_of(t.env, t.key).stage is None]
    out = {
        "trajectories": float(len(sound)),
        "failed": 1 - len(sound) / len(trajectories) if trajectories else 0.0,
        "success": mean(float(t.measures.get(f"{t.env}.verified", 0)) for t in first),
    }
    for part, count in sorted(Counter(t.failure.partition(":")[0] for t in trajectories if t.failure).items()):
        out[f"failed.{part}"] = count / len(trajectories)
    for source in plan.sources:
        prefix = "" if len(plan.sources) == 1 else f"{source.name}."
        own = [t for t in sound if t.env == source.env and plan.source_of(t.env, t.key) is source]
        scored = [t for t in own if source.reward in t.scores]
        if scored:
            out[f"{prefix}reward"] = mean(_total(t.scores[source.reward]) for t in scored)
            for term in source.terms:
                out[f"{prefix}{term.output}"] = mean(_total(t.scores[term.output]) for t in scored)
            groups: dict[int, set[float]] = defaultdict(set)
            for t in scored:
                groups[t.group].add(_total(t.scores[source.reward]))
            out[f"{prefix}dead_groups"] = mean(float(len(values) == 1) for values in groups.values())
            health = health_of(source, scored)
            if health is not None:
                out |= {f"{prefix}dead_turns": health.dead, f"{prefix}misaligned_turns": health.misaligned}
    out["turns"] = mean(float(t.ledger.turns) for t in first)
    out["tokens"] = mean(float(len(t.ledger)) for t in first)
    out["agent_tokens"] = mean(float(sum(s.stop - s.start for s in t.ledger.turn_slices())) for t in first)
    for finish in FINISHES:
        out[f"finish.{finish}"] = mean(float(t.finish == finish) for t in first)
    erred = [t for t in first if t.measures.get(f"{t.env}.errors")]
    if erred:
        out["error_recovery"] = mean(float(t.measures.get(f"{t.env}.verified", 0)) for t in erred)
    again = {source.stage for source in plan.sources}
    out |= {n: v for n, v in _measures(first).items() if n.partition(".")[0] not in again}
    return out


def health_of(source: SourcePlan, trajectories: Sequence[Trajectory]) -> TurnHealth | None:
    """Dead and misaligned turns of a source's scored trajectories, by the outcome that its env verified; None where
    there is none, or where advantages vary inside a turn."""
    verified = f"{source.env}.verified"
    if source.advantage_level == "token" or any(verified not in t.measures for t in trajectories):
        return None
    advantages = [t.scores[source.advantage] for t in trajectories]
    return turn_health(
        [t.group for t in trajectories],
        [float(t.measures[verified]) for t in trajectories],
        [a if isinstance(a, list) else [a] * t.ledger.turns for a, t in zip(advantages, trajectories, strict=True)],
    )


def _total(value: float | list[float]) -> float:
    """A trajectory's value, or the sum of its turns' values."""
    return fsum(value) if isinstance(value, list) else float(value)


def _measures(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means of every numeric measure; of turn measures, the mean over all turns, or each label's share of them."""
    found: dict[str, list[float]] = defaultdict(list)
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for trajectory in trajectories:
        for name, value in trajectory.measures.items():
            if isinstance(value, list):
                found[name] += [float(v) for v in value if not isinstance(v, str)]
                labels[name].update(v for v in value if isinstance(v, str))
            elif not isinstance(value, str):
                found[name].append(float(value))
    out = {name: mean(values) for name, values in found.items() if values}
    for name, counts in labels.items():
        out |= {f"{name}.{label}": count / counts.total() for label, count in counts.items()}
    return dict(sorted(out.items()))


def pass_at(trajectories: Sequence[Trajectory], ks: Sequence[int]) -> dict[str, float]:
    """pass^k: the chance that k trials of one task all succeed, mean over tasks of C(c, k) / C(n, k) for c successes in
    n trials (Yao et al. 2024, tau-bench, section 3). Trials that the machinery lost are left out; tasks with fewer than
    k trials left do not count for that k."""
    trials: dict[str, list[bool]] = defaultdict(list)
    for t in trajectories:
        if t.failure is None:
            trials[t.task].append(bool(t.measures.get(f"{t.env}.verified", 0)))
    return {f"pass^{k}": mean(comb(sum(v), k) / comb(len(v), k) for v in trials.values() if len(v) >= k) for k in ks}
