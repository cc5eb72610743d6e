"""Triples out of runs, and a policy that learns from them to write feedback and writes it in a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from checking import plan_of
from rlspec.compiler.check import check
from rlspec.compiler.costs.estimate import estimate
from rlspec.compiler.costs.workload import loads
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.reporter import Unwatched
from rlspec.runtime.triples import Triple, parted, read, triples_of, write
from rlspec.runtime.worlds.protocol import Call, Message

SPEC = """rlspec = 1
experiment coached {
  policy agent : tiny { width = 16  layers = 1  heads = 2  kv_heads = 1  feed_forward = 32  context = 320tokens }
  env desk : shop { difficulty = 0  max_turns = 3agent_turns }
  user customer : agenda { serves = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  let failed : bool@traj = outcome == 0
  reward R : real@traj = outcome
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage coach : diagnostician {
    data = "DATA"  held_out = 8trajs  batch = 8trajs  max_steps = 12steps  lr = 2e-2  context = 128tokens
    max_new_tokens = 16tokens  stop { loss = 0.01  every = 4steps }  refuse_above = 99
  }
  stage train : grpo {
    tasks_per_step = 2tasks  group = 2trajs  steps = 2steps  max_new_tokens = 10tokens  checkpoint_every = 1steps
  }
  stage again : resample {
    within = train  failed = failed  group = 2trajs  groups = 2tasks  trigger = 1steps  cut = fault
    feedback { by = policy  policy = coach }
  }
}
"""


def triple(number: int) -> Triple:
    """A wrong item in an order of the task's own, or a call that cannot be read."""
    gold = Call("modify_item", {"order_id": f"W{number // 2}", "item": "mug"})
    if number % 3 == 0:
        faulty, said = Message("agent", "", malformed="no JSON"), "error : call is malformed"
        answer = Message("tool", "error : no JSON", status="error")
    else:
        faulty = Message("agent", "", Call("modify_item", {**gold.arguments, "item": "lamp"}), status="ok", wrote=True)
        answer, said = Message("tool", "done", status="ok", wrote=True), "error : wrong item"
    dialogue = (Message("user", f"change W{number // 2} please"), faulty, answer, Message("agent", "bye"))
    return Triple(f"train/{number}/0/0", f"shop.{number // 2}", "again", dialogue, 1, (gold,), said, "rule")


TRIPLES = [triple(number) for number in range(48)]


def test_a_file_of_triples_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "triples.jsonl"
    assert write(TRIPLES, path) == len(TRIPLES)
    assert read(path) == TRIPLES
    first = json.loads(path.read_text().splitlines()[1])["messages"]
    assert [m["role"] for m in first] == ["user", "assistant"]
    assert first[1]["content"] == "error : wrong item"
    assert 'modify_item({"item": "mug", "order_id": "W0"})' in first[0]["content"]
    assert "bye" not in first[0]["content"]


@pytest.mark.parametrize("line", ["{", "[]", '{"context": {"dialogue": [], "fault": 1}, "gold": [], "diagnosis": "x"}',
    '{"context": {"dialogue": [], "fault": 0}, "gold": [], "diagnosis": 3}', '{"gold": [], "diagnosis": "x"}',
    '{"context": {"dialogue": [{"role": "god"}], "fault": 0}, "gold": [], "diagnosis": "x"}'])  # fmt: skip
def test_what_is_no_triple_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "triples.jsonl"
    write(TRIPLES[:2], path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(Refusal, match="line 3") as refused:
        read(path)
    assert refused.value.code == "RLC0711"


def test_tasks_are_held_out_whole_whatever_the_order_of_the_file() -> None:
    learned, held = parted(TRIPLES, 8, 3)
    assert {t.task for t in learned}.isdisjoint(t.task for t in held)
    assert (len(held), len(learned)) == (8, 40)
    assert {t.key for t in parted(TRIPLES[::-1], 8, 3)[1]} == {t.key for t in held}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coached")
    write(TRIPLES, folder / "triples.jsonl")
    begin(folder, "run", "local")
    return folder / "run"


def begin(folder: Path, name: str, executor: str, resume: bool = False) -> None:
    text = SPEC.replace("DATA", str(folder / "triples.jsonl"))
    launch(plan_of(text), text, folder / name, executor, Unwatched(), resume=resume)


def test_a_trained_policy_writes_what_is_said(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = [line["held_out"] for line in lines if line["stage"] == "coach" and "held_out" in line]
    assert measured[-1] < 0.5 * measured[0]
    examined = next(line for line in lines if line.get("kind") == "examination")
    assert (examined["triples"], examined["held_out_triples"]) == (40.0, 8.0)
    assert examined["exact"] >= examined["usual"] > 0
    assert lines[-1]["again.own_words"] == 1.0
    said = {t.diagnosis for t in triples_of(run) if t.by == "policy"}
    assert said
    assert said <= {"error : wrong item", "error : call is malformed"}


@pytest.mark.slow
def test_a_resumed_run_and_ray_say_the_same(run: Path) -> None:
    metrics = (run / "metrics.jsonl").read_bytes()
    shutil.copytree(run, run.parent / "again")
    for path in (run.parent / "again" / "report.json", run.parent / "again" / "diagnoses.jsonl"):
        path.unlink()  # not only from the record
    shutil.rmtree(run.parent / "again" / "checkpoints")
    (run.parent / "again" / "checkpoints").mkdir()
    begin(run.parent, "again", "local", resume=True)
    begin(run.parent, "ray", "ray")
    for name in ("again", "ray"):
        assert (run.parent / name / "metrics.jsonl").read_bytes() == metrics


def test_a_run_without_its_triples_is_not_begun(tmp_path: Path) -> None:
    text = SPEC.replace("DATA", str(tmp_path / "none.jsonl"))
    with pytest.raises(Refusal) as refused:
        launch(plan_of(text), text, tmp_path / "run", "local", Unwatched())
    assert refused.value.code == "RLC0701"
    write(TRIPLES[:9], tmp_path / "none.jsonl")
    with pytest.raises(Refusal, match="9 triples"):
        launch(plan_of(text), text, tmp_path / "run", "local", Unwatched())
    assert not (tmp_path / "run").exists()


def test_who_diagnoses_is_trained_before() -> None:
    coach = SPEC[SPEC.index("  stage coach") : SPEC.index("  stage train")]
    late = SPEC.replace(coach, "").rstrip().removesuffix("}") + coach + "}\n"
    assert [d.code for d in check(Source("late.rlspec", late)).errors] == ["RLC0504"]
    other = SPEC.replace("policy = coach }", "policy = train }")
    assert [d.code for d in check(Source("other.rlspec", other)).errors] == ["RLC0504"]


def test_it_learns_beside_the_agent_and_samples_nothing() -> None:
    plan = plan_of(SPEC)
    stages = {stage.label: stage for stage in plan.stages}
    assert (stages["coach"].policy_from, stages["train"].policy_from) == (None, None)
    load = next(load for load in loads(plan) if load.stage == "coach")
    assert (load.sampled, load.learned, load.calls) == (0, 8 * 128, ())
    known = {(known.what, known.after) for known in estimate(plan).known}
    assert ("what the diagnostician says", "coach") in known
    edges = {(e.source, e.target) for e in plan.graph.edges}
    assert {("triples", "coach/trainer"), ("coach/trainer", "again/rollout")} <= edges
