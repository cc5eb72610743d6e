"""A language model as diagnostician inside real runs, over real HTTP on the loopback; whatever it writes, no gold value
reaches the policy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.compiler.catalog.diagnosticians import LlmDiagnosis
from rlspec.compiler.catalog.resampling import Feedback
from rlspec.compiler.check import check
from rlspec.compiler.costs.workload import loads
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.launch import launch
from rlspec.runtime.record.store import read
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.reporter import Unwatched
from rlspec.runtime.worlds.diagnosticians import Case, Draft, LlmDiagnostician, settle
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.protocol import Call, Message, Task
from rlspec.runtime.worlds.registry import world_of

SPEC = """rlspec = 1
experiment again {
  policy agent : tiny { width = 16  layers = 1  heads = 2  kv_heads = 1  feed_forward = 32  context = 320tokens }
  env desk : shop { difficulty = 0  max_turns = 3agent_turns }
  user customer : agenda { serves = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  let failed : bool@traj = outcome == 0
  reward R : real@traj = outcome
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage train : grpo { tasks_per_step = 2tasks  group = 2trajs  steps = 2steps  max_new_tokens = 10tokens }
  stage again : resample {
    within = train  failed = failed  group = 2trajs  groups = 2tasks  trigger = 1steps  cut = fault
    feedback { by = llm  FIELDS  llm { model = "m"  endpoint = "URL"  drafts = 2  retries = 0  timeout = 20s } }
  }
}
"""
TASK = Task("t", "train", "you want the mug in blue", (Call("recolour", {"order": "W17", "item": "mug"}),))
FAULT = (
    Message("user", "my mug"),
    Message("agent", "", Call("recolour", {"order": "W71", "item": "mug"}), status="ok", wrote=True),
    Message("tool", "done", status="ok", wrote=True),
    Message("agent", "bye"),
)
CASE = Case("k", "desk", 0, FAULT, 1, "error : wrong order", 50)


def says(text: str) -> str:
    return json.dumps({"feedback": text})


def of(model: ModelServer, *answers: str | int, case: Case = CASE, **fields: Any) -> list[Draft]:
    model.says(*answers)
    config = LlmDiagnosis(model="m", endpoint=model.url, retries=0, timeout=20.0, **fields)
    return LlmDiagnostician(config).drafts(case, TASK, "ask first")[0]


# ------------------------------------------------------------------------------------------------------ one diagnosis


def test_a_leak_is_shown_to_the_model_and_another_text_is_written(model: ModelServer) -> None:
    drafts = of(model, says("error : it is w-17"), says("error :  the order\nis another"))
    assert drafts == [Draft("error : it is w-17", "leak"), Draft("error : the order is another", "said")]
    assert "gives a value away" in model.seen[1]["messages"][-1]["content"]
    assert settle(CASE, TASK.gold, Feedback(), "llm", drafts) == ("error : the order is another", "llm")


@pytest.mark.parametrize("answer", ["no idea", '{"feedback": 3}', '{"feedback": " "}', '{"feedback": "x", "more": 1}',
                                    json.dumps({"feedback": "error : " + "x" * 300})])  # fmt: skip
def test_what_is_no_message_is_malformed(model: ModelServer, answer: str) -> None:
    drafts = of(model, answer, answer, drafts=2)
    assert [d.verdict for d in drafts] == ["malformed", "malformed"]
    assert settle(CASE, TASK.gold, Feedback(on_leak="drop"), "llm", drafts) == ("error : wrong order", "rule")


def test_each_rule_has_its_own_way_out() -> None:
    leak, failed = [Draft("W17", "leak")], [Draft("HTTP 500", "failed")]
    for on, text, by in (("rule", CASE.rule, "rule"), ("anything", "error : something is wrong", "anything"), ("drop", None, "")):  # noqa: E501  # fmt: skip
        assert settle(CASE, TASK.gold, Feedback(on_leak=on, on_failure="rule"), "llm", leak) == (text, by)
        assert settle(CASE, TASK.gold, Feedback(on_leak="rule", on_failure=on), "llm", failed) == (text, by)
    assert settle(CASE, TASK.gold, Feedback(anything="it is W 17", on_leak="anything"), "llm", leak) == (None, "")
    assert settle(CASE, TASK.gold, Feedback(), "policy", [Draft("the mug", "said")]) == (CASE.rule, "rule")


def test_it_sees_what_it_is_declared_to_see(model: ModelServer) -> None:
    of(model, says("error : x"))
    of(model, says("error : x"), sees=("policy",))
    much, little = (request["messages"][0]["content"] for request in model.seen)
    assert all(part in much for part in ('recolour({"item": "mug", "order": "W17"})', "you want the mug", "my mug"))
    assert not any(part in little for part in ("W17", "you want the mug", "my mug"))
    for text in (much, little):
        assert '"W71"' in text
        assert "bye" not in text  # what comes after the fault's answer says nothing of the fault
    assert ("ask first" in much, "ask first" in little) == (False, True)


# --------------------------------------------------------------------------------------------------------- whole runs


def plan_of(model: ModelServer, fields: str = "") -> tuple[Plan, str]:
    text = SPEC.replace("URL", model.url).replace("FIELDS", fields)
    found = check(Source("again.rlspec", text))
    assert found.plan is not None, found.errors
    return found.plan, text


def run(model: ModelServer, path: Path, fields: str = "") -> tuple[Plan, dict[str, Any], list[Trajectory]]:
    """The plan, the last step's metrics and its recoveries."""
    plan, text = plan_of(model, fields)
    launch(plan, text, path, "local", Unwatched())
    line = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    found = [t for t in read(path / "trajectories" / "train-000001.parquet") if t.key.startswith("again/")]
    return plan, line, found


def leak_of(request: dict[str, Any]) -> str:
    """An answer with every value of the gold calls in the prompt."""
    calls = request["messages"][0]["content"].partition("Calls that solve the task")[2].partition("## The attempt")[0]
    return says("error : use " + " , ".join(re.findall(r': "([^"]+)"', calls)))


def test_no_leak_reaches_the_policy(model: ModelServer, tmp_path: Path) -> None:
    model.answer = leak_of
    plan, line, recoveries = run(model, tmp_path / "run")
    assert (line["again.leaks"], line["again.own_words"], line["again.diagnoses"]) == (1.0, 0.0, 2.0)
    assert len(model.seen) == line["again.requests"] == 4.0  # two drafts of each of two diagnoses
    assert (line["again.prompt_tokens"], line["again.completion_tokens"]) == (28.0, 12.0)
    assert len(recoveries) == 4
    world = world_of(plan, plan.drawn[0])
    for t in recoveries:
        said = [m.text for m in t.dialogue if m.role == "tool" and m.text.startswith("error : ")]
        gold = world.task("train", int(t.task.rpartition(".")[2])).gold
        assert said
        assert not any(leaked(text, gold) for text in said)
        assert not any(m.text.startswith("error : use") for m in t.dialogue)
    record = [json.loads(row) for row in (tmp_path / "run" / "diagnoses.jsonl").read_text().splitlines()]
    assert [[d["verdict"] for d in row["drafts"]] for row in record] == [["leak", "leak"]] * 2
    assert all(row["by"] == "rule" for row in record)


def test_its_words_are_said_and_kept_and_not_asked_for_again(model: ModelServer, tmp_path: Path) -> None:
    model.answer = lambda _: says("error : look at it once more")
    _, line, recoveries = run(model, tmp_path / "run", "on_leak = drop")
    assert (line["again.leaks"], line["again.own_words"]) == (0.0, 1.0)
    assert all(any(m.text == "error : look at it once more" for m in t.dialogue) for t in recoveries)
    asked, metrics = len(model.seen), (tmp_path / "run" / "metrics.jsonl").read_bytes()
    plan, text = plan_of(model, "on_leak = drop")
    for path in (tmp_path / "run" / "report.json", *(tmp_path / "run" / "checkpoints").iterdir()):
        path.rename(tmp_path / path.name)  # as if it had been killed before its first checkpoint
    model.answer = lambda _: says("error : something else entirely")
    launch(plan, text, tmp_path / "run", "local", Unwatched(), resume=True)
    assert len(model.seen) == asked
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == metrics


def test_without_an_answer_the_declared_rule_holds(model: ModelServer, tmp_path: Path) -> None:
    model.answer = lambda _: 503
    _, line, recoveries = run(model, tmp_path / "run", "on_failure = drop")
    assert (line["again.unanswered"], line["again.dropped"], recoveries) == (1.0, 1.0, [])
    assert "again.recovered" not in line


# ------------------------------------------------------------------------------------------------- checked and counted


def test_calls_are_counted_with_the_model(model: ModelServer) -> None:
    plan, _ = plan_of(model)
    again = next(load for load in loads(plan) if load.stage == "again")
    calls = next(c for c in again.calls if c.kind == "diagnostician")
    assert (calls.label, calls.model, calls.number, calls.tries) == ("again", "m", 2, 2)
    assert calls.reads > 2 * 320
    assert calls.writes == 2 * 256


@pytest.mark.parametrize(("given", "said"), [
    ("by = llm  FIELDS  llm { model", "by = rule  FIELDS  llm { model"),
    ("by = llm  FIELDS  llm { model = \"m\"", "by = llm  FIELDS  llm { temperature = 0"),
    ("by = llm  FIELDS", "by = policy  FIELDS"),
])  # fmt: skip
def test_half_of_it_is_a_mistake(given: str, said: str) -> None:
    assert given in SPEC
    found = check(Source("again.rlspec", SPEC.replace(given, said).replace("FIELDS", "")))
    assert [d.code for d in found.errors] == ["RLC0505"]
