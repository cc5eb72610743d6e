"""tau-bench's airline desk against the benchmark's own data: hashes, logged answers, logged verdicts, the floor."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import pytest

from rlspec.compiler.catalog.papers import TauBench
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call
from rlspec.runtime.worlds.tau_bench.airline import WRITING
from rlspec.runtime.worlds.tau_bench.database import Database, Original, whole_hash
from rlspec.runtime.worlds.tau_bench.world import TauBenchWorld, floor

DATA = Path(__file__).parents[4] / "shared" / "data" / "tau_bench"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the benchmark's data is not there")


def world_of(**fields):
    return TauBenchWorld(TauBench(domain=("airline",), split="test", source=str(DATA), **fields))


@pytest.fixture(scope="module")
def world():
    return world_of()


def test_the_first_database_has_the_benchmarks_hash(world):
    stated = json.loads((DATA / "airline" / "tasks.json").read_text())["initial_hash"]
    original = world.domains[0].original
    assert whole_hash(original.tables) == Database(original).hash() == stated


def test_gold_calls_leave_the_stated_hashes_and_say_what_is_stated(world):
    for number in range(len(world)):
        task = world.task("train", number)
        session = world.reset(task)
        said = [session.step(call).text for call in task.gold]
        assert said == world.domains[0].tasks[number]["gold_observations"]
        assert session.measure()["verified"] == 1, task.id


def test_logged_conversations_get_the_logged_answers_and_verdicts(world):
    with gzip.open(DATA / "airline" / "trajectories_gpt4o.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    answers = agreeing = 0
    for record in records:
        session, calls = world.reset(world.task("test", record["task_id"])), {}
        for message in record["messages"]:
            calls |= {c["id"]: c["function"] for c in message.get("tool_calls") or []}
            if message["role"] == "assistant" and message.get("content"):
                session.hear(message["content"])
            if message["role"] == "tool":
                function = calls[message["tool_call_id"]]
                found = session.step(Call(function["name"], json.loads(function["arguments"]))).text
                # the log says `province` where the data says `state`
                assert found.replace('"state":', '"province":') == message["content"]
                answers += 1
        measured = session.measure()
        agreeing += int(measured["verified"] * measured["outputs_said"] == record["reward"])
    assert answers == 1164
    assert agreeing == 198  # the other two were cut off, which pays nothing there


def test_a_policy_that_does_nothing_solves_two_fifths(world):
    assert floor(world) == {"airline": 0.4}
    left_alone = [world.reset(world.task("test", number)).measure() for number in range(len(world))]
    assert sum(found["floor"] for found in left_alone) == 20
    assert all(found["floor"] == found["verified"] for found in left_alone)


def test_a_message_s_further_calls_are_never_run():
    with pytest.raises(Refusal, match="RLC0601"):
        world_of(calls_per_message="all")


def test_errors_and_odd_arguments_leave_the_database_alone(world):
    session = world.reset(world.task("test", 0))
    first = session.measure()["db_hash"]
    for call in (
        Call("cancel_reservation", {"reservation_id": "NONE"}),
        Call("cancel_reservation", {}),
        Call("book_reservation", {"user_id": []}),
        Call("update_reservation_flights", {"reservation_id": "4WQ150", "cabin": 3, "flights": "x", "payment_id": "y"}),
        Call("calculate", {"expression": "__import__('os')"}),
        Call("calculate", {"expression": "2 ** 9 ** 9"}),
        Call("nothing", {}),
    ):
        assert session.step(call).status == "error"
    assert session.measure()["db_hash"] == first


def test_what_was_cut_off_is_paid_or_not_as_declared():
    for paid in (True, False):
        world = world_of(reward_truncated=paid)
        tasks = [world.task("test", number) for number in range(len(world))]
        task = next(t for t in tasks if t.payload["initial_hash"] == t.payload["reference_hash"])
        session = world.reset(task)
        session.cut()
        assert session.measure()["verified"] == int(paid)


def test_the_two_verifiers_differ_on_a_write_that_is_undone():
    world = world_of(verifier="write_operations")
    tasks = [world.task("test", number) for number in range(len(world))]
    task = next(t for t in tasks if not any(call.name in WRITING for call in t.gold))
    reservations = world.domains[0].original.tables["reservations"]
    number, record = next((k, r) for k, r in reservations.items() if len(r["passengers"]) == 1)
    other = [{"first_name": "A", "last_name": "B", "dob": "1990-01-01"}]
    session = world.reset(task)
    for passengers in (other, copy.deepcopy(record["passengers"])):
        session.step(Call("update_reservation_passengers", {"reservation_id": number, "passengers": passengers}))
    found = session.measure()
    assert found["db_hash"] == found["reference_hash"]
    assert found["verified"] == 0


def test_forks_share_nothing(world):
    session = world.reset(world.task("test", 0))
    other = session.fork()
    other.step(Call("cancel_reservation", {"reservation_id": "4WQ150"}))
    assert session.measure()["db_hash"] != other.measure()["db_hash"]


def test_hash_is_of_nested_sorted_tuples():
    tables = {"b": {"y": {"n": [1, 2]}, "x": {}}, "a": {"z": {"k": {"d": 1, "c": "1"}}}}
    again = {"a": {"z": {"k": {"c": "1", "d": 1}}}, "b": {"x": {}, "y": {"n": [1, 2]}}}
    assert Database(Original(tables)).hash() == whole_hash(tables) == whole_hash(again)
    assert whole_hash({"b": {"y": {"n": [2, 1]}, "x": {}}, "a": tables["a"]}) != whole_hash(tables)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refusal) as refused:
        TauBenchWorld(TauBench(domain=("airline",), split="test", source=str(tmp_path)))
    assert refused.value.code == "RLC0701"
    with pytest.raises(Refusal) as refused:
        TauBenchWorld(TauBench(domain=("retail",), split="test", source=str(DATA)))
    assert refused.value.code == "RLC0601"
    with pytest.raises(Refusal, match="no train split") as refused:
        TauBenchWorld(TauBench(domain=("airline",), split="train", source=str(DATA)))
    assert refused.value.code == "RLC0505"
