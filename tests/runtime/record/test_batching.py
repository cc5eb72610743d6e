"""The ragged batch holds exactly the scored trajectories, in the order of their groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.levels import Level
from rlspec.runtime.record import store
from rlspec.runtime.record.batching import SignalSpec, ragged
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory


def made(group, turns, failed=False, key="t", **measures):
    """A trajectory whose turns have these numbers of agent tokens."""
    ledger = Ledger()
    for count in turns:
        ledger.append("user", [1])
        ledger.append("agent", [2] * count, [-0.5] * count, version=0)
    measures = {f"m.{name}": value for name, value in measures.items()}
    return Trajectory(key, "e", "t", group, ledger, [], measures, failure="db: gone" if failed else None)


def column(trajectories, level, kind="real", choices=None):
    batch, _ = ragged(trajectories, [SignalSpec("x", level, "m.x", kind, choices)])
    return batch.signals["x"].tolist()


def test_offsets_follow_groups_trajectories_turns_and_tokens():
    batch, members = ragged([made(3, [2, 1]), made(1, [4]), made(3, []), made(1, [1, 1, 0])], [])
    assert [m.group for m in members] == [1, 1, 3, 3]
    assert batch.group_offsets.tolist() == [0, 2, 4]
    assert batch.turn_offsets.tolist() == [0, 1, 4, 6, 6]
    assert batch.token_offsets.tolist() == [0, 4, 5, 6, 6, 8, 9]


def test_failed_trajectories_are_left_out_and_empty_groups_are_no_groups():
    batch, members = ragged([made(0, [1], failed=True), made(1, [1]), made(1, [1], failed=True)], [])
    assert [m.group for m in members] == [1]
    assert batch.group_offsets.tolist() == [0, 1]


def test_a_step_in_which_everything_failed_is_an_empty_batch():
    specs = [SignalSpec(level.label, level, "m.x") for level in Level]
    batch, members = ragged([made(0, [1], failed=True)], specs)
    assert members == []
    assert [len(batch.signals[level.label]) for level in Level] == [1, 1, 0, 0, 0, 0]


def test_values_of_every_level():
    pair = [made(0, [2], x=3), made(0, [1, 1], x=3)]
    assert [column(pair, level) for level in (Level.CONST, Level.STEP, Level.GROUP)] == [[3.0], [3.0], [3.0]]
    assert column(pair, Level.TRAJ) == [3.0, 3.0]
    assert column([made(0, [2], x=[0.5]), made(0, [1, 1], x=(1, 2))], Level.TURN) == [0.5, 1.0, 2.0]
    assert column([made(0, [2], x=[0.5, 0.25]), made(0, [1, 1], x=[1, 2])], Level.TOKEN) == [0.5, 0.25, 1, 2]


def test_numpy_measures_are_taken():
    assert column([made(0, [1, 1], x=np.asarray([1, 2], dtype=np.int32))], Level.TURN, "int") == [1, 2]
    assert column([made(0, [1], x=np.bool_(True))], Level.TRAJ, "bool") == [1.0]


def test_equal_texts_have_equal_codes_across_signals():
    batch, _ = ragged(
        [made(0, [1], x="a", y="b", z=["b"]), made(0, [1], x="b", y="b", z=[None])],
        [
            SignalSpec("x", Level.TRAJ, "m.x", "code"),
            SignalSpec("y", Level.TRAJ, "m.y", "code"),
            SignalSpec("z", Level.TURN, "m.z", "code"),
        ],
    )
    x, y, z = (batch.signals[name].tolist() for name in "xyz")
    assert x[1] == y[0] == y[1] == z[0] != x[0]
    assert z[1] == -1.0


def test_an_enumeration_has_the_codes_of_its_choices():
    assert column([made(0, [1], x="c"), made(0, [1], x="a")], Level.TRAJ, "code", ("a", "b", "c")) == [
        2.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("trajectory", "level", "kind", "choices", "message"),
    [
        (made(0, [1]), Level.TRAJ, "real", None, "was not measured"),
        (made(0, [1, 1], x=[1]), Level.TURN, "real", None, "1 entries for 2 agent turns"),
        (made(0, [1], x=1.0), Level.TURN, "real", None, "1.0 for 1 agent turns"),
        (made(0, [3], x=[1]), Level.TOKEN, "real", None, "1 entries for 3 agent tokens"),
        (made(0, [1], x=[1]), Level.TRAJ, "real", None, "not of type real"),
        (made(0, [1], x="1"), Level.TRAJ, "real", None, "not of type real"),
        (made(0, [1], x=None), Level.TRAJ, "real", None, "not of type real"),
        (made(0, [1], x=2**53 + 1), Level.TRAJ, "real", None, "not of type real"),
        (made(0, [1], x=0.5), Level.TRAJ, "int", None, "not of type int"),
        (made(0, [1], x=float("nan")), Level.TRAJ, "int", None, "not of type int"),
        (made(0, [1], x=2), Level.TRAJ, "bool", None, "not of type bool"),
        (made(0, [1], x=1), Level.TRAJ, "code", None, "not a text"),
        (made(0, [1], x="d"), Level.TRAJ, "code", ("a", "b"), "not one of a, b"),
        (made(0, [1], x=None), Level.TRAJ, "code", ("a", "b"), "not one of a, b"),
    ],
)
def test_a_measure_that_does_not_fit_is_an_error_that_names_it(trajectory, level, kind, choices, message):
    trajectory.key = "train/12/5/3"
    with pytest.raises(ValueError, match=message) as caught:
        column([trajectory], level, kind, choices)
    assert "train/12/5/3" in str(caught.value)
    assert "m.x" in str(caught.value)


def test_a_value_of_a_group_must_be_one_value():
    assert column([made(0, [], x=1), made(1, [], x=2)], Level.GROUP) == [1.0, 2.0]
    with pytest.raises(ValueError, match="of trajectory b: differs from that of a"):
        column([made(0, [], x=1, key="a"), made(0, [], x=2, key="b")], Level.GROUP)
    with pytest.raises(ValueError, match="differs"):
        column([made(0, [], x=1), made(1, [], x=2)], Level.STEP)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.lists(st.tuples(st.integers(0, 4), st.floats(), st.text(max_size=2)), max_size=4),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_a_batch_built_from_disk_is_the_batch(tmp_path_factory, shapes):
    trajectories = [
        made(
            group,
            [n for n, _, _ in turns],
            failed,
            f"t{index}",
            x=[x for _, x, _ in turns],
            y=[y for _, _, y in turns],
        )
        for index, (group, turns, failed) in enumerate(shapes)
    ]
    signals = [SignalSpec("x", Level.TURN, "m.x"), SignalSpec("y", Level.TURN, "m.y", "code")]
    path = tmp_path_factory.getbasetemp() / "batch.parquet"
    store.write(path, trajectories)
    batch, members = ragged(trajectories, signals)
    again, same = ragged(store.read(path), signals)
    assert [m.key for m in same] == [m.key for m in members]
    for name in ("group_offsets", "turn_offsets", "token_offsets"):
        assert getattr(again, name).tobytes() == getattr(batch, name).tobytes()
    for name in ("x", "y"):
        np.testing.assert_array_equal(again.signals[name], batch.signals[name])
    assert batch.size(Level.TOKEN) == sum(n for _, turns, failed in shapes if not failed for n, _, _ in turns)
