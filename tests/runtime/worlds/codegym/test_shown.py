"""Demonstrations with habits: a guess before the end, a wrong name that is repaired."""

from __future__ import annotations

import pytest

from rlspec.compiler.catalog.codegym import Gym, Synthesis
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.codegym.environment import Environment
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems
from rlspec.runtime.worlds.codegym.shown import oracle
from rlspec.runtime.worlds.codegym.synthesis import synthesise
from rlspec.runtime.worlds.codegym.world import GymWorld


@pytest.fixture(scope="module")
def environments() -> list[Environment]:
    some = [p for p in read_problems(SHIPPED) if p.id == "total.double"]
    return synthesise(Synthesis.model_validate({"configurations": 9, "admit": {"attempts": 0}}), some).environments


def test_a_guess_is_something_seen_after_a_part_of_the_solution(environments: list[Environment]) -> None:
    gym = GymWorld(Gym(source="envs"), environments)  # type: ignore[call-arg]
    cuts = set()
    for number in range(6):
        task = gym.task("train", number)
        whole = gym.demonstration(task)
        guessed = oracle(gym, task, 1.0, stream(0, "x", number), guesses=1.0)
        *before, last = guessed
        assert before == whole[: len(before)]
        assert len(guessed) < len(whole)
        assert last.call is not None
        assert last.call.name == "Done"
        assert str(last.call.arguments["answer"]) in {m.text for m in before if m.role == "tool"}
        assert oracle(gym, task, 0.0, stream(0, "x", number), guesses=0.0) == whole
        cuts.add(len(guessed))
    assert len(cuts) > 2


def test_a_slip_with_drawn_names_is_the_right_call_by_a_strange_name(environments: list[Environment]) -> None:
    gym = GymWorld(Gym(source="envs", tool_names="drawn"), environments)  # type: ignore[call-arg]
    for number in range(4):
        task = gym.task("train", number)
        slipped = oracle(gym, task, 1.0, stream(0, "x", number))
        place = next(n for n, m in enumerate(slipped) if m.status == "error") - 1
        wrong, right = slipped[place].call, slipped[place + 2].call
        assert wrong is not None
        assert right is not None
        assert wrong.arguments == right.arguments
        assert wrong.name not in task.instruction
        session = gym.reset(task)
        texts = [session.step(m.call).text for m in slipped[1::2] if m.call is not None]
        assert texts[:-1] == [m.text for m in slipped[2::2]]
        assert session.measure()["verified"] == 1
