"""From trajectories to the ragged batch that programs are evaluated on.

    signals = [SignalSpec("verified", Level.TRAJ, "shop.verified", "bool"),
               SignalSpec("judged", Level.TURN, "careful.score", "int")]
    batch, members = ragged(trajectories, signals)
    batch.signals["judged"]                              # (M,), one per agent turn of `members`, in order

Where a value comes from by the signal's level: a trajectory value is the measure itself, a turn value is one
entry of the measure's list, a token value one entry of a list over the trajectory's agent tokens. Values of
coarser levels are measured by every trajectory and must agree. Nothing is filled in: a missing or misshapen
measure is an error that names the trajectory, since a silent 0 would be a reward nobody declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.plan import SourcePlan
from rlspec.runtime.record.lines import plain
from rlspec.runtime.record.ragged import Offsets, RaggedBatch, Signal
from rlspec.runtime.record.trajectory import Trajectory

SignalKind = Literal["real", "int", "bool", "code"]
_EXACT = 2**53  # whole numbers beyond are not all float64


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """An input of a program: its `name`, the `level` at which it varies, the `measure` ("label.name") that it
    is read from, and its `kind`. A `code` with `choices` is an enumeration (code = position in `choices`);
    without, it is a text, numbered through the batch so that equal texts of any two signals have equal codes.
    The text None (no such thing in this turn) has the code -1."""

    name: str
    level: Level
    measure: str
    kind: SignalKind = "real"
    choices: tuple[str, ...] | None = None


def signal_specs(source: SourcePlan) -> list[SignalSpec]:
    """The inputs of a source's program, as the batch is built from them."""
    return [SignalSpec(s.name, BY_LABEL[s.level], s.measure, s.kind, s.choices or None) for s in source.signals]


def ragged(trajectories: Iterable[Trajectory], signals: Sequence[SignalSpec]) -> tuple[RaggedBatch, list[Trajectory]]:
    """Build the batch, and say who is in it.

    Failed trajectories are left out. The others are put in the order of their group numbers, within a group
    in the order given; a group without members does not exist in the batch.

    Returns:
        The batch (G groups, N trajectories, M turns, L agent tokens), and its N trajectories in the batch's
        order.

    Raises:
        ValueError: a measure that is missing, has another number of entries than its level, is of another
            kind than declared, or differs within a group or step where the level says that it cannot.
    """
    members = sorted((t for t in trajectories if t.failure is None), key=lambda t: t.group)
    groups = np.asarray([t.group for t in members], dtype=np.int64)
    group_sizes = np.unique(groups, return_counts=True)[1]
    turn_sizes = [t.ledger.turns for t in members]
    token_sizes = [turn.stop - turn.start for t in members for turn in t.ledger.turn_slices()]
    batch = RaggedBatch(_offsets(group_sizes), _offsets(turn_sizes), _offsets(token_sizes))
    codes: dict[str | None, int] = {None: -1}
    for signal in signals:
        batch.signals[signal.name] = _column(signal, members, batch, codes)
    return batch, members


def batch_of(source: SourcePlan, trajectories: Iterable[Trajectory], step: int) -> tuple[RaggedBatch, list[Trajectory]]:
    """What a source's program reads of its trajectories, in training step `step`, and who is in it.

    Raises:
        ValueError: see `ragged`.
    """
    specs = signal_specs(source)
    batch, members = ragged(trajectories, [s for s in specs if s.measure != "stage.step"])
    for spec in specs:
        if spec.measure == "stage.step":
            batch.signals[spec.name] = np.array([float(step)])
    return batch, members


def _offsets(sizes: Any) -> Offsets:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(np.asarray(sizes, dtype=np.int64), out=offsets[1:])
    return offsets


def _column(signal: SignalSpec, members: list[Trajectory], batch: RaggedBatch, codes: dict[str | None, int]) -> Signal:
    """One signal's values, float64, over the members of its level."""
    values: list[float] = []
    for index, trajectory in enumerate(members):
        measured = _measured(signal, trajectory)
        match signal.level:
            case Level.TURN | Level.TOKEN:
                first, last = batch.turn_offsets[index], batch.turn_offsets[index + 1]
                expected = int(last - first)
                if signal.level is Level.TOKEN:
                    expected = int(batch.token_offsets[last] - batch.token_offsets[first])
                if not isinstance(measured, list) or len(measured) != expected:
                    got = f"{len(measured)} entries" if isinstance(measured, list) else repr(measured)
                    raise _wrong(signal, trajectory, f"{got} for {expected} agent {signal.level.label}s")
                if signal.kind == "real" and set(map(type, measured)) <= {float}:
                    values.extend(measured)
                else:
                    values.extend(_number(signal, trajectory, entry, codes) for entry in measured)
            case _:
                values.append(_number(signal, trajectory, measured, codes))
    column = np.asarray(values, dtype=np.float64)
    match signal.level:
        case Level.GROUP:
            return _agreed(signal, members, column, batch.group_offsets)
        case Level.STEP | Level.CONST:
            if not members:
                return np.full(1, np.nan)
            return _agreed(signal, members, column, np.asarray([0, len(members)], dtype=np.int64))
    return column


def _agreed(signal: SignalSpec, members: list[Trajectory], column: Signal, offsets: Offsets) -> Signal:
    """One value for each run of trajectories that must have measured the same."""
    for first, last in pairwise(offsets):
        other = np.flatnonzero(column[first:last] != column[first])
        if len(other) and not np.all(np.isnan(column[first:last])):
            beside = members[int(first + other[0])]
            raise _wrong(signal, beside, f"differs from that of {members[int(first)].key}")
    return column[offsets[:-1]]


def _measured(signal: SignalSpec, trajectory: Trajectory) -> Any:
    try:
        return plain(trajectory.measures[signal.measure])
    except KeyError:
        raise _wrong(signal, trajectory, "was not measured") from None


def _number(signal: SignalSpec, trajectory: Trajectory, value: Any, codes: dict[str | None, int]) -> float:
    match signal.kind, value:
        case "code", str() | None if signal.choices is None:
            return float(codes.setdefault(value, len(codes) - 1))
        case "code", str() if signal.choices is not None and value in signal.choices:
            return float(signal.choices.index(value))
        case "bool", bool() | int() | float() if value in (0, 1):
            return float(value)
        case "int", int() | float() if abs(value) <= _EXACT and value == int(value):
            return float(value)
        case "real", float():
            return value
        case "real", int() if abs(value) <= _EXACT:
            return float(value)
    expected = "a text" if signal.kind == "code" else f"of type {signal.kind}"
    if signal.choices is not None:
        expected = "one of " + ", ".join(signal.choices)
    raise _wrong(signal, trajectory, f"is {value!r}, not {expected}")


def _wrong(signal: SignalSpec, trajectory: Trajectory, what: str) -> ValueError:
    return ValueError(f"signal {signal.name} ({signal.measure}) of trajectory {trajectory.key}: {what}")
