"""Tools that a language model plays, over real HTTP on the loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.compiler.catalog.tool_sides import Played
from rlspec.compiler.check import check
from rlspec.compiler.costs.estimate import estimate
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.played import PlayedWorld, read_tools
from rlspec.runtime.worlds.protocol import Call, InfraFailure
from rlspec.runtime.worlds.task_file import read_tasks

ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "looks", "parameters": ORDER},
     "annotations": {"readOnlyHint": True}},
    {"type": "function", "function": {"name": "cancel", "description": "cancels", "parameters": ORDER}},
]  # fmt: skip
TASKS = [
    {"id": "a", "instruction": "cancel W1", "split": "train", "state": {"W1": "pending"}, "outputs": ["W1"],
     "gold": [{"name": "look", "arguments": {"order": "W1"}}, {"name": "cancel", "arguments": {"order": "W1"}}]},
    {"id": "b", "instruction": "W2 ?", "split": "train", "gold": [{"name": "look", "arguments": {"order": "W2"}}]},
    {"id": "c", "instruction": "W3 !", "split": "test", "gold": [{"name": "cancel", "arguments": {"order": "W3"}}]},
]  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    return tmp_path


def answer(result: str, ok: bool = True) -> str:
    return json.dumps({"ok": ok, "result": result})


def world(desk: Path, model: ModelServer, retries: int = 0, **more: Any) -> PlayedWorld:
    fields = {"tools": str(desk / "tools.json"), "tasks": str(desk / "tasks.jsonl"), "model": "m", **more}
    return PlayedWorld(Played.model_validate({**fields, "endpoint": model.url}), retries)


def test_the_model_is_shown_schema_database_and_what_went_before(desk: Path, model: ModelServer) -> None:
    played = world(desk, model)
    session = played.reset(played.task("train", 0))
    model.answer = lambda request: answer('{"status": "pending"}')
    seen = session.step(Call("look", {"order": "W1"}))
    assert (seen.text, seen.status, seen.wrote) == ('{"status": "pending"}', "ok", False)
    model.answer = lambda request: answer("no such order", ok=False)
    assert session.step(Call("cancel", {"order": "W9"})).status == "error"
    model.answer = lambda request: answer("done")
    assert session.step(Call("cancel", {"order": "W1"})).wrote
    said = model.seen[-1]["messages"][0]["content"]
    for part in ('"cancels"', '{"W1": "pending"}', 'look({"order": "W1"}) -> {"status": "pending"}', "no such order"):
        assert part in said
    assert model.seen[-1]["max_tokens"] == 1024
    session.hear("w1 is cancelled")
    assert session.measure() == {
        "verified": 1, "right_writes": 1, "outputs_said": 1, "floor": 0, "reads": 1, "writes": 1, "errors": 1,
        "requests": 3,
    }  # fmt: skip
    copied = session.fork()
    assert copied.measure() == session.measure()
    copied.step(Call("cancel", {"order": "W2"}))
    assert (copied.measure()["verified"], session.measure()["verified"]) == (0, 1)
    session.cut()
    assert session.measure()["verified"] == 0


def test_calls_that_no_tool_takes_are_refused_by_rule(desk: Path, model: ModelServer) -> None:
    played = world(desk, model)
    session = played.reset(played.task("train", 0))
    assert "unknown tool" in session.step(Call("fly", {})).text
    assert "'order' is a required property" in session.step(Call("look", {})).text
    assert "is not of type 'string'" in session.step(Call("look", {"order": 3})).text
    assert (model.seen, session.measure()["errors"], session.measure()["requests"]) == ([], 3, 0)


@pytest.mark.parametrize(
    "said",
    ["", "done", "[]", '{"ok": true}', '{"ok": 1, "result": "x"}', '{"ok": true, "result": {"a": 1}}', "[" * 9999,
     answer("x") + "!", '{"ok": true, "result": "x", "note": "y"}'],
)  # fmt: skip
def test_what_is_no_result_is_a_failure(desk: Path, model: ModelServer, said: str) -> None:
    played = world(desk, model)
    model.answer = lambda request: said
    with pytest.raises(InfraFailure) as failure:
        played.reset(played.task("train", 0)).step(Call("look", {"order": "W1"}))
    assert failure.value.part == "env"


def test_it_is_asked_again_as_often_as_is_declared(desk: Path, model: ModelServer) -> None:
    said = ["what?", "hm", "```json\n" + answer("fine") + "\n```"]
    model.answer = lambda request: said.pop(0)
    played = world(desk, model, retries=2)
    assert played.reset(played.task("train", 0)).step(Call("look", {"order": "W1"})).text == "fine"
    assert len({json.dumps(asked) for asked in model.seen}) == 1  # the same words each time
    said[:] = ["what?", "hm", "no"]
    with pytest.raises(InfraFailure, match="no result of a tool"):
        played.reset(played.task("train", 0)).step(Call("look", {"order": "W1"}))


def test_what_doing_nothing_solves(desk: Path, model: ModelServer) -> None:
    assert world(desk, model).floor() == {"train": 0.5, "test": 0.0}
    with pytest.raises(Refusal, match="has no tool `fly`, which `writing` names"):
        world(desk, model, writing=["fly"]).ready()


SPEC = """rlspec = 1
experiment played {
  policy agent : tiny { context = 512tokens }
  env desk : played { tools = "tools.json"  tasks = "tasks.jsonl"  model = "m"  max_turns = 5agent_turns
                      max_new_tokens = 50tokens  on_failure = [retry(2), drop] }
  reward R : real@traj in {0, 1} = indicator(env.right_writes == 1)
  advantage A : real@traj = zscore(R over traj)
  credit = agent_tokens(A)
  price m : per_million_tokens { model = "m"  input = 2USD  output = 8USD }
  stage train : grpo { tasks_per_step = 2tasks  group = 4trajs  steps = 3steps  max_new_tokens = 20tokens }
}
"""


def test_a_state_that_nobody_keeps_is_no_reward() -> None:
    text = SPEC.replace("env.right_writes == 1", "env.db_hash == env.reference_hash")
    found = check(Source("played.rlspec", text))
    assert found.plan is None
    assert [(d.code, "change no state" in d.label) for d in found.errors] == [("RLC0109", True)]
    assert check(Source("p.rlspec", SPEC.replace('model = "m"  max', 'model = "m"  verifier = db_hash  max'))).errors


def test_the_plan_counts_the_calls_and_what_they_cost() -> None:
    plan = check(Source("played.rlspec", SPEC)).plan
    assert plan is not None
    [calls] = [c for load in estimate(plan).loads for c in load.calls]
    assert (calls.kind, calls.label, calls.model, calls.tries) == ("tools", "desk", "m", 3)
    assert (calls.number, calls.writes) == (5 * 8, 5 * 8 * 50)  # a call per message of the agent at most
    assert calls.reads == 8 * sum(1024 + 1024 + min(512, i * (20 + 50)) for i in range(5))
    found = estimate(plan)
    assert found.total_dollars == pytest.approx(3 * (calls.reads * 2 + calls.writes * 8) / 1e6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no task"),
        ("{", "line 1 is no task"),
        ("[1]", "no object"),
        ('{"id": "a"}', "`instruction` is missing"),
        ('{"id": "a", "instruction": "x", "golden": []}', "unknown field `golden`"),
        ('{"id": "a", "instruction": "x", "gold": [{"arguments": {}}]}', "a call is an object"),
        ('{"id": "a", "instruction": "x", "gold": [{"name": "n", "arguments": []}]}', "no object"),
        ('{"id": "a", "instruction": "x", "split": "dev"}', "`split` is 'dev'"),
        ('{"id": "a", "instruction": "x", "outputs": [1]}', "list of texts"),
        ('{"id": "a", "instruction": "x"}\n{"id": "a", "instruction": "y"}', "there twice"),
    ],
)
def test_files_that_hold_no_tasks(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(Refusal, match=words):
        read_tasks(tmp_path / "t.jsonl", 0.25)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"function": {"name": "a", "parameters": {"type": 3}}}]'])
def test_files_that_hold_no_tools(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(Refusal) as refusal:
        read_tools(tmp_path / "t.json")
    assert refusal.value.code == "RLC0711"
    with pytest.raises(Refusal, match="RLC0701"):
        read_tools(tmp_path / "none.json")


def test_a_split_is_said_or_drawn_by_the_name(tmp_path: Path) -> None:
    rows = [json.dumps({"id": f"t{n}", "instruction": "x"}) for n in range(400)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    found = read_tasks(tmp_path / "t.jsonl", 0.25)
    assert 70 < len(found.tasks["test"]) < 130
    assert found.task("train", 400).id == found.task("train", 400 - len(found.tasks["train"])).id
    with pytest.raises(Refusal, match="no task of the split test"):
        read_tasks(tmp_path / "t.jsonl", 0.0).task("test", 0)
