"""Tasks, splits, sessions and demonstrations of synthesised environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlspec.compiler.catalog.codegym import Gym, Synthesis
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.codegym.environment import Environment
from rlspec.runtime.worlds.codegym.envstring import read
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems
from rlspec.runtime.worlds.codegym.shown import oracle, recorded
from rlspec.runtime.worlds.codegym.synthesis import synthesise
from rlspec.runtime.worlds.codegym.world import GymWorld
from rlspec.runtime.worlds.protocol import Call

CHOSEN = ("total.double", "stack.add", "bank.plain_first", "search.double_is_big")


@pytest.fixture(scope="module")
def environments() -> list[Environment]:
    some = [p for p in read_problems(SHIPPED) if p.id in CHOSEN]
    return synthesise(Synthesis.model_validate({"configurations": 12, "admit": {"attempts": 0}}), some).environments


def world(environments: list[Environment], **fields: Any) -> GymWorld:
    return GymWorld(Gym.model_validate({"source": "envs", **fields}), environments)


def test_every_oracle_trajectory_earns_the_reward_step_by_step(environments: list[Environment]) -> None:
    gym = world(environments)
    for number in range(4):
        task = gym.task("train", number)
        session = gym.reset(task)
        seen = [session.step(call) for call in task.gold]
        shown = [m.text for m in gym.demonstration(task) if m.role == "tool"]
        assert [o.text for o in seen[:-1]] == shown
        assert seen[-1].ends
        found = session.measure()
        assert (found["verified"], found["errors"], found["calls"]) == (1, 0, len(task.gold))
        session.close()


def test_doing_nothing_and_answering_wrongly_earn_nothing(environments: list[Environment]) -> None:
    gym = world(environments)
    task = gym.task("train", 0)
    session = gym.reset(task)
    assert session.measure()["verified"] == 0
    fork = session.fork()
    fork.step(Call("Done", {"answer": task.payload["reference"] + 1}))
    fork.step(Call("Done", {"answer": task.payload["reference"]}))
    assert (fork.measure()["verified"], fork.measure()["submitted"]) == (0, 1)
    session.step(Call("Done", {"answer": task.payload["reference"]}))
    assert session.measure()["verified"] == 1


def test_splits_are_disjoint_and_every_task_comes_once_per_pass(environments: list[Environment]) -> None:
    gym = world(environments)
    train = [t.payload["env_string"] for t in gym.all_tasks("train")]
    test = [t.payload["env_string"] for t in gym.all_tasks("test")]
    assert train
    assert test
    assert len(set(train)) == len(train)
    assert not set(train) & set(test)
    again = [gym.task("train", gym.size("train") + n).payload["env_string"] for n in range(len(train))]
    assert sorted(again) == sorted(train)
    assert again != train
    assert gym.task("train", 3) == world(environments).task("train", 3)
    assert read(train[0]).configuration


def test_families_are_chosen_and_left_out(environments: list[Environment]) -> None:
    assert set(world(environments, held_out=["search"]).environments) == set(CHOSEN) - {"search.double_is_big"}
    assert set(world(environments, families=["search"]).environments) == {"search.double_is_big"}
    assert len(world(environments, most_environments=2).environments) == 2
    with pytest.raises(Refusal, match=r"bank, search, stack, total"):
        world(environments, families=["nothing"])


@pytest.mark.parametrize("docs", ["schemas", "signatures", "names"])
def test_tools_are_told_in_three_ways_and_no_input_is(environments: list[Environment], docs: str) -> None:
    task = world(environments, tool_docs=docs, families=["total"]).task("train", 0)
    assert (task.tools is not None) == (docs == "schemas")
    told = json.dumps(task.tools) + task.instruction
    assert "get_numbers" in told
    assert "Done" in told
    assert str(read(task.payload["env_string"]).configuration["numbers"]) not in told
    assert ("Args:" in task.instruction) == (docs == "signatures")


def test_inputs_stand_in_the_task_where_they_are_not_hidden(environments: list[Environment]) -> None:
    shown = [e.model_copy(update={"hide_inputs": False}) for e in environments]
    task = world(shown, families=["total"]).task("train", 0)
    assert str(read(task.payload["env_string"]).configuration["numbers"]) in task.instruction


def test_slips_are_repaired(environments: list[Environment]) -> None:
    gym = world(environments)
    task = gym.task("train", 0)
    plain = gym.demonstration(task)
    assert oracle(gym, task, 0.0, stream(0, "x")) == plain
    slipped = oracle(gym, task, 1.0, stream(0, "x"))
    place = next(n for n, (a, b) in enumerate(zip(plain, slipped, strict=False)) if a != b)
    assert slipped[place].call is not None
    assert slipped[place + 1].text == "error : unknown tool"
    assert [*slipped[:place], *slipped[place + 2 :]] == plain
    session = gym.reset(task)
    for message in slipped[1 : place + 1]:
        last = session.step(message.call) if message.call is not None else None
    assert last is not None
    assert last.text == slipped[place + 1].text


def conversation(gym: GymWorld, split: str, number: int, answer: int | None = None) -> str:
    task = gym.task(split, number)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for message in gym.demonstration(task)[1:]:
        if message.call is None:
            messages.append({"role": "tool", "content": message.text})
            continue
        given = dict(message.call.arguments)
        if message.call.name == "Done" and answer is not None:
            given["answer"] = answer
        function = {"name": message.call.name, "arguments": json.dumps(given)}
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        )
    return json.dumps({"env_string": task.payload["env_string"], "messages": messages})


def test_recorded_conversations_count_when_they_solve_a_training_task(
    environments: list[Environment], tmp_path: Path
) -> None:
    gym = world(environments)
    path = tmp_path / "talks.jsonl"
    lines = [conversation(gym, "train", 0), conversation(gym, "train", 1, answer=-999), conversation(gym, "test", 0)]
    path.write_text("\n".join(lines) + "\n")
    ((task, dialogue),) = recorded(gym, path)
    assert task.payload["env_string"] == gym.task("train", 0).payload["env_string"]
    assert [m.call for m in dialogue if m.call is not None] == list(task.gold)
    path.write_text(lines[1])
    with pytest.raises(Refusal, match="none solves"):
        recorded(gym, path)
    path.write_text('{"env_string": "x"}')
    with pytest.raises(Refusal, match="line 1"):
        recorded(gym, path)


def test_draws_are_arrays_of_no_global_generator(environments: list[Environment]) -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[union-attr, index]
    world(environments).task("test", 1)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]
