"""Rows: what a learner is given of one trajectory, and how rows are dealt out to updates, ranks and
micro-batches.

Everything here is a pure function of the rows' order, group and length: the same rows are always dealt out
the same way, on any machine and in a resumed run.

    T tokens of a row, B rows of a micro-batch, L agent tokens of a micro-batch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlspec.runtime.record.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Row:
    """One trajectory as a learner sees it.

    `mask_T` is True on the tokens to learn from (the agent's); the other arrays count only there.
    `advantages_T` is the credit of each token, `logprobs_T` the sampler's log-probability (nats, at the
    sampling temperature), `reference_T` that of the policy the stage started from, where the loss needs it.
    `group` keeps rows of one task together.

    Raises:
        ValueError: lengths differ, or the first token, which has no prefix, is to be learned.
    """

    tokens_T: NDArray[np.int32]
    mask_T: NDArray[np.bool_]
    advantages_T: NDArray[np.float64]
    logprobs_T: NDArray[np.float32]
    group: int = 0
    reference_T: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        arrays = [self.mask_T, self.advantages_T, self.logprobs_T]
        if self.reference_T is not None:
            arrays.append(self.reference_T)
        if any(array.shape != self.tokens_T.shape for array in arrays) or self.tokens_T.ndim != 1:
            raise ValueError("a row's arrays must all have one entry per token")
        if len(self.mask_T) and self.mask_T[0]:
            raise ValueError("the first token of a row has no prefix and cannot be learned")

    def __len__(self) -> int:
        return len(self.tokens_T)

    @property
    def learned(self) -> int:
        """Number of tokens to learn from."""
        return int(np.count_nonzero(self.mask_T))

    @property
    def dead(self) -> bool:
        """No token carries an advantage."""
        return not np.any(self.advantages_T[self.mask_T])


def demonstration(tokens: Sequence[int], mask: Sequence[bool]) -> Row:
    """A row to imitate: advantage 1 on the masked tokens, no sampler."""
    tokens_T = np.asarray(tokens, dtype=np.int32)
    mask_T = np.asarray(mask, dtype=np.bool_)
    return Row(tokens_T, mask_T, mask_T.astype(np.float64), np.full(len(tokens_T), np.nan, dtype=np.float32))


def sampled(
    ledger: Ledger,
    advantages: Sequence[float] | NDArray[np.float64],
    group: int,
    credited: NDArray[np.bool_] | None = None,
) -> Row:
    """A row to learn from by policy gradient. `advantages` and `credited` have one entry per agent token, in the
    ledger's order; a token that is not credited is not learned from, and counts in no denominator.

    Raises:
        ValueError: another number of advantages than agent tokens.
    """
    mask_T = ledger.mask()
    advantages_T = np.zeros(len(ledger), dtype=np.float64)
    if len(advantages) != np.count_nonzero(mask_T):
        raise ValueError(f"{len(advantages)} advantages for {np.count_nonzero(mask_T)} agent tokens")
    advantages_T[mask_T] = advantages
    if credited is not None:
        mask_T[mask_T] = credited
        advantages_T[~mask_T] = 0.0
    return Row(ledger.tokens(), mask_T, advantages_T, ledger.logprobs(), group)


def live(rows: Sequence[Row]) -> list[Row]:
    """Rows of groups in which some token carries an advantage, in order. The gradient of the clipped loss
    over these is that over all rows, provided that the denominators counted all rows; with KL in the loss,
    leaving a dead group out also keeps the KL from moving the policy on its account."""
    alive = {row.group for row in rows if not row.dead}
    return [row for row in rows if row.group in alive]


def parts(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """`count` disjoint parts made of whole groups, as equal in groups as can be, in order of the group
    numbers. Some are empty when there are fewer groups than parts."""
    groups = sorted({row.group for row in rows})
    part_of = {group: k for k, some in enumerate(np.array_split(groups, count)) for group in some.tolist()}
    dealt: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        dealt[part_of[row.group]].append(row)
    return dealt


def shards(rows: Sequence[Row], ranks: int) -> list[list[Row]]:
    """One list of rows per rank, of nearly equal tokens: longest first, always to the rank with the fewest
    tokens so far (the lower one on a tie)."""
    dealt: list[list[Row]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for n in sorted(range(len(rows)), key=lambda n: (-len(rows[n]), n)):
        rank = load.index(min(load))
        dealt[rank].append(rows[n])
        load[rank] += len(rows[n])
    return dealt


def micro_batches(rows: Sequence[Row], budget: int) -> list[list[Row]]:
    """Rows by falling length, cut so that rows times longest is at most `budget` tokens; a longer row is
    alone. Rows without a token to learn from are left out."""
    batches: list[list[Row]] = []
    kept = [n for n in range(len(rows)) if rows[n].learned]
    for n in sorted(kept, key=lambda n: (-len(rows[n]), n)):
        if batches and (len(batches[-1]) + 1) * len(batches[-1][0]) <= budget:
            batches[-1].append(rows[n])
        else:
            batches.append([rows[n]])
    return batches


@dataclass(frozen=True, slots=True)
class Collated:
    """A micro-batch as arrays. The L agent tokens are listed row by row; `lengths_L` is the number of agent
    tokens of the row that each belongs to."""

    tokens_BT: NDArray[np.int64]
    rows_L: NDArray[np.int64]
    positions_L: NDArray[np.int64]
    advantages_L: NDArray[np.float64]
    logprobs_L: NDArray[np.float32]
    reference_L: NDArray[np.float32] | None
    lengths_L: NDArray[np.int64]


def collate(rows: Sequence[Row]) -> Collated:
    """Pad on the right with token 0. Under causal attention no real position sees the padding, and no agent
    token is padding, so neither the value nor a mask for it is needed."""
    tokens_BT = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
    for b, row in enumerate(rows):
        tokens_BT[b, : len(row)] = row.tokens_T
    counts_B = [row.learned for row in rows]
    references = [row.reference_T[row.mask_T] for row in rows if row.reference_T is not None]
    return Collated(
        tokens_BT=tokens_BT,
        rows_L=np.repeat(np.arange(len(rows)), counts_B),
        positions_L=np.concatenate([np.flatnonzero(row.mask_T) for row in rows]),
        advantages_L=np.concatenate([row.advantages_T[row.mask_T] for row in rows]),
        logprobs_L=np.concatenate([row.logprobs_T[row.mask_T] for row in rows]),
        reference_L=np.concatenate(references) if len(references) == len(rows) else None,
        lengths_L=np.repeat(counts_B, counts_B),
    )
