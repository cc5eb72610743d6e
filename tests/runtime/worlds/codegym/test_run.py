"""A whole run in miniature, in one process: problems, environments, cold start, two steps of learning, two exams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.reporter import Unwatched
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems

SPEC = """rlspec = 1

experiment mini {
  policy agent : tiny { width = 16  layers = 1  feed_forward = 32  context = 256tokens }
  stage synthesise : codegym { problems = "PROBLEMS"  configurations = 6  admit { attempts = 2trajs } }
  env gym : codegym { from = synthesise  held_out = ["product"]  tool_docs = names  max_turns = 3agent_turns }
  env strangers : codegym { from = synthesise  families = ["product"]  tool_docs = names  max_turns = 3agent_turns }
  mix tasks { gym = 100%  strangers = 0% }
  reward R : real@traj = env.verified - 0.1 * env.errors
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage coldstart : sft {
    demonstrations = 24trajs  held_out = 8trajs  batch = 8trajs  max_steps = 3steps  refuse_above = 20
    warmup { max_steps = 1steps  batch = 4trajs  shortest = 2tokens  longest = 4tokens }
  }
  stage train : grpo {
    tasks_per_step = 2tasks  group = 4trajs  steps = 2steps  lr_warmup = 0steps  max_new_tokens = 8tokens
  }
  stage known : evaluate {
    on = [gym]  after = [train]  tasks = 2tasks  trials = 1trajs  pass_at = [1]  max_new_tokens = 8tokens
  }
  stage unknown : evaluate {
    on = [strangers]  after = [train]  tasks = 3tasks  trials = 1trajs  pass_at = [1]  max_new_tokens = 8tokens
  }
}
"""


@pytest.mark.slow
def test_a_run_makes_its_environments_and_learns_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSPEC_CACHE", str(tmp_path / "cache"))
    chosen = [p for p in read_problems(SHIPPED) if p.id in ("total.double", "count.is_even", "product.halve")]
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(p.model_dump_json() + "\n" for p in chosen))
    found = check(Source("mini.rlspec", SPEC.replace("PROBLEMS", str(problems))))
    assert not found.errors
    assert found.plan is not None
    report = launch(found.plan, "", tmp_path / "run", "local", Unwatched())

    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    made = next(line for line in lines if line["stage"] == "synthesise")
    assert made["decomposed.problems"] == 3
    assert len(list((tmp_path / "run" / "envs" / "synthesise").glob("*.json"))) == 4
    steps = [line for line in lines if line["stage"] == "train"]
    assert [line["trajectories"] for line in steps] == [8, 8]
    assert all("strangers.calls" not in line for line in steps)
    known, unknown = report["evaluations"]
    assert (known["trajectories"], unknown["trajectories"]) == (2, 3)
    assert "gym.calls" in known
    assert "gym.calls" not in unknown
    assert "strangers.calls" in unknown
