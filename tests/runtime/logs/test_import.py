"""Logged conversations become trajectories: the real tau-bench log, OpenAI-style messages, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rlspec.cli.imports import import_
from rlspec.runtime.logs import openai, tau_bench
from rlspec.runtime.logs.log import Log, write
from rlspec.runtime.logs.messages import Reading, Unreadable, dialogue, status_of
from rlspec.runtime.record.batching import ragged
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call

AIRLINE = Path(__file__).parents[4] / "shared" / "data" / "tau_bench" / "airline"
needs_data = pytest.mark.skipif(not AIRLINE.is_dir(), reason="the logged conversations are not beside the repository")


def call(name: str, arguments: object, identity: str = "c1") -> dict:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def result(**changes) -> dict:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call("get_user", {"id": 1})]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_user", "content": "Error: user not found"},
        {"role": "assistant", "content": "who are you?"},
        {"role": "user", "content": "bye ###STOP###"},
    ]
    task = {"user_id": "u", "instruction": "ask", "actions": [{"name": "get_user", "kwargs": {"id": 1}}], "outputs": []}
    return {"task_id": 3, "trial": 0, "reward": 1.0, "traj": messages, "info": {"task": task}} | changes


@pytest.fixture(scope="module")
def airline(tmp_path_factory) -> Log:
    out = tmp_path_factory.mktemp("logs") / "airline"
    found = tau_bench.read([AIRLINE / "trajectories_gpt4o.jsonl.gz"], None, "desk")
    write(out, found.about, found.tasks, found.trajectories)
    return Log.open(out)


@needs_data
def test_the_airline_log_comes_whole(airline: Log):
    trajectories = airline.trajectories()
    assert len(trajectories) == 200
    assert len({t.task for t in trajectories}) == len({t.group for t in trajectories}) == 50
    assert sum(t.ledger.turns for t in trajectories) == 2454
    assert sum(t.measures["desk.verified"] for t in trajectories) == 84
    assert sum(t.finish == "transferred" for t in trajectories) == 48
    for t in trajectories:
        assert t.ledger.turns == sum(m.role == "agent" for m in t.dialogue)
        assert airline.task(t).id == t.task
    errors = [m for t in trajectories for m in t.dialogue if m.role == "tool" and m.status == "error"]
    assert len(errors) == 73


@needs_data
def test_an_imported_ledger_has_turns_and_no_token(airline: Log):
    trajectories = airline.trajectories()
    assert all(len(t.ledger) == 0 and not t.ledger.mask().any() for t in trajectories)
    assert all(span.version == -1 for t in trajectories for span in t.ledger.spans)
    batch, _ = ragged(trajectories, [])
    assert int(batch.token_offsets[-1]) == 0
    assert int(batch.turn_offsets[-1]) == 2454
    assert np.array_equal(np.diff(batch.group_offsets), np.full(50, 4))


@needs_data
def test_write_tools_are_the_six_that_change_the_database(airline: Log):
    """By the hashes: a task whose gold calls have none of them ends where it began, every other one elsewhere, and
    each of the six is among the gold calls."""
    writes = tau_bench.WRITES["airline"]
    tasks = {airline.task(t).id: airline.task(t) for t in airline.trajectories()}
    names = {call.name for task in tasks.values() for call in task.gold}
    assert len(writes) == 6
    assert writes <= names
    for task in tasks.values():
        changes = task.payload["reference_hash"] != task.payload["initial_hash"]
        assert changes == any(call.name in writes for call in task.gold)
    wrote = {t.dialogue[i - 1].call.name for t in airline.trajectories() for i, m in enumerate(t.dialogue) if m.wrote
             and m.role == "tool"}  # fmt: skip
    assert wrote == writes


def test_a_result_of_the_benchmark_itself_brings_its_task(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([result(), result(trial=1, reward=0.0)]))
    found = tau_bench.read([path], None, "shop")
    first, second = found.trajectories
    assert (first.group, first.finish, first.measures) == (3, "user_done", {"shop.verified": 1})
    assert second.key == "import/0/3/1"
    assert found.tasks[0].gold == (Call("get_user", {"id": 1}),)
    assert [m.role for m in first.dialogue] == ["user", "agent", "tool", "agent", "user"]
    assert first.dialogue[1].status == first.dialogue[2].status == "error"
    assert found.about["system"] == "be kind"


def test_a_crashed_trial_is_a_failed_trajectory(tmp_path: Path):
    path = tmp_path / "results.json"
    broken = result(reward=0.0, traj=[])
    broken["info"]["error"] = "timeout"
    path.write_text(json.dumps([broken]))
    (only,) = tau_bench.read([path], None, "desk").trajectories
    assert only.failure == "env: timeout"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1 is no JSON"),
        ("[1]", "no object"),
        (json.dumps([result(reward=0.5)]), "not 0 or 1"),
        (json.dumps([result(info={})]), "no gold calls"),
        (json.dumps([result(task_id="x")]), "`task_id`"),
        (json.dumps([result(traj=[{"role": "tool", "tool_call_id": "c9", "content": ""}])]), "not open"),
        (json.dumps([result(traj=[{"role": "narrator"}])]), "no role"),
    ],
)
def test_what_is_no_result_is_refused_and_nothing_is_written(tmp_path: Path, text: str, why: str):
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    found = CliRunner().invoke(import_, ["tau-bench", str(path), "-o", str(tmp_path / "log")])
    assert isinstance(found.exception, Refusal)
    assert found.exception.code == "RLC0711"
    assert why in found.exception.reason
    assert not (tmp_path / "log").exists()


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(Refusal, match="RLC0701"):
        openai.read([tmp_path / "none.json"], "desk", frozenset())
    torn = tmp_path / "torn.json.gz"
    torn.write_bytes(gzip.compress(b"[]")[:-6])
    with pytest.raises(Refusal, match="RLC0711"):
        openai.read([torn], "desk", frozenset())
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mine.txt").write_text("keep")
    with pytest.raises(Refusal, match="RLC0702"):
        write(tmp_path / "log", {}, [], [])
    with pytest.raises(Refusal, match="RLC0705"):
        Log.open(tmp_path)


def test_several_calls_of_a_message_are_split_or_the_first_is_kept():
    messages = [
        {"role": "assistant", "content": "two", "tool_calls": [call("a", {}, "1"), call("b", {"x": 1}, "2")]},
        {"role": "tool", "tool_call_id": "2", "content": "B"},
        {"role": "tool", "tool_call_id": "1", "content": "A"},
    ]
    split = dialogue(messages, Reading(frozenset({"b"}), "split"))
    assert [(m.role, m.text, m.wrote) for m in split.dialogue] == [
        ("agent", "two", False),
        ("tool", "A", False),
        ("agent", "", True),
        ("tool", "B", True),
    ]
    assert split.extra_calls == 1
    first = dialogue(messages, Reading(calls="first"))
    assert [m.text for m in first.dialogue] == ["two", "A"]


def test_arguments_that_are_no_object_make_a_malformed_turn():
    for arguments in ("{", "[1]", '"x"'):
        (message,) = dialogue([{"role": "assistant", "tool_calls": [call("a", arguments)]}], Reading()).dialogue
        assert message.malformed
        assert message.call is None


def test_ids_of_calls_may_come_again():
    once = [
        {"role": "assistant", "tool_calls": [call("a", {"n": 1})]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "assistant", "tool_calls": [call("a", {"n": 2})]},
        {"role": "tool", "tool_call_id": "c1", "content": "two"},
    ]
    assert [m.text for m in dialogue(once, Reading()).dialogue if m.role == "tool"] == ["one", "two"]
    with pytest.raises(Unreadable, match="not open"):
        dialogue([*once, once[-1]], Reading())


@pytest.mark.parametrize(
    ("text", "status"),
    [("Error: no", "error"), ('{"error": "no"}', "error"), ('{"error": null}', "ok"), ("{ok}", "ok"), ("fine", "ok")],
)
def test_how_an_error_is_told(text: str, status: str):
    assert status_of(text) == status


def test_openai_records_bring_what_they_know(tmp_path: Path):
    talk = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]},
                         {"role": "assistant", "content": "hello"}]}  # fmt: skip
    judged = talk | {"task": "t", "reward": 1, "gold": [{"name": "a", "arguments": {"x": 1}}]}
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(map(json.dumps, [judged, judged | {"reward": 0}, talk])))
    out = tmp_path / "log"
    found = CliRunner().invoke(import_, ["openai", str(path), "-o", str(out), "--env", "talks"], catch_exceptions=False)
    assert "3 conversations of 2 tasks, 3 turns, no tokens" in found.output
    log = Log.open(out)
    trajectories = log.trajectories()
    assert [(t.task, t.group, t.measures) for t in trajectories] == [
        ("t", 0, {"talks.verified": 1}),
        ("t", 0, {"talks.verified": 0}),
        ("talks.jsonl:2", 1, {}),
    ]
    assert log.task(trajectories[0]).gold == (Call("a", {"x": 1}),)


def test_what_is_no_set_of_results_is_refused_and_nothing_is_written(tmp_path: Path):
    odd = {
        "[]": "no conversation",
        "": "no conversation",
        json.dumps([result(), result()]): "trial 0 is there twice",
        json.dumps([result(traj=3)]): "no list of messages",
        json.dumps([result(traj=[{"role": "assistant", "tool_calls": 3}])]): "no list",
        json.dumps([result(info={"task": {"instruction": "x", "actions": [{"name": "a"}]}})]): "`kwargs`",
        json.dumps([result(info={"task": {"instruction": "x", "outputs": [1]}})]): "list of texts",
        "[" * 100_000: "too deeply",
    }
    for text, words in odd.items():
        (tmp_path / "results.json").write_text(text)
        done = CliRunner().invoke(import_, ["tau-bench", str(tmp_path / "results.json"), "-o", str(tmp_path / "o")])
        assert isinstance(done.exception, Refusal), (text[:60], done.exception)
        assert words in str(done.exception)
        assert not (tmp_path / "o").exists()


def test_a_list_of_tasks_is_read_as_well_as_an_object_with_them(tmp_path: Path):
    entry = {"instruction": "x", "actions": [{"name": "return_delivered_order_items", "kwargs": {"order_id": "#W1"}}]}
    (tmp_path / "results.json").write_text(json.dumps([result(task_id=1, info={})]))
    for body in ([{**entry, "actions": []}, entry], {"tasks": [{**entry, "actions": []}, entry]}, {"tasks": 3}):
        (tmp_path / "t.json").write_text(json.dumps(body))
        if body == {"tasks": 3}:
            with pytest.raises(Refusal, match="no list of objects"):
                tau_bench.read([tmp_path / "results.json"], tmp_path / "t.json", "desk")
        else:
            found = tau_bench.read([tmp_path / "results.json"], tmp_path / "t.json", "desk")
            assert [call.name for call in found.tasks[0].gold] == ["return_delivered_order_items"]


def test_retail_results_are_read_where_a_user_has_them(tmp_path: Path):
    call = {"name": "cancel_pending_order", "arguments": '{"order_id": "#W1"}'}
    talk = [
        {"role": "user", "content": "cancel #W1"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"status": "cancelled"}'},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "###STOP###"},
    ]
    gold = [{"name": "cancel_pending_order", "kwargs": {"order_id": "#W1"}}]
    (tmp_path / "r.json").write_text(
        json.dumps([result(traj=talk, info={"task": {"instruction": "x", "actions": gold}})])
    )
    found = tau_bench.read([tmp_path / "r.json"], None, "desk")
    said = [m for m in found.trajectories[0].dialogue if m.call is not None]
    assert (said[0].wrote, found.trajectories[0].finish) == (True, "user_done")
