"""Compiled kernels on ragged batches, and the cache of their machine code."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlspec.compiler.evaluator import evaluate
from rlspec.compiler.sketch import normalise, program, reduce, signal
from rlspec.runtime.record.ragged import RaggedBatch
from rlspec.runtime.scoring import Kernel

REWARD = reduce("mean", signal("verdict", "turn"), "turn") + signal("outcome", "traj")
PROGRAM = program(advantage=normalise("zscore", REWARD, "traj"), reward=REWARD)


def batch(**signals: np.ndarray) -> RaggedBatch:
    """Two groups of three trajectories, with turns but without tokens."""
    turn_offsets = np.array([0, 2, 3, 3, 6, 7, 9])
    given = {"verdict": np.array([1, -1, 0, 1, 1, 0, -1, 1, 1.0]), "outcome": np.array([0, 1, 1, 0, 0, 1.0])}
    return RaggedBatch(np.array([0, 3, 6]), turn_offsets, np.zeros(10, dtype=np.int64), given | signals)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(PROGRAM)


def test_a_kernel_scores_as_the_evaluator_does(kernel):
    found, expected = kernel(batch()), evaluate(PROGRAM, batch())
    assert list(found) == ["advantage", "reward"]
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, abs=1e-12)
        assert found[name].dtype == np.float64


def test_an_empty_batch_scores_to_nothing(kernel):
    empty = RaggedBatch(*(np.zeros(1, dtype=np.int64),) * 3, {"verdict": np.empty(0), "outcome": np.empty(0)})
    assert {name: values.shape for name, values in kernel(empty).items()} == {"advantage": (0,), "reward": (0,)}


def test_signals_of_other_layouts_are_read_rightly_and_left_alone(kernel):
    plain = kernel(batch())["advantage"]
    spread = np.repeat(batch().signals["verdict"], 2)[::2]
    locked = batch().signals["outcome"].astype(np.float32)
    locked.flags.writeable = False
    assert kernel(batch(verdict=spread, outcome=locked))["advantage"].tolist() == plain.tolist()


def test_a_missing_signal_and_one_of_another_length_are_refused_by_name(kernel):
    broken = batch()
    del broken.signals["verdict"]
    with pytest.raises(ValueError, match="brings no signal 'verdict'"):
        kernel(broken)
    with pytest.raises(ValueError, match=r"'outcome' has shape \(5,\) for 6 members"):
        kernel(batch(outcome=np.zeros(5)))


def test_the_cache_keeps_readable_text_and_machine_code_for_the_next_process(tmp_path):
    cache = tmp_path / "kernels"
    first = Kernel(PROGRAM, cache)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    (text,) = cache.glob("*.py")
    assert text.name == f"{first.digest}.py"
    assert text.read_text() == first.source
    written = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}
    assert written
    code = (
        "import sys; from pathlib import Path\n"
        "from rlspec.compiler.program import Program\n"
        "from rlspec.runtime.scoring import Kernel\n"
        "kernel = Kernel(Program.model_validate_json(sys.stdin.read()), Path(sys.argv[1]))\n"
        "print(sum(kernel._run.stats.cache_hits.values()), sum(kernel._run.stats.cache_misses.values()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(cache)],
        input=PROGRAM.model_dump_json(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["1", "0"]
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")} == written


def test_a_tampered_text_is_written_anew(tmp_path):
    first = Kernel(PROGRAM, tmp_path / "kernels")
    path = tmp_path / "kernels" / f"{first.digest}.py"
    path.write_text(first.source.replace("advantage[traj] =", "advantage[traj] = 1.0 +"))
    assert Kernel(PROGRAM, tmp_path / "kernels")(batch())["advantage"].tolist() == first(batch())["advantage"].tolist()
    assert path.read_text() == first.source
    assert not list(path.parent.glob(".*.*"))


def test_a_cache_that_others_can_write_to_is_refused(tmp_path: Path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="writable by nobody else"):
        Kernel(PROGRAM, tmp_path)
    assert not os.listdir(tmp_path)
