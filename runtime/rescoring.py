"""What a difference between two specs does: the same conversations scored under both.

    log = read(Path("runs/tarl"))                        # a run, a log that was imported, or one file of a run
    before, after = scored(log, plan), scored(log, other)
    found = effect(before, after)
    found.turns_flipped                                  # share of turns whose advantage has the other sign
    recorded(log)                                        # what the run itself computed, to compare with

Nothing is generated again: a policy trained under the other spec would have said other things. What is shown is the
first gradient step that the two specs would take on this batch, not where they lead.

Scores are those of the plain evaluator, so neither numba nor torch is imported. A trajectory's reward is its own, or
the sum of its turns'; an advantage is one number per turn (a trajectory's stands for all its turns, a turn of tokens
for their mean). Group statistics are those of the step in which the conversations were had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import fsum, sqrt
from pathlib import Path
from typing import Any

from rlspec.compiler.align import align
from rlspec.compiler.binding import tables_of
from rlspec.compiler.form import form_of
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.logs.fitting import Batches, fitted, score
from rlspec.runtime.logs.log import Log
from rlspec.runtime.record import store
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal

NOISE = 1e-12  # an advantage that is smaller is 0: rounding has no sign
_UNTAUGHT = ("sft", "diagnostician", "evaluate")  # stages that learn from no trajectories of their own
Tables = Mapping[str, Sequence[float]]


@dataclass(slots=True)
class Logged:
    """A log, restricted to a stage and perhaps one step of it."""

    log: Log
    stage: str | None = None
    step: int | None = None

    def kept(self, batches: Batches) -> Batches:
        """Of the batches of the stage, those of the step, without trajectories that a stage sampled again: their groups
        are none of the specs', which may know no such stage."""
        plan = self.log.plan
        again = {s.stage for s in plan.sources if s.stage is not None} if plan is not None else set()
        return [
            (step, [t for t in batch if t.key.partition("/")[0] not in again])
            for step, batch in batches
            if self.step in (None, step)
        ]

    def found(self) -> dict[str, list[float]]:
        """The tables that the run's stages found ("calibrate.weight" -> a value per choice)."""
        if self.log.plan is None:
            return {}
        results = RunDirectory.open(self.log.path, None, resume=False).results()
        return {
            f"{stage}.{name}": [float(v) for v in values.values()]
            for stage, body in results.items()
            for name, values in body.get("results", {}).items()
        }


@dataclass(frozen=True, slots=True)
class Score:
    """One trajectory under one spec. `advantages` has an entry per turn, `terms` the reward's terms by their texts."""

    key: str
    task: str
    env: str
    group: int
    reward: float
    advantages: tuple[float, ...]
    terms: Mapping[str, float] = field(default_factory=dict)

    @property
    def advantage(self) -> float:
        """The mean over its turns; 0 without turns."""
        return fsum(self.advantages) / len(self.advantages) if self.advantages else 0.0

    @property
    def live(self) -> bool:
        """Whether anything is learned from it."""
        return any(abs(a) > NOISE for a in self.advantages)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike two orders are. `rho` is Spearman's rank correlation over all (None where a side is constant);
    `swapped` the share of the pairs within a group that both sides rank, and the other way round; `pairs` their
    number."""

    rho: float | None
    swapped: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Change:
    """A trajectory before and after; `shift` is the mean distance of its turns' advantages."""

    before: Score
    after: Score
    shift: float


@dataclass(frozen=True, slots=True)
class Effect:
    """See the module. Shares are of all trajectories, turns or groups: `flipped` have advantages of opposite sign,
    `silenced` one that is no longer there, `woken` one that was not; `dead` groups teach nothing."""

    trajectories: int
    turns: int
    groups: int
    rewards: Agreement
    advantages: Agreement
    turn_rho: float | None
    trajectories_flipped: float
    turns_flipped: float
    turns_silenced: float
    turns_woken: float
    dead: tuple[float, float]
    means: tuple[float, float]
    changed: int
    largest: tuple[Change, ...]


def read(path: Path, stage: str | None = None) -> Logged:
    """A run directory, a directory that `rlc import` wrote, or one file of trajectories in such a directory. Of a run
    without `stage`, the last stage that learns from trajectories.

    Raises:
        Refusal: RLC0705 there is none, RLC0706 it is damaged.
    """
    if path.suffix != ".parquet":
        log = Log.open(path)
        return Logged(log, stage or _learning(log))
    place = store.stage_and_step(path.name)
    if place is None or not path.is_file():
        cure = "give a run directory, or one of its files such as trajectories/train-000012.parquet"
        raise Refusal("RLC0705", f"there are no trajectories at {path}", cure)
    if stage is not None and stage != place[0]:
        raise Refusal("RLC0705", f"{path} is of stage {place[0]}, not of {stage}")
    return Logged(Log.open(path.resolve().parent.parent), *place)


def _learning(log: Log) -> str | None:
    if log.plan is None:
        return None
    there = {stage for stage, _ in log.steps()}
    learning = [s.label for s in log.plan.stages if s.name not in _UNTAUGHT and s.label in there]
    return learning[-1] if learning else None


def scored(logged: Logged, plan: Plan, tables: Tables | None = None) -> list[Score]:
    """Every trajectory of the log under a plan, in the log's order, without those that the machinery lost. Tables that
    are not given are those that the run found.

    Raises:
        Refusal: RLC0705 the log lacks what a formula reads, or a table that a stage finds is not given.
    """
    tables = {**logged.found(), **(tables or {})}
    wanted = {name: size for source in plan.sources for name, size in tables_of(source.program).items()}
    if missing := sorted(wanted.keys() - tables.keys()):
        cure = f"give its values: --table {missing[0]}=" + ",".join(["0"] * wanted[missing[0]])
        raise Refusal("RLC0705", f"{missing[0]} is known only after its stage", cure)
    for name in wanted:
        if len(tables[name]) != wanted[name]:
            raise Refusal("RLC0705", f"{name} holds {wanted[name]} values, not {len(tables[name])}")
    batches = logged.kept(fitted(logged.log, plan, logged.stage))
    _relabel(logged.log.plan, plan, batches)
    score(plan, batches, tables)
    sources = {source.env: source for source in plan.drawn}
    return [_score(t, sources[t.env]) for _, batch in batches for t in batch]


def _relabel(recorded: Plan | None, plan: Plan, batches: Batches) -> None:
    """Give what judges and users measured the labels that the plan has for them, where it calls them otherwise."""
    names = align(form_of(recorded), form_of(plan)) if recorded is not None else {}
    for (kind, label), old in names.items():
        for _, batch in batches if kind in ("judge", "user") else ():
            for trajectory in batch:
                for measure, value in list(trajectory.measures.items()):
                    owner, dot, name = measure.partition(".")
                    if owner == old:
                        trajectory.measures.setdefault(f"{label}{dot}{name}", value)


def recorded(logged: Logged) -> list[Score]:
    """What the run computed itself when it had these conversations.

    Raises:
        Refusal: RLC0705 the log is no run's, or nothing was scored in it.
    """
    plan = logged.log.plan
    if plan is None:
        raise Refusal("RLC0705", f"{logged.log.path} was imported and has no scores of its own", "give --spec")
    sources = {source.env: source for source in plan.drawn}
    found = [
        _score(trajectory, source)
        for _, batch in logged.kept(logged.log.batches(logged.stage))
        for trajectory in batch
        if trajectory.failure is None
        and (source := sources.get(trajectory.env)) is not None
        and source.advantage in trajectory.scores
    ]
    if not found:
        raise Refusal(
            "RLC0705", f"{logged.log.path} has no scored trajectories of this stage", "choose another --stage"
        )
    return found


def _score(trajectory: Trajectory, source: SourcePlan) -> Score:
    scores, turns = trajectory.scores, trajectory.ledger.turns
    level = source.program.steps[source.program.outputs[source.advantage]].level
    found = scores[source.advantage]
    if level == "token":
        cuts = [s.stop - s.start for s in trajectory.ledger.turn_slices()]
        starts = [sum(cuts[:i]) for i in range(len(cuts))]
        per_turn = [fsum(found[a : a + n]) / n if n else 0.0 for a, n in zip(starts, cuts, strict=True)]
    else:
        per_turn = list(found) if level == "turn" else [float(found)] * turns
    terms: dict[str, float] = {}
    for term in source.terms:
        if term.output in scores:
            terms[term.text] = terms.get(term.text, 0.0) + _total(scores[term.output])
    place = trajectory.key, trajectory.task, trajectory.env, trajectory.group
    return Score(*place, _total(scores[source.reward]), tuple(float(a) for a in per_turn), terms)


def _total(value: Any) -> float:
    return fsum(value) if isinstance(value, list) else float(value)


# ------------------------------------------------------------------------------------------------------ the effect


def effect(before: Sequence[Score], after: Sequence[Score], most: int = 5) -> Effect:
    """Compare two scorings of the same trajectories; `most` of them are named, those that change most.

    Raises:
        ValueError: they are not of the same trajectories.
    """
    if [s.key for s in before] != [s.key for s in after]:
        raise ValueError("the two scorings are of other trajectories")
    pairs = list(zip(before, after, strict=True))
    signs = [(_sign(a), _sign(b)) for x, y in pairs for a, b in zip(x.advantages, y.advantages, strict=True)]
    whole = [(_sign(x.advantage), _sign(y.advantage)) for x, y in pairs]
    groups = _groups(before)
    changes = [Change(x, y, _distance(x, y)) for x, y in pairs]
    largest = sorted((c for c in changes if c.shift > NOISE), key=lambda c: -c.shift)
    flat = [[a for s in side for a in s.advantages] for side in (before, after)]
    return Effect(
        trajectories=len(pairs),
        turns=len(signs),
        groups=len(groups),
        rewards=agreement([s.reward for s in before], [s.reward for s in after], groups),
        advantages=agreement([s.advantage for s in before], [s.advantage for s in after], groups),
        turn_rho=spearman(*flat),
        trajectories_flipped=_share(a * b < 0 for a, b in whole),
        turns_flipped=_share(a * b < 0 for a, b in signs),
        turns_silenced=_share(a != 0 and b == 0 for a, b in signs),
        turns_woken=_share(a == 0 and b != 0 for a, b in signs),
        dead=(dead(before), dead(after)),
        means=(_mean([s.reward for s in before]), _mean([s.reward for s in after])),
        changed=len(largest),
        largest=tuple(largest[:most]),
    )


def by_env(before: Sequence[Score], after: Sequence[Score], most: int = 0) -> dict[str, Effect]:
    """The effect on each environment of the first spec by itself, where there are several."""
    out = {}
    for env in dict.fromkeys(s.env for s in before):
        chosen = [i for i, s in enumerate(before) if s.env == env]
        out[env] = effect([before[i] for i in chosen], [after[i] for i in chosen], most)
    return out if len(out) > 1 else {}


def matched(before: Sequence[Score], after: Sequence[Score]) -> tuple[list[Score], list[Score]]:
    """Those that both sides have, in the first's order: a run does not score what it only evaluates."""
    second = {(s.key, s.group): s for s in after}
    kept = [s for s in before if (s.key, s.group) in second]
    return kept, [second[s.key, s.group] for s in kept]


def dead(scores: Sequence[Score]) -> float:
    """Share of groups from which nothing is learned: every advantage in them is 0."""
    return _share(not any(scores[i].live for i in members) for members in _groups(scores))


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties sharing their mean rank; None when a side is constant or empty."""
    a, b = _ranks(x), _ranks(y)
    if not a:
        return None
    mean = (len(a) + 1) / 2
    spread = sqrt(fsum((r - mean) ** 2 for r in a)) * sqrt(fsum((r - mean) ** 2 for r in b))
    if spread == 0.0:
        return None
    return fsum((p - mean) * (q - mean) for p, q in zip(a, b, strict=True)) / spread


def agreement(x: Sequence[float], y: Sequence[float], groups: Sequence[Sequence[int]]) -> Agreement:
    """How alike two lists of numbers are ordered, over all and within groups (lists of positions)."""
    swapped = pairs = 0
    for members in groups:
        for i, j in combinations(members, 2):
            first, second = _sign(x[i] - x[j]), _sign(y[i] - y[j])
            if first and second:
                pairs += 1
                swapped += first != second
    return Agreement(spearman(x, y), swapped / pairs if pairs else None, pairs)


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for i in order[start:stop]:
            ranks[i] = (start + 1 + stop) / 2
        start = stop
    return ranks


def _groups(scores: Sequence[Score]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for place, one in enumerate(scores):
        found.setdefault(one.group, []).append(place)
    return list(found.values())


def _distance(x: Score, y: Score) -> float:
    return _mean([abs(a - b) for a, b in zip(x.advantages, y.advantages, strict=True)])


def _sign(value: float) -> int:
    return (value > NOISE) - (value < -NOISE)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def _share(flags: Any) -> float:
    listed = [bool(f) for f in flags]
    return sum(listed) / len(listed) if listed else 0.0


def plain(found: Effect) -> dict[str, Any]:
    """An effect as JSON."""
    from dataclasses import asdict

    body = asdict(replace(found, largest=()))
    body["largest"] = [
        {
            "key": c.before.key, "task": c.before.task, "shift": c.shift,
            "reward": [c.before.reward, c.after.reward],
            "advantages": [list(c.before.advantages), list(c.after.advantages)],
            "terms": [dict(c.before.terms), dict(c.after.terms)],
        }
        for c in found.largest
    ]  # fmt: skip
    return body
