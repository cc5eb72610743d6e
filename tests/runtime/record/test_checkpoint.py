"""A checkpoint is complete and verified, or it is not one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlspec.runtime.record import checkpoint, durable
from rlspec.runtime.refusal import Refusal


def tensors(step=0):
    return {"w": np.arange(12, dtype=np.float32).reshape(3, 4) + step, "n": np.int64(step)}


def names(directory):
    return sorted(path.name for path in directory.iterdir())


arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.text("abc.", min_size=1, max_size=5), arrays, max_size=4),
    st.dictionaries(st.text(max_size=3), st.floats() | st.integers() | st.text(max_size=3), max_size=4),
)
def test_tensors_and_state_come_back_to_the_bit(tmp_path_factory, given_tensors, state):
    directory = tmp_path_factory.mktemp("ckpt")
    checkpoint.save(directory, "x", given_tensors, state)
    loaded = checkpoint.load_newest(directory)
    assert set(loaded.tensors) == set(given_tensors)
    for name, array in given_tensors.items():
        found = loaded.tensors[name]
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert json.dumps(loaded.state) == json.dumps(state)
    shutil.rmtree(directory)


def test_strided_and_foreign_ended_arrays_keep_their_values(tmp_path):
    array = np.arange(12, dtype=">f4").reshape(3, 4).T
    checkpoint.save(tmp_path, "x", {"a": array}, {})
    np.testing.assert_array_equal(checkpoint.load_newest(tmp_path).tensors["a"], array)


def test_torch_tensors_of_every_kind_come_back(tmp_path):
    import torch

    tied = torch.randn(3, 2, requires_grad=True)
    given_tensors = {
        "tied.a": tied,
        "tied.b": tied,
        "half": torch.ones(3, dtype=torch.bfloat16),
        "t": torch.eye(3).T,
    }
    checkpoint.save(tmp_path, "x", {**given_tensors, "plain": np.ones(2)}, {})
    loaded = checkpoint.load_newest(tmp_path, framework="torch")
    for name, tensor in given_tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor.detach())
    assert torch.equal(loaded.tensors["plain"], torch.ones(2, dtype=torch.float64))
    with pytest.raises(TypeError, match="framework='torch'"):
        checkpoint.load_newest(tmp_path)


def test_large_sets_are_split_into_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 100)
    given_tensors = {f"t{i}": np.full(10, i, dtype=np.float32) for i in range(7)}
    path = checkpoint.save(tmp_path, "x", given_tensors, {})
    assert len(list(path.glob("arrays-*.safetensors"))) == 4
    loaded = checkpoint.load_newest(tmp_path)
    assert {name: array[0] for name, array in loaded.tensors.items()} == {f"t{i}": i for i in range(7)}


def test_the_newest_are_kept(tmp_path):
    for step in range(4):
        checkpoint.save(tmp_path, f"train-{step}", tensors(step), {"step": step})
    assert names(tmp_path) == ["ckpt-000003", "ckpt-000004"]
    loaded = checkpoint.load_newest(tmp_path)
    assert (loaded.name, loaded.state, int(loaded.tensors["n"])) == ("train-3", {"step": 3}, 3)
    assert (loaded.skipped, loaded.differences) == ([], [])


def test_nothing_saved_is_none(tmp_path):
    assert checkpoint.load_newest(tmp_path / "none") is None
    assert checkpoint.load_newest(tmp_path) is None


def test_further_files_lie_in_the_checkpoint(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    files = {"policy/config.json": tmp_path / "config.json", "policy/deep/note": b"n"}
    path = checkpoint.save(tmp_path / "c", "x", tensors(), {}, files=files)
    assert (path / "policy/config.json").read_bytes() == b"{}"
    (path / "policy/deep/note").write_bytes(b"m")
    with pytest.raises(Refusal, match="policy/deep/note is damaged"):
        checkpoint.load_newest(tmp_path / "c")


@pytest.mark.parametrize("relative", ["state.json", "manifest.json", "arrays-00000.safetensors", "../outside"])
def test_further_files_cannot_replace_its_own_or_leave_it(tmp_path, relative):
    with pytest.raises(ValueError, match="checkpoint"):
        checkpoint.save(tmp_path / "c", "x", tensors(), {}, files={relative: b""})
    assert names(tmp_path / "c" if (tmp_path / "c").exists() else tmp_path) == []


def test_any_flipped_bit_in_any_file_is_found_and_the_one_before_is_loaded(tmp_path):
    checkpoint.save(tmp_path, "old", tensors(1), {"step": 1})
    newest = checkpoint.save(tmp_path, "new", tensors(2), {"step": 2})
    random.seed(0)
    for file in sorted(newest.iterdir()):
        data = file.read_bytes()
        for _ in range(25):
            position, bit = random.randrange(len(data)), random.randrange(8)
            file.write_bytes(data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :])
            loaded = checkpoint.load_newest(tmp_path)
            assert loaded.name == "old", (file.name, position, bit)
            assert loaded.skipped[0].startswith("ckpt-000002: ")
        file.write_bytes(data)
    assert checkpoint.load_newest(tmp_path).name == "new"


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: (path / "manifest.json").unlink(), "it has no manifest"),
        (lambda path: (path / "manifest.json").write_bytes(b'{"format"'), "manifest cannot be read"),
        (lambda path: (path / "manifest.json").write_bytes(b"[]"), "manifest cannot be read"),
        (lambda path: (path / "state.json").unlink(), r"state\.json cannot be read \(No such file"),
        (lambda path: os.truncate(path / "arrays-00000.safetensors", 50), "has 50 bytes instead of"),
    ],
)
def test_a_harmed_checkpoint_is_passed_over_with_the_reason(tmp_path, harm, reason):
    harm(checkpoint.save(tmp_path, "x", tensors(), {}))
    with pytest.raises(Refusal, match=f"RLC0706: .*{reason}"):
        checkpoint.load_newest(tmp_path)


def test_damaged_ones_set_aside_do_not_push_out_good_ones(tmp_path):
    checkpoint.save(tmp_path, "a", tensors(), {})
    (checkpoint.save(tmp_path, "b", tensors(), {}) / "state.json").write_bytes(b"{ }")
    checkpoint.set_aside(checkpoint.load_newest(tmp_path))
    checkpoint.save(tmp_path, "c", tensors(), {})
    assert names(tmp_path) == ["ckpt-000001", "ckpt-000002", "ckpt-000002.damaged"]
    assert checkpoint.load_newest(tmp_path).name == "c"


def test_another_plans_checkpoint_is_refused(tmp_path):
    checkpoint.save(tmp_path, "a", tensors(), {}, plan_digest="aa")
    with pytest.raises(Refusal, match=r"RLC0703: .* belongs to plan aa, not to bb"):
        checkpoint.load_newest(tmp_path, plan_digest="bb")


def test_a_change_of_versions_or_threads_is_told(tmp_path, monkeypatch):
    from rlspec.runtime.record import versions

    checkpoint.save(tmp_path, "a", tensors(), {})
    now = versions.collect()
    changed = now | {"threads": 1, "packages": now["packages"] | {"torch": "9.9"}}
    then = now | {"threads": 2}
    assert versions.differences(then, changed) == [
        "threads 2 then, 1 now",
        f"torch {now['packages']['torch']} then, 9.9 now",
    ]
    monkeypatch.setattr(versions, "collect", lambda: changed)
    assert any("torch" in entry for entry in checkpoint.load_newest(tmp_path).differences)


def test_too_little_space_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, "a", tensors(), {})
    monkeypatch.setattr(durable, "free_bytes", lambda path: 1000)
    with pytest.raises(Refusal, match=r"RLC0702: .* it needs 1,\d\d\d,\d\d\d bytes, 1,000 are free"):
        checkpoint.save(tmp_path, "b", tensors(), {})
    assert names(tmp_path) == ["ckpt-000001"]


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from rlspec.runtime.record import checkpoint
from rlspec.runtime.refusal import Refusal
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    checkpoint.save(Path(sys.argv[1]), "b", {"w": np.zeros(4000)}, {"x": "y" * 3000})
except Refusal as refusal:
    print(refusal.code)
"""


@pytest.mark.parametrize("limit", [0, 2000, 20000])
def test_a_write_that_fails_leaves_only_the_checkpoints_before(tmp_path, limit):
    checkpoint.save(tmp_path, "a", tensors(), {})
    command = [sys.executable, "-c", LIMITED, str(tmp_path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "RLC0702\n"
    assert names(tmp_path) == ["ckpt-000001"]
    assert checkpoint.load_newest(tmp_path).name == "a"


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Refusal, match="RLC0702"):
            checkpoint.save(place, "a", tensors(), {})


def test_what_is_no_tensor_or_no_json_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="w is no tensor but list"):
        checkpoint.save(tmp_path, "a", {"w": [1.0]}, {})
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path, "a", {}, {"x": object()})
    assert names(tmp_path) == []


def test_leftovers_of_dead_processes_are_removed_and_those_of_living_ones_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for pid in (dead.pid, os.getppid()):
        (tmp_path / f"ckpt-000009.tmp-{pid}").mkdir()
        (tmp_path / f"ckpt-000009.tmp-{pid}" / "state.json").write_bytes(b"{")
    checkpoint.save(tmp_path, "a", tensors(), {})
    assert names(tmp_path) == ["ckpt-000001", f"ckpt-000009.tmp-{os.getppid()}"]


SAVER = """
import sys
from pathlib import Path
import numpy as np
from rlspec.runtime.record import checkpoint
print("go", flush=True)
for step in range(100000):
    tensors = {f"w{i}": np.full(2000, step) for i in range(4)}
    checkpoint.save(Path(sys.argv[1]), f"s{step}", tensors, {"step": step})
    print(step, flush=True)
"""


def test_sigkill_at_any_moment_leaves_the_checkpoint_that_was_reported_last_or_a_later_one(tmp_path):
    random.seed(1)
    for attempt in range(4):
        directory = tmp_path / str(attempt)
        command = [sys.executable, "-c", SAVER, str(directory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(3):
                process.stdout.readline()
            time.sleep(random.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            reported = [int(line) for line in process.stdout.read().split()]
        loaded = checkpoint.load_newest(directory)
        step = loaded.state["step"]
        assert step >= max(reported, default=1)
        assert loaded.skipped == []
        assert all(np.all(loaded.tensors[f"w{i}"] == step) for i in range(4))
        checkpoint.save(directory, "next", tensors(), {})
        assert len(names(directory)) == 2
