"""Tasks: the same for the same number, splits that share nothing, gold that works, and no task for idlers."""

from __future__ import annotations

import dataclasses

import pytest

from rlspec.compiler.catalog.shop import Shop
from rlspec.runtime.worlds.shop import make_world
from rlspec.runtime.worlds.shop.tasks import LEVELS, split_of, subject
from rlspec.runtime.worlds.shop.wishes import Wish

DIFFICULTIES = range(len(LEVELS))


def wishes(task) -> list[Wish]:
    return [Wish.read(plain) for plain in task.payload["wishes"]]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_a_number_always_gives_the_same_task(difficulty):
    one, other = make_world(Shop(difficulty=difficulty)), make_world(Shop(difficulty=difficulty))
    later = [one.task("train", number) for number in range(20)][7]
    assert later == other.task("train", 7)
    assert one.task("train", 7) != one.task("train", 8)
    assert one.task("train", 7) != make_world(Shop(difficulty=difficulty, seed=1)).task("train", 7)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_gold_calls_solve_the_task_and_nothing_done_does_not(difficulty):
    world = make_world(Shop(difficulty=difficulty))
    for split in ("train", "test"):
        for number in range(30):
            task = world.task(split, number)
            session = world.reset(task)
            assert session.measure()["verified"] == 0
            for call in task.gold:
                assert session.step(call).status == "ok"
            assert session.measure()["verified"] == 1
            session.close()


def test_splits_are_disjoint_in_content_under_any_seed():
    subjects: dict[str, set[str]] = {"train": set(), "test": set()}
    ids = []
    for seed in range(3):
        config = Shop(seed=seed, difficulty=0)  # the fewest possible contents, so the most likely to meet
        for split, seen in subjects.items():
            for number in range(60):
                task = make_world(config).task(split, number)
                about = subject(task.payload["name"], wishes(task))
                assert split_of(config, about) == split
                seen.add(about)
                ids.append((seed, task.id))
    assert not subjects["train"] & subjects["test"]
    assert len(set(ids)) == len(ids)


def test_only_the_named_intents_are_wanted():
    world = make_world(Shop(difficulty=1, intents=("recolour", "refund")))
    wanted = {wish.intent for number in range(40) for wish in wishes(world.task("train", number))}
    assert wanted == {"recolour", "refund"}
    with pytest.raises(ValueError, match="difficulty 0 has no refund"):
        Shop(difficulty=0, intents=("recolour", "refund"))
    with pytest.raises(ValueError, match="cannot both be about the card"):
        Shop(difficulty=3, intents=("card",))


def test_an_unknown_split_or_number_is_refused():
    with pytest.raises(ValueError, match="splits are train, test"):
        make_world(Shop()).task("validation", 0)
    with pytest.raises(ValueError, match="numbers start at 0"):
        make_world(Shop()).task("train", -1)


def test_difficulty_is_a_dial():
    seen = []
    for difficulty, level in enumerate(LEVELS):
        world = make_world(Shop(difficulty=difficulty))
        tasks = [world.task("train", number) for number in range(100)]
        intents = {wish.intent for task in tasks for wish in wishes(task)}
        assert intents == set(level.intents)
        for task in tasks:
            assert level.wishes[0] <= len(wishes(task)) <= level.wishes[1]
            user = wishes(task)[0].user
            assert sum(row[1] == user for row in task.payload["rows"]["orders"]) == level.orders
            thoughts = sum(bool(wish.thought) for wish in wishes(task))
            assert thoughts == (len(wishes(task)) if level.every_wish_has_a_thought else 1)
        seen.append(sum(len(task.gold) for task in tasks))
    assert seen[0] < seen[1] < seen[3]


def test_the_share_of_second_requests_is_the_declared_one():
    for share in (0.0, 0.3, 1.0):
        world = make_world(Shop(second_request=share))
        two = sum(len(wishes(world.task("train", number))) == 2 for number in range(250)) / 250
        assert abs(two - share) < 0.1


def test_a_first_thought_differs_in_its_slot_and_could_be_served():
    world = make_world(Shop(difficulty=2))
    kinds = set()
    for number in range(100):
        task = world.task("train", number)
        for wish in wishes(task):
            if not wish.thought:
                continue
            first = wish.at_first()
            kinds.add(wish.thought)
            changed = {
                field.name
                for field in dataclasses.fields(wish)
                if getattr(wish, field.name) != getattr(first, field.name)
            }
            assert changed
            assert changed <= ({"value"} if wish.thought == "value" else {"order", "item"})
            orders = {row[0]: row for row in task.payload["rows"]["orders"]}
            if first.has_target:
                _, _, status, method, *_ = orders[first.order]
                first = dataclasses.replace(first, status=status, method=method)
            session = world.reset(task)
            session.step(task.gold[0])
            assert session.step(first.write()).status == "ok"
            session.close()
    assert kinds == {"target", "value"}


def test_the_instruction_tells_all_wishes():
    world = make_world(Shop(difficulty=3))
    for number in range(30):
        task = world.task("test", number)
        assert task.payload["name"] in task.instruction
        for wish in wishes(task):
            assert wish.in_words() in task.instruction
            assert wish.at_first().in_words() in task.instruction
