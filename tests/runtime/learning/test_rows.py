from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.learning.rows import (
    Row,
    collate,
    demonstration,
    live,
    micro_batches,
    parts,
    sampled,
    shards,
)
from rlspec.runtime.record.ledger import Ledger


def row(length: int, group: int = 0, advantage: float = 1.0) -> Row:
    mask_T = np.arange(length) > 0
    return Row(
        np.arange(length, dtype=np.int32),
        mask_T,
        np.where(mask_T, advantage, 0.0),
        np.zeros(length, np.float32),
        group,
    )


rows_of = st.lists(st.builds(row, st.integers(2, 40), st.integers(0, 6)), min_size=1, max_size=40)


def ids(lists: list[list[Row]]) -> list[list[int]]:
    return [[id(r) for r in some] for some in lists]


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 5))
def test_shards_deal_each_row_once_and_evenly(rows, ranks):
    dealt = shards(rows, ranks)
    assert sorted(i for some in ids(dealt) for i in some) == sorted(map(id, rows))
    load = [sum(map(len, some)) for some in dealt]
    assert max(load) - min(load) <= max(map(len, rows))
    assert ids(shards(rows, ranks)) == ids(dealt)


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 5))
def test_parts_keep_groups_whole_and_differ_by_one_group_at_most(rows, count):
    dealt = parts(rows, count)
    groups = [{r.group for r in some} for some in dealt]
    assert sum(map(len, groups)) == len({r.group for r in rows})
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    assert sorted(i for some in ids(dealt) for i in some) == sorted(map(id, rows))


@settings(max_examples=100, deadline=None)
@given(rows_of, st.integers(1, 200))
def test_micro_batches_respect_the_budget_and_fall_in_length(rows, budget):
    batches = micro_batches(rows, budget)
    for some in batches:
        assert len(some) == 1 or len(some) * len(some[0]) <= budget
    lengths = [len(r) for some in batches for r in some]
    assert lengths == sorted(map(len, rows), reverse=True)


def test_rows_without_agent_tokens_reach_no_micro_batch():
    silent = replace(row(9), mask_T=np.zeros(9, dtype=np.bool_))
    spoken = row(4)
    assert ids(micro_batches([silent, spoken], 100)) == [[id(spoken)]]


def test_live_drops_whole_groups_only_when_nothing_in_them_has_an_advantage():
    rows = [row(4, 0, 0.0), row(4, 0, 0.0), row(4, 1, 0.0), row(4, 1, 0.5)]
    assert [r.group for r in live(rows)] == [1, 1]


def test_collation_pads_on_the_right_and_lists_agent_tokens_row_by_row():
    first = Row(
        np.array([5, 6, 7], np.int32),
        np.array([False, True, True]),
        np.array([0.0, 1.0, 2.0]),
        np.array([np.nan, -0.1, -0.2], np.float32),
    )
    second = Row(
        np.array([8, 9], np.int32),
        np.array([False, True]),
        np.array([9.0, 3.0]),
        np.array([np.nan, -0.3], np.float32),
    )
    batch = collate([first, second])
    assert batch.tokens_BT.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert batch.rows_L.tolist() == [0, 0, 1]
    assert batch.positions_L.tolist() == [1, 2, 1]
    assert batch.advantages_L.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(batch.logprobs_L, [-0.1, -0.2, -0.3], rtol=1e-6)
    assert batch.lengths_L.tolist() == [2, 2, 1]
    assert batch.reference_L is None


def test_a_row_of_a_ledger_carries_advantages_on_agent_tokens_only():
    ledger = Ledger()
    ledger.append("system", [1, 2])
    ledger.append("agent", [3, 4], logprobs=[-0.1, -0.2], version=0)
    ledger.append("tool", [5])
    ledger.append("agent", [6], logprobs=[-0.3], version=0)
    found = sampled(ledger, [0.5, 0.6, 0.7], group=3)
    assert found.advantages_T.tolist() == [0.0, 0.0, 0.5, 0.6, 0.0, 0.7]
    assert found.mask_T.tolist() == [False, False, True, True, False, True]
    assert (found.group, found.learned, found.dead) == (3, 3, False)
    with pytest.raises(ValueError, match="2 advantages for 3"):
        sampled(ledger, [0.5, 0.6], group=3)


def test_bad_rows_are_rejected():
    with pytest.raises(ValueError, match="first token"):
        demonstration([1, 2], [True, True])
    with pytest.raises(ValueError, match="one entry per token"):
        demonstration([1, 2], [False])
