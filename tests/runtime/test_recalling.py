"""A user behind an endpoint is told what it said when its talk is taken up again: nothing is asked for twice."""

from __future__ import annotations

from pathlib import Path

from model_server import ModelServer
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.record.store import read
from rlspec.runtime.reporter import Unwatched

SPEC = """rlspec = 1
experiment again {
  policy agent : tiny { width = 16  layers = 1  heads = 2  kv_heads = 1  feed_forward = 32  context = 480tokens }
  env desk : shop { difficulty = 0  max_turns = 4agent_turns }
  user customer : llm { serves = [desk]  model = "m"  endpoint = "URL"  strategy = STRATEGY  timeout = 20s }
  signal outcome : int@traj in {0, 1} = env.verified
  let failed : bool@traj = outcome == 0
  reward R : real@traj = outcome
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage train : grpo { tasks_per_step = 2tasks  group = 2trajs  steps = 2steps  max_new_tokens = 8tokens }
  stage again : resample {
    within = train  failed = failed  group = 2trajs  groups = 2tasks  trigger = 1steps  cut = fault
  }
}
"""


def test_earlier_replies_come_from_the_record(model: ModelServer, tmp_path: Path) -> None:
    model.answer = lambda _: f"Thought:\nsecret {len(model.seen)}\nUser Response:\nword {len(model.seen)}"
    text = SPEC.replace("URL", model.url).replace("STRATEGY", "react")
    found = check(Source("again.rlspec", text))
    assert found.plan is not None, found.errors
    launch(found.plan, text, tmp_path / "run", "local", Unwatched())
    steps = [read(path) for path in sorted((tmp_path / "run" / "trajectories").glob("train*.parquet"))]
    everything = [t for step in steps for t in step]
    recoveries = [t for t in everything if t.key.startswith("again/")]
    assert len(recoveries) == 4
    assert all(t.failure is None for t in everything)
    said = [m.text for t in everything for m in t.dialogue if m.role == "user"]
    assert len(said) > len(set(said)) > 8  # what was said before a recovery stands in its dialogue again
    assert len(model.seen) == len(set(said)), "somebody was asked for what had been said"
    for request in model.seen:  # and it remembers its own thoughts, with the words that the agent was told
        own = [m["content"] for m in request["messages"] if m["role"] == "assistant"]
        assert all(line.startswith("Thought:\nsecret") for line in own)
        heard = [m["content"] for m in request["messages"] if m["role"] == "user"]
        assert len(heard) == len(own) + 1
