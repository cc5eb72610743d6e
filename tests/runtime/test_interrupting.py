"""A judge that is asked after every turn: what it objects is told to the agent, and its labels stand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checking import plan_of
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.record.store import read
from rlspec.runtime.reporter import Unwatched
from rlspec.runtime.worlds.registry import runnable
from rlspec.runtime.worlds.shop.judge import OracleJudgement

ROOT = Path(__file__).parents[2]
MINI = (ROOT / "tests" / "ppo.rlspec").read_text()
JUDGE = """judge turns : oracle {
    on = [desk]  flip = 40%  when = during_rollout  objection = "look again"
  }"""
SPEC = (
    MINI[: MINI.index("  stage coldstart")]
    .replace("width = 32  layers = 2", "width = 16  layers = 1")
    .replace("judge turns : oracle { on = [desk] }", JUDGE)
    .replace("real@token = std.gae(std.at_turn_end(R), train.value, gamma = 1, lambda = 1)",
             "real@turn = zscore(R over (traj, turn))")
    + "  stage train : grpo { tasks_per_step = 3tasks  group = 3trajs  steps = 1steps  max_new_tokens = 10tokens }\n}\n"
)  # fmt: skip


def test_objections_are_told_after_each_bad_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, asked = OracleJudgement.measure, Counter[str]()

    def counting(self: OracleJudgement, task: Any, dialogue: Any, rng: Any) -> dict[str, Any]:
        asked["calls"] += 1
        return judged(self, task, dialogue, rng)

    monkeypatch.setattr(OracleJudgement, "measure", counting)
    plan = plan_of(SPEC)
    launch(plan, SPEC, tmp_path / "run", "local", Unwatched())
    trajectories = read(next((tmp_path / "run" / "trajectories").glob("train*.parquet")))
    assert asked["calls"] == sum(t.ledger.turns for t in trajectories)
    assert asked["calls"] <= next(b.judge_calls for b in plan.budget if b.stage == "train")
    told = 0
    for t in trajectories:
        labels = t.measures["turns.score"]
        assert len(labels) == t.ledger.turns
        turn, expected = -1, []
        for place, message in enumerate(t.dialogue):
            turn += message.role == "agent"
            if message.text == "look again":
                told += 1
                assert labels[turn] == -1
                assert t.dialogue[place - 1].role in ("user", "tool")
                expected.append(turn)
        bad = [n for n, label in enumerate(labels[:-1]) if label == -1]  # nobody is told after the last
        assert expected == bad
    assert told > 3


def test_what_a_judge_interrupted_is_tried_again_with_its_objections(tmp_path: Path) -> None:
    text = SPEC.replace("steps = 1steps", "steps = 2steps").rstrip().removesuffix("}")
    again = (
        "resample { within = train  failed = failed  group = 2trajs  groups = 9tasks  trigger = 1steps  cut = fault }"
    )
    text += f"  stage again : {again}\n}}\n"
    text = text.replace("reward R : real@turn", "let failed : bool@traj = outcome == 0\n  reward R : real@turn", 1)
    launch(plan_of(text), text, tmp_path / "run", "local", Unwatched())
    trajectories = read(tmp_path / "run" / "trajectories" / "train-000001.parquet")
    recoveries = [t for t in trajectories if t.key.startswith("again/")]
    assert len(recoveries) == 18
    told = 0
    for t in recoveries:
        assert t.failure is None
        assert len(t.measures["turns.score"]) == t.ledger.turns
        spoken = [place for place, m in enumerate(t.dialogue) if m.role == "agent"]
        earlier = t.dialogue[: spoken[-t.ledger.turns]] if t.ledger.turns else t.dialogue
        told += sum(m.text == "look again" for m in earlier)
        own = t.dialogue[len(earlier) :]
        objected = sum(m.text == "look again" for m in own)
        assert objected == sum(label == -1 for label in t.measures["turns.score"][:-1])
    assert told > 0


def test_the_embedded_judge_interrupts_where_the_paper_s_does() -> None:
    laptop = (ROOT / "specs" / "scale" / "laptop.rlspec").read_text()
    text = (ROOT / "specs" / "papers" / "tarl.rlspec").read_text()
    found = check(Source("tarl.rlspec", text), variant="live_intervention", overlays=[Source("laptop.rlspec", laptop)])
    assert found.plan is not None
    judge, desk = found.plan.labelled("turns"), found.plan.labelled("retail")
    assert (judge.name, judge.fields["when"], judge.fields["at_most_one_major"]) == ("oracle", "during_rollout", True)
    assert (desk.name, desk.fields["verifier"]) == ("shop", "write_operations")
    train = next(b for b in found.plan.budget if b.stage == "train")
    assert train.judge_calls == 14 * train.trajectories
    runnable(found.plan)
