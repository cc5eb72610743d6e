"""Failed trajectories sampled again inside a real run, and what its records say of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rlspec.cli.run import run
from rlspec.compiler.catalog.resampling import Resample
from rlspec.runtime.record.store import read
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.recovery import start_of
from rlspec.runtime.resampling import Failure, queue

pytestmark = pytest.mark.slow

SPEC = """rlspec = 1
experiment again {
  policy agent : tiny { width = 32  layers = 2  heads = 2  kv_heads = 1  feed_forward = 64  context = 320tokens }
  env desk : shop { difficulty = 0  max_turns = 8agent_turns }
  user customer : agenda { serves = [desk] }
  judge calls : call_match { on = [desk] }
  judge turns : oracle { on = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal fmt : int@traj in {0, 1} = calls.format
  signal f1 : real@traj in [0, 1] = calls.argument_f1
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  let failed : bool@traj = outcome == 0
  reward R : real@traj = fmt + f1 + outcome + 0.1 * mean(verdict over turn) + exp(-num(turn))
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage coldstart : sft {
    demonstrations = 120trajs  held_out = 16trajs  batch = 16trajs  max_steps = 40steps
    warmup.max_steps = 3steps  stop { loss = 90  every = 40steps }  refuse_above = 100
  }
  stage train : grpo {
    tasks_per_step = 3tasks  group = 4trajs  steps = 4steps  checkpoint_every = 1steps  max_new_tokens = 24tokens
  }
  stage again : resample {
    within = train  failed = failed  group = 3trajs  groups = 2tasks  trigger = 1steps  cut = fault  depth = 2
  }
}
"""


def start(folder: Path, out: str, *words: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "rlspec.cli.main",
        "run",
        "spec.rlspec",
        "--executor",
        "local",
        "--out",
        out,
        *words,
    ]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err[-3000:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("again")
    (found / "spec.rlspec").write_text(SPEC)
    finish(start(found, "straight"))
    return found


def lines(run: Path) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["stage"] == "train"]


def trajectories(run: Path) -> list[list[Trajectory]]:
    return [read(path) for path in sorted((run / "trajectories").glob("train*.parquet"))]


def test_failures_become_groups_of_the_next_step(folder: Path) -> None:
    first, *later = lines(folder / "straight")
    assert "again.groups" not in first
    assert first["again.stored"] > 0
    assert all(line["again.groups"] == 2 for line in later)
    assert all(line["trajectories"] == 12 + 6 for line in later)
    assert all(0 <= line["again.recovered"] <= 1 for line in later)
    for line, step in zip(later, trajectories(folder / "straight")[1:], strict=True):
        again = [t.measures["desk.verified"] for t in step if t.key.startswith("again/")]
        assert line["again.success"] == pytest.approx(sum(again) / 6)
        erred = [t for t in step if not t.key.startswith("again/") and t.measures["desk.errors"] > 0]
        rate = sum(t.measures["desk.verified"] for t in erred) / len(erred) if erred else None
        assert line.get("error_recovery") == (rate if rate is None else pytest.approx(rate))


def test_recoveries_see_the_attempt_and_learn_from_their_own_words_alone(folder: Path) -> None:
    steps = trajectories(folder / "straight")
    by_key = {t.key: t for step in steps for t in step}
    recoveries = [t for step in steps for t in step if t.key.startswith("again/")]
    assert recoveries
    for recovery in recoveries:
        kinds = [span.kind for span in recovery.ledger.spans]
        shown = [i for i, m in enumerate(recovery.dialogue) if m.text.startswith("error : ") and m.role == "tool"]
        assert shown, recovery.dialogue
        assert "attempt" in kinds
        attempted = [s for s in recovery.ledger.spans if s.kind == "attempt"]
        assert not any(recovery.ledger.mask()[s.start : s.stop].any() for s in attempted)
        assert len(recovery.measures["turns.score"]) == recovery.ledger.turns
        assert max(attempted, key=lambda s: s.stop).stop < min(
            s.start for s in recovery.ledger.spans if s.kind == "agent"
        )
        known = attempted[-1].stop  # the tokens that were really sampled and seen, to the end of the faulty message
        shown_tokens = recovery.ledger.tokens()[:known].tolist()
        assert any(t.ledger.tokens()[:known].tolist() == shown_tokens for t in by_key.values() if t is not recovery)


def test_recovery_groups_are_normalised_alone(folder: Path) -> None:
    for step in trajectories(folder / "straight")[1:]:
        groups: dict[int, list[Trajectory]] = {}
        for trajectory in step:
            groups.setdefault(trajectory.group, []).append(trajectory)
        for members in groups.values():
            assert len({t.key.partition("/")[0] for t in members}) == 1
            assert np.isclose(sum(t.scores["A"] for t in members), 0.0, atol=1e-9)


def test_a_start_without_feedback_ends_before_the_fault(folder: Path) -> None:
    failed = next(t for t in trajectories(folder / "straight")[0] if t.scores["again.failed"])
    told = Resample.model_validate({"within": "train", "cut": "fault"})
    silent = Resample.model_validate({"within": "train", "cut": "fault", "feedback": {"given": False}})
    with_fault, without = start_of(failed, "again", told), start_of(failed, "again", silent)
    assert with_fault.dialogue[-1].role == "agent"
    assert len(without.dialogue) == len(with_fault.dialogue) - 1
    assert without.spans == with_fault.spans[:-1]
    whole = start_of(failed, "again", Resample.model_validate({"within": "train"}))
    assert whole.tokens == len(failed.ledger)


def test_a_killed_run_goes_on_with_the_failures_that_it_had_stored(folder: Path) -> None:
    process = start(folder, "killed")
    metrics = folder / "killed" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and '"step":1,' in metrics.read_text().replace(" ", "")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not os.path.exists(folder / "killed" / "report.json"), "the run was over before it was killed"
    finish(start(folder, "killed", "--resume"))
    assert metrics.read_bytes() == (folder / "straight" / "metrics.jsonl").read_bytes()


def test_a_collected_set_is_tried_again_in_turns_whatever_its_age(folder: Path) -> None:
    (folder / "collected.rlspec").write_text(SPEC.replace("within = train ", "within = train  errors = collected "))
    done = CliRunner().invoke(
        run, [str(folder / "collected.rlspec"), "--out", str(folder / "collected"), "--executor", "local"]
    )
    assert done.exception is None, done.output
    found = lines(folder / "collected")
    assert found[0]["again.stored"] > 0
    assert {line["again.stored"] for line in found} == {found[0]["again.stored"]}
    assert {line["again.groups"] for line in found[1:]} == {2}
    first, *later = trajectories(folder / "collected")
    failed = {t.task for t in first if t.scores["again.failed"]}
    assert {t.task for step in later for t in step if t.key.startswith("again/")} <= failed


def test_a_round_begins_in_a_collected_set_where_the_one_before_ended() -> None:
    failures = [Failure(0, f"train/0/0/{n}", "desk", n, 0) for n in range(5)]
    stage = Resample(within="train", errors="collected", groups=2, trigger=3, max_age=3)
    tried = [[f.task for f in queue(failures, stage, step)[:2]] for step in (3, 6, 9, 300)]
    assert tried == [[4, 3], [2, 1], [0, 4], [1, 0]]
    assert queue([], stage, 3) == []
    live = Resample(within="train", groups=2, trigger=3, max_age=3)
    assert queue(failures, live, 3) == failures[::-1]
    assert queue(failures, live, 6) == []
