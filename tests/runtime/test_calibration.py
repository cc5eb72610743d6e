"""A calibration inside a run: what it finds is written, bound into training, and still there after a resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.show import show
from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.parser import read
from rlspec.runtime.launch import launch
from rlspec.runtime.record.directory import RunDirectory
from rlspec.runtime.reporter import Unwatched

pytestmark = pytest.mark.slow

# The cold start is that of tests/mini.rlspec, which may be in the cache. Its policy solves nothing, so the outcome here
# is one that it reaches by chance: the user is sent away.
SPEC = """rlspec = 1
experiment mini {
  policy agent : tiny { width = 32  layers = 2  heads = 2  kv_heads = 1  feed_forward = 64  context = 320tokens }
  env desk : shop { difficulty = 0  max_turns = 8agent_turns }
  user customer : agenda { serves = [desk] }
  judge tiers : tiers { on = [desk] }
  signal outcome : int@traj in {0, 1} = user.dismissed
  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
  reward r : real@turn = calibrate.weight[tier]
  advantage A : real@turn = std.gtpo_aligned(r, outcome, 0.9, 0.3)
  credit = agent_tokens(A)
  resources here : machine { workers = 1 }
  stage coldstart : sft {
    demonstrations = 48trajs  held_out = 16trajs  batch = 16trajs  max_steps = 6steps
    warmup.max_steps = 3steps  stop { loss = 90  every = 2steps }  refuse_above = 100
  }
  stage calibrate : irc {
    signal = tier  outcome = outcome  episodes = 24trajs  group = 4trajs  rounds = 2  threshold = 0
    agreement = 0.999  max_new_tokens = 12tokens
  }
  stage train : grpo { tasks_per_step = 2tasks  group = 4trajs  steps = 1steps  max_new_tokens = 12tokens }
}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
    path = tmp_path_factory.mktemp("spec") / "mini.rlspec"
    path.write_text(SPEC)
    found = check(read(path))
    assert found.plan is not None, found.errors
    return found.plan


@pytest.fixture(scope="module")
def done(plan: Plan, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mini"
    launch(plan, "", out, "local", Unwatched())
    return out


def weights(run: Path) -> dict[str, float]:
    return json.loads((run / "results" / "calibrate.json").read_text())["results"]["weight"]


def test_training_is_paid_by_what_was_found(done: Path):
    found = weights(done)
    assert any(value != 0 for value in found.values())
    run = RunDirectory.open(done, None, resume=False)
    assert [place for place in run.steps() if place[0] == "calibrate"] == [("calibrate", 0), ("calibrate", 1)]
    trained = run.read_trajectories("train", 0)
    assert len(trained) == 8
    for t in trained:
        assert t.scores["r"] == [found[tier] for tier in t.measures["tiers.tier"]]
    lines = [line for line in run.metrics.read() if line["stage"] == "train"]
    assert all(0 <= line[name] <= 1 for line in lines for name in ("dead_turns", "misaligned_turns"))


def test_the_report_is_that_of_all_episodes(done: Path):
    report = json.loads((done / "results" / "calibrate.json").read_text())["report"]
    assert [round_["trajectories"] for round_ in report["rounds"]] == [24, 48]
    assert report["rounds"][-1]["weights"] == weights(done)
    output = CliRunner().invoke(show, [str(done)], catch_exceptions=False).output
    assert "calibrate: 2 rounds, 48 trajectories" in output
    assert "no evidence for" in output


def test_a_resumed_run_goes_on_with_the_table_of_its_checkpoint(done: Path, plan: Plan, tmp_path: Path):
    again = tmp_path / "again"
    shutil.copytree(done, again)
    checkpoints = sorted((again / "checkpoints").glob("ckpt-*"))
    shutil.rmtree(checkpoints[-1])
    (again / "report.json").unlink()
    launch(plan, "", again, "local", Unwatched(), resume=True)
    assert (again / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()
    assert weights(again) == weights(done)
