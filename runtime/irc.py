"""Iterative reward calibration: from episodes to what each kind of turn is worth (MT-GRPO + IRC, arXiv 2604.02869).

    found = search(plan, "calibrate", lambda round: batches, {})
    found.weights                 # {"gold": 0.9, "read": 0.0, ...}, in the order of the signal's choices
    found.rounds[-1].mismatches   # kinds whose realised advantage still has the wrong sign

The same search runs inside a run, on fresh episodes each round, and on a log, where every round sees the same ones.
The paper did this by hand between runs; what it leaves open (threshold, scale, what a mismatch does) are the fields of
the stage `irc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from rlspec.compiler.catalog.calibration import Irc
from rlspec.compiler.plan import Plan, SignalPlan, SourcePlan
from rlspec.runtime.association import Row, correlation, mismatches, realised, table, weights
from rlspec.runtime.logs.fitting import Batches, score
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal

FACTOR = {"drop": 0.0, "halve": 0.5, "keep": 1.0}


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the evidence of all episodes so far, the candidate's weights, the mean advantage of each kind of turn
    with them, kinds where the signs differ, and the correlation of mean reward with outcome (None: undefined)."""

    number: int
    trajectories: int
    rows: list[Row]
    weights: dict[str, float]
    realised: dict[str, float | None]
    mismatches: list[str]
    agreement: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """All rounds; the last one's weights are the result. `ended` says why there was no further one."""

    signal: str
    choices: tuple[str, ...]
    threshold: float
    scale: float
    rounds: list[Round]
    ended: str

    @property
    def weights(self) -> dict[str, float]:
        """What each kind of turn is worth."""
        return self.rounds[-1].weights

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def search(
    plan: Plan, label: str, episodes: Callable[[int], Batches], tables: Mapping[str, Sequence[float]]
) -> Calibration:
    """Run the rounds of stage `label`.

    Args:
        episodes: of a round's number (from 0), all trajectories so far, with what the plan's formulas read.
        tables: what other stages have found.

    Raises:
        Refusal: RLC0708 no formula reads the stage's signals; RLC0705 as `fitting.score`.
    """
    config = next(s for s in plan.stages if s.label == label).component()
    assert isinstance(config, Irc)
    choices = _signal(sources_of(plan, config)[0], config.signal).choices
    factors = dict.fromkeys(choices, 1.0)
    rounds: list[Round] = []
    before: tuple[int, dict[str, float]] | None = None
    while True:
        batches = episodes(len(rounds))
        rounds.append(_round(plan, label, config, batches, factors, tables, len(rounds)))
        last = rounds[-1]
        agreed = last.agreement is not None and last.agreement > config.agreement
        now = (last.trajectories, last.weights)
        if not last.mismatches and agreed:
            ended = "no sign differs, and reward and outcome agree"
        elif now == before:
            ended = "a round changed nothing"
        elif len(rounds) >= config.rounds:
            ended = f"after {config.rounds} rounds"
        else:
            before = now
            for choice in last.mismatches:
                factors[choice] *= FACTOR[config.on_mismatch]
            continue
        return Calibration(config.signal, choices, config.threshold, config.scale, rounds, ended)


def sources_of(plan: Plan, config: Irc) -> list[SourcePlan]:
    """The sources whose formulas read both of the stage's signals.

    Raises:
        Refusal: RLC0708 there is none.
    """
    found = [s for s in plan.drawn if {config.signal, config.outcome} <= {signal.name for signal in s.signals}]
    if not found:
        cure = "let the reward read the table, and the advantage the outcome"
        raise Refusal("RLC0708", f"no formula reads both `{config.signal}` and `{config.outcome}`", cure)
    return found


def _signal(source: SourcePlan, name: str) -> SignalPlan:
    return next(signal for signal in source.signals if signal.name == name)


def _round(
    plan: Plan,
    label: str,
    config: Irc,
    batches: Batches,
    factors: Mapping[str, float],
    tables: Mapping[str, Sequence[float]],
    number: int,
) -> Round:
    sources = {source.env: source for source in sources_of(plan, config)}
    own = [t for _, batch in batches for t in batch if t.failure is None and t.env in sources]
    labels = [t.measures[_signal(sources[t.env], config.signal).measure] for t in own]
    outcomes = [float(t.measures[_signal(sources[t.env], config.outcome).measure]) for t in own]
    choices = tuple(factors)
    rows = table(labels, outcomes, choices)
    found = {choice: value * factors[choice] for choice, value in weights(rows, config.threshold, config.scale).items()}
    score(plan, batches, {**tables, f"{label}.weight": list(found.values())})
    means = realised(labels, [by_turn(t, t.scores[sources[t.env].advantage]) for t in own], choices)
    rewards = [mean_of(t.scores[sources[t.env].reward]) for t in own]
    return Round(number, len(own), rows, found, means, mismatches(found, means), correlation(rewards, outcomes))


def by_turn(trajectory: Trajectory, advantage: float | list[float]) -> list[float]:
    """An advantage as one number per turn: a trajectory's stands for each of its turns, tokens for their mean."""
    if not isinstance(advantage, list):
        return [advantage] * trajectory.ledger.turns
    if len(advantage) == trajectory.ledger.turns:
        return advantage
    out, first = [], 0
    for tokens in trajectory.ledger.turn_slices():
        count = tokens.stop - tokens.start
        out.append(mean_of(advantage[first : first + count]))
        first += count
    return out


def mean_of(value: float | list[float]) -> float:
    """A trajectory's value, or the mean of its turns' values; 0 of none."""
    if not isinstance(value, list):
        return float(value)
    return fsum(value) / len(value) if value else 0.0
