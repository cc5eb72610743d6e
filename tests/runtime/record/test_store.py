"""Trajectories come back from disk to the last bit, or not at all."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.record import store
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Message

anything = st.text(st.characters(), max_size=8)  # surrogates too
numbers = st.floats(width=64) | st.integers(-(2**70), 2**70) | st.booleans()
json_values = st.recursive(
    st.none() | numbers | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=5,
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "agent", "tool"]),
    text=anything,
    call=st.none() | st.builds(Call, anything, st.dictionaries(anything, json_values, max_size=3)),
    status=st.sampled_from([None, "ok", "error"]),
    wrote=st.booleans(),
    malformed=st.none() | anything,
)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    ledger = Ledger()
    for kind in draw(st.lists(st.sampled_from(["system", "user", "agent", "tool"]), max_size=6)):
        tokens = draw(st.lists(st.integers(0, 2**31 - 1), max_size=5))
        if kind == "agent":
            logprobs = draw(st.lists(st.floats(), min_size=len(tokens), max_size=len(tokens)))
            ledger.append(kind, tokens, logprobs, draw(st.integers(-1, 2**40)))
        else:
            ledger.append(kind, tokens)
    return ledger


trajectories = st.builds(
    Trajectory,
    key=anything,
    env=anything,
    task=anything,
    group=st.integers(0, 2**40),
    ledger=ledgers(),
    dialogue=st.lists(messages, max_size=4),
    measures=st.dictionaries(anything, json_values, max_size=4),
    scores=st.dictionaries(anything, json_values, max_size=4),
    finish=st.sampled_from(["user_done", "transferred", "turn_limit", "context_limit", "failed"]),
    failure=st.none() | anything,
)


def exact(value):
    """A value in which equal means equal to the bit: 0.0 is not -0.0, 1 is not 1.0 or True, NaN is NaN."""
    match value:
        case bool() | int() | str() | None:
            return (type(value).__name__, value)
        case float():
            return ("float", "nan" if np.isnan(value) else struct.pack("<d", value))
        case dict():
            return [(key, exact(entry)) for key, entry in value.items()]
        case list():
            return [exact(entry) for entry in value]
        case Call():
            return ("call", value.name, exact(value.arguments))
        case Message():
            fields = (value.role, value.text, value.status, value.wrote, value.malformed)
            return (fields, exact(value.call))
        case Ledger():
            return (value.tokens().tobytes(), exact(list(value._logprobs)), value.spans, value.turns)
        case Trajectory():
            return (
                (value.key, value.env, value.task, value.group, value.finish, value.failure),
                [exact(part) for part in (value.ledger, value.dialogue, value.measures, value.scores)],
            )
    raise TypeError(value)


@settings(max_examples=60, deadline=None)
@given(st.lists(trajectories, max_size=4))
def test_trajectories_come_back_to_the_bit(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "train-000000.parquet"
    store.write(path, written)
    assert [exact(t) for t in store.read(path)] == [exact(t) for t in written]


def test_an_adjacent_pair_of_half_surrogates_stays_two_characters(tmp_path, trajectory):
    one = trajectory()
    one.dialogue.append(Message("agent", "\ud83d" + "\ude00", Call("f", {"x": "\ud83d" + "\ude00"})))
    store.write(tmp_path / "t.parquet", [one])
    assert len(store.read(tmp_path / "t.parquet")[0].dialogue[-1].text) == 2


def test_numpy_values_come_back_as_equal_plain_ones(tmp_path, trajectory):
    one = trajectory()
    one.scores = {"reward": np.float64(0.1), "advantage": np.asarray([1 / 3, -0.0]), "n": np.int32(3)}
    store.write(tmp_path / "t.parquet", [one])
    assert exact(store.read(tmp_path / "t.parquet")[0].scores) == exact(
        {"reward": 0.1, "advantage": [1 / 3, -0.0], "n": 3}
    )


def test_equal_trajectories_give_equal_bytes(tmp_path, trajectory):
    for name in ("a", "b"):
        store.write(tmp_path / name, [trajectory(rollout=r) for r in range(8)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_keys_are_read_alone(tmp_path, trajectory):
    store.write(tmp_path / "t.parquet", [trajectory(step=3, rollout=r) for r in range(2)])
    assert store.read_keys(tmp_path / "t.parquet") == ["train/3/0/0", "train/3/0/1"]


@pytest.mark.parametrize("stage", ["train", "held-out", "a-000001"])
def test_a_file_name_tells_stage_and_step(stage):
    assert store.stage_and_step(store.file_name(stage, 1234567)) == (stage, 1234567)
    assert store.stage_and_step(store.file_name(stage, 0)) == (stage, 0)


def test_other_names_tell_nothing():
    assert store.stage_and_step("notes.txt") is None
    assert store.stage_and_step("train-000012.parquet.tmp-77") is None


def test_every_flipped_bit_is_refused(tmp_path, trajectory):
    path = tmp_path / "train-000000.parquet"
    store.write(path, [trajectory(rollout=r) for r in range(4)])
    data = path.read_bytes()
    for position in range(0, len(data), 11):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :])
        with pytest.raises(Refusal, match="RLC0706"):
            store.read(path)


def test_other_readers_of_parquet_read_the_file(tmp_path, trajectory):
    import pyarrow.parquet as pq

    store.write(tmp_path / "t.parquet", [trajectory(rollout=r) for r in range(4)])
    table = pq.read_table(tmp_path / "t.parquet", columns=["key", "tokens"])
    assert table["tokens"].to_pylist()[3] == trajectory().ledger.tokens().tolist()


def test_every_truncation_is_refused(tmp_path, trajectory):
    path = tmp_path / "train-000000.parquet"
    store.write(path, [trajectory()])
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(Refusal, match="RLC0706"):
            store.read(path)


def test_a_missing_file_and_a_foreign_one_are_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(Refusal, match="RLC0705"):
        store.read(tmp_path / "none.parquet")
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "foreign.parquet")
    with pytest.raises(Refusal, match="RLC0706"):
        store.read(tmp_path / "foreign.parquet")
    with pytest.raises(Refusal, match="RLC0701"):
        store.read(tmp_path)
