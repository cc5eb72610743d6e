"""Names that are drawn for every task: new ones each time, the same on every call, and own ones are unknown."""

from __future__ import annotations

import json

import pytest

from rlspec.compiler.catalog.codegym import Gym, Synthesis
from rlspec.runtime.worlds.codegym.environment import Environment
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems
from rlspec.runtime.worlds.codegym.synthesis import synthesise
from rlspec.runtime.worlds.codegym.world import GymWorld
from rlspec.runtime.worlds.protocol import Call


@pytest.fixture(scope="module")
def environments() -> list[Environment]:
    some = [p for p in read_problems(SHIPPED) if p.id == "total.double"]
    return synthesise(Synthesis.model_validate({"configurations": 9, "admit": {"attempts": 0}}), some).environments


@pytest.mark.parametrize("docs", ["names", "signatures", "schemas"])
def test_the_task_tells_the_drawn_names_and_its_solution_uses_them(environments: list[Environment], docs: str) -> None:
    gym = GymWorld(Gym(source="envs", tool_names="drawn", tool_docs=docs), environments)  # type: ignore[call-arg,arg-type]
    plain = GymWorld(Gym(source="envs", tool_docs=docs), environments)  # type: ignore[call-arg,arg-type]
    drawn = set()
    for number in range(4):
        task, other = gym.task("train", number), plain.task("train", number)
        assert task == gym.task("train", number)
        names = task.payload["names"]
        assert set(names) == {"double", "add"}
        assert other.payload["names"] == {}
        drawn.add(tuple(names.values()))
        told = task.instruction + json.dumps(task.tools)
        assert all(name in told for name in names.values())
        assert "double (" not in told
        assert {call.name for call in task.gold} == {"count_numbers", "get_numbers", "Done", *names.values()}
        session, without = gym.reset(task), plain.reset(other)
        for call, own in zip(task.gold, other.gold, strict=True):
            assert session.step(call) == without.step(own)
        assert session.measure() == without.measure()
    assert len(drawn) > 1


def test_own_names_are_unknown_also_in_a_fork(environments: list[Environment]) -> None:
    gym = GymWorld(Gym(source="envs", tool_names="drawn"), environments)  # type: ignore[call-arg]
    task = gym.task("train", 0)
    session = gym.reset(task).fork()
    assert session.step(Call("double", {"x": 3})).text == "error : unknown tool"
    assert session.step(Call(task.payload["names"]["double"], {"x": 3})).text == "6"


def test_recorded_conversations_have_own_names() -> None:
    with pytest.raises(ValueError, match="by their own names"):
        Gym(source="envs", tool_names="drawn", distilled="talks.jsonl")  # type: ignore[call-arg]
