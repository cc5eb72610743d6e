"""TensorBoard's events are the lines of metrics once more."""

import math
import struct

import pytest

from rlspec.runtime.record.events import Events, tags
from rlspec.runtime.refusal import Refusal


def scalars(directory):
    """(step, tag, value) of every scalar in a directory's event files, read record by record."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(directory.glob("*.tfevents.*")):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + size])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + size :]
    return found


def test_tags_follow_from_the_line():
    line = {
        "stage": "held_out",
        "step": 3,
        "after": "coldstart",
        "pass^1": 0.5,
        "success": 1,
        "ok": True,
        "t": "x",
    }
    assert tags(line) == {"held_out/coldstart/pass_1": 0.5, "held_out/coldstart/success": 1.0}
    assert tags({"stage": "train", "step": 1, "time": 9.0, "score": 2.5}, "time") == {"time/train/score": 2.5}


def test_lines_become_scalars_at_their_step(tmp_path):
    events = Events(tmp_path / "events")
    events.add({"stage": "train", "step": 0, "reward_mean": 0.25})
    events.add({"stage": "train", "step": 1, "reward_mean": math.nan, "huge": 1e300})
    events.close()
    first, second, third = scalars(tmp_path / "events")
    assert first == (0, "train/reward_mean", 0.25)
    assert second[:2] == (1, "train/reward_mean")
    assert math.isnan(second[2])
    assert third == (1, "train/huge", math.inf)


def test_a_file_opened_again_in_the_same_second_is_another_one(tmp_path):
    events = Events(tmp_path)
    for step in range(3):
        events.add({"step": step, "x": step})
        events.close()
    assert [step for step, _, _ in scalars(tmp_path)] == [0, 1, 2]


def test_rewriting_leaves_only_the_lines_given(tmp_path):
    events = Events(tmp_path)
    for step in range(5):
        events.add({"stage": "train", "step": step, "x": step})
    events.rewrite([{"stage": "train", "step": 0, "x": 0}], [{"stage": "train", "step": 0, "s": 2, "time": 5.0}])
    assert scalars(tmp_path) == [(0, "train/x", 0.0), (0, "time/train/s", 2.0)]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "events").write_bytes(b"")
    with pytest.raises(Refusal, match="RLC0702"):
        Events(tmp_path / "events").add({"stage": "train", "step": 0, "x": 1})
