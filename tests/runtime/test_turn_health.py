"""Dead and misaligned turns, by hand and against what must hold of any batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.plan import SourcePlan
from rlspec.runtime.metrics import health_of
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.turn_health import turn_health


def test_dead_is_no_difference_at_a_place_and_misaligned_is_the_wrong_sign():
    found = turn_health([0, 0, 1, 1], [1, 0, 1, 1], [[0.5, -1.0], [0.5, 2.0, 3.0], [0.0, 1.0], [0.0, -1.0, 0.0]])
    # dead: both first places (2 + 2) and the lone 0 of group 1; group 1 has no outcome to be against
    assert (found.turns, found.dead, found.misaligned) == (10, 0.5, 0.4)


def test_a_lone_turn_is_dead_only_without_an_advantage():
    assert turn_health([0, 0], [1, 0], [[1.0, 0.7], [-1.0]]).dead == 0.0
    assert turn_health([0, 0], [1, 0], [[1.0, 0.0], [-1.0]]).dead == 1 / 3


def test_nothing_gives_zeros():
    assert turn_health([], [], []).turns == 0
    assert turn_health([0], [1.0], [[]]).dead == 0.0


batches = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([0.0, 0.1, 1.0]), st.lists(st.sampled_from([-1.0, 0.0, 0.3]), max_size=4)
    ),
    max_size=8,
)


@given(batches, st.floats(0.1, 10))
def test_scale_and_order_of_trajectories_do_not_matter(batch, scale):
    columns = [list(c) for c in zip(*batch, strict=True)] if batch else [[], [], []]
    found = turn_health(*columns)
    assert 0 <= found.dead <= 1
    assert 0 <= found.misaligned <= 1
    backwards = [c[::-1] for c in columns]
    assert turn_health(*backwards) == found
    assert turn_health(columns[0], columns[1], [[v * scale for v in own] for own in columns[2]]) == found


@given(st.lists(st.booleans(), min_size=2, max_size=8), st.lists(st.integers(1, 4), min_size=8, max_size=8))
def test_the_outcome_itself_is_never_misaligned_and_dead_only_in_dead_groups(outcomes, turns):
    """Sparse credit: every turn carries its trajectory's centred outcome."""
    centred = np.asarray(outcomes, dtype=float) - np.mean(outcomes)
    found = turn_health(
        [0] * len(outcomes),
        [float(o) for o in outcomes],
        [[float(c)] * n for c, n in zip(centred, turns, strict=False)],
    )
    assert found.misaligned == 0
    if len(set(outcomes)) == 1:
        assert found.dead == 1


def test_a_source_is_measured_by_its_verified_outcome():
    def trajectory(group: int, verified: int, advantage) -> Trajectory:
        ledger = Ledger()
        ledger.append("agent", [1, 2], [-0.1, -0.1])
        ledger.append("agent", [3], [-0.1])
        measures = {"desk.verified": verified}
        return Trajectory("k", "desk", "t", group, ledger, [], measures, {"A": advantage})

    source = SourcePlan.model_construct(env="desk", advantage="A", advantage_level="traj")
    both = [trajectory(0, 1, 1.0), trajectory(0, 0, -1.0)]
    assert (health_of(source, both).turns, health_of(source, both).misaligned) == (4, 0.0)
    by_turn = [trajectory(0, 1, [1.0, -1.0]), trajectory(0, 0, [-1.0, -1.0])]
    assert health_of(source, by_turn).misaligned == 0.25
    assert health_of(source, by_turn).dead == 0.5
    assert health_of(SourcePlan.model_construct(env="desk", advantage="A", advantage_level="token"), both) is None
    both[0].measures.clear()
    assert health_of(source, both) is None
