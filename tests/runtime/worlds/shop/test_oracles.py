"""Demonstrators: the good one always succeeds, the others fall short, and all use only what they were told or saw."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.shop import make_user, make_world
from rlspec.runtime.worlds.shop.demonstrations import demonstrate, demonstrations
from rlspec.runtime.worlds.shop.hearing import hear
from rlspec.runtime.worlds.shop.lexicon import KIND_OF
from rlspec.runtime.worlds.shop.oracles import STYLES, Style
from rlspec.runtime.worlds.shop.survey import tokens, turns

SETS = [("train", "train"), ("train", "held_out"), ("test", "train"), ("test", "held_out")]


@cache
def world_of(difficulty: int):
    return make_world(Shop(difficulty=difficulty))


@cache
def task_of(difficulty: int, split: str, number: int):
    return world_of(difficulty).task(split, number)


def run(style: Style, count: int = 200, split: str = "train", phrasing: str = "train", difficulty: int = 1, **user):
    world, users = world_of(difficulty), make_user(AgendaUser(**user), Shop())
    return [
        demonstrate(world, users, task_of(difficulty, split, number), style, stream(3, number), phrasing)
        for number in range(count)
    ]


def success(talks) -> float:
    return fmean(verified for _, _, verified in talks)


@pytest.mark.parametrize(("split", "phrasing"), SETS)
def test_who_asks_for_a_yes_succeeds(split, phrasing):
    talks = run("confirm", split=split, phrasing=phrasing)
    assert success(talks) >= 0.99
    assert all(finish == "user_done" for _, finish, _ in talks)


@pytest.mark.parametrize("difficulty", [0, 2, 3])
def test_who_asks_for_a_yes_succeeds_at_every_difficulty(difficulty):
    assert success(run("confirm", difficulty=difficulty, count=100)) >= 0.99


def test_haste_costs_half_of_the_talks():
    assert 0.36 <= success(run("hasty", 300)) <= 0.6  # 0.45 over many talks, with a standard error of 0.03 over 300


def test_haste_costs_nothing_with_users_who_know_what_they_want():
    assert success(run("hasty", 100, changes_mind=0.0)) == 1.0


def test_leaving_early_costs_more():
    assert success(run("early", 150)) < success(run("hasty", 150)) - 0.05
    assert success(run("absent", 50)) == 0.0


def test_talks_are_short():
    talks = [talk for talk, _, _ in run("confirm")]
    assert 8 <= fmean(map(turns, talks)) <= 12
    assert max(map(turns, talks)) <= 16
    assert fmean(map(tokens, talks)) <= 150


def test_a_demonstrator_only_uses_what_it_was_told_or_saw():
    for style in STYLES:
        for difficulty in (1, 2, 3):
            for talk, _, _ in run(style, 30, difficulty=difficulty):
                known: set[str] = set()
                for message in talk:
                    words = {word for found in hear(message.text).mentions.values() for word in found}
                    if message.role != "agent":
                        known |= words
                        continue
                    used = set(message.call.arguments.values()) if message.call else words
                    assert {word for word in used if word.lower() in KIND_OF} <= known


def test_a_confirming_demonstrator_never_writes_without_a_yes():
    for talk, _, _ in run("confirm", 100, difficulty=2):
        agreed = False
        for asked, answer in pairwise(talk):
            if asked.role == "agent" and asked.call is None and hear(asked.text).act == "confirm":
                agreed = not hear(answer.text).mentions
            if answer.wrote:
                assert agreed
                agreed = False


def test_demonstrations_are_the_declared_mixture():
    mixture = Demonstrators(confirm=0.3, early=0.4, leaves=0.5, changed=0.2, repair=0.0)
    shown = demonstrations(Shop(), AgendaUser(), mixture, 400, seed=1)
    share: dict[str, float] = {style: count / 400 for style, count in Counter(one.style for one in shown).items()}
    for style, expected in {"confirm": 0.3, "hasty": 0.3, "early": 0.2, "absent": 0.2}.items():
        assert abs(share[style] - expected) < 0.08
    assert abs(fmean(one.may_change for one in shown) - 0.2) < 0.08
    assert not any(message.status == "error" for one in shown if not one.may_change for message in one.dialogue)


def test_the_mixture_met_with_live_users_is_weak():
    mixture = Demonstrators(changed=AgendaUser().changes_mind)
    shown = demonstrations(Shop(), AgendaUser(), mixture, 300, seed=2)
    assert 0.3 <= fmean(one.verified for one in shown) <= 0.5


def test_faulty_calls_are_repaired_at_once():
    mixture = Demonstrators(confirm=1.0, early=0.0, changed=0.0, repair=1.0)
    shown = demonstrations(Shop(), AgendaUser(), mixture, 150, seed=3)
    assert all(one.verified for one in shown)
    faulty = [one for one in shown if any(message.status == "error" for message in one.dialogue)]
    assert len(faulty) > 50
    for one in faulty:
        assert sum(message.status == "error" for message in one.dialogue) == 1


def test_who_resigns_says_goodbye_at_the_error_and_the_others_are_as_before():
    mixture = Demonstrators(confirm=0.0, early=0.0, changed=0.0, repair=1.0)
    some = mixture.model_copy(update={"resigns": 0.5})
    before, after = (demonstrations(Shop(), AgendaUser(), m, 100, seed=3) for m in (mixture, some))
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one.dialogue != other.dialogue]
    assert 20 < len(changed) < 80
    for one, other in changed:
        error = next(place for place, message in enumerate(other.dialogue) if message.status == "error")
        assert other.dialogue[: error + 1] == one.dialogue[: error + 1]
        assert other.dialogue[error + 1].text == "bye"
        assert one.verified
        assert not other.verified


def test_demonstrations_are_the_same_for_the_same_seed_and_in_any_part():
    arguments = (Shop(), AgendaUser(), Demonstrators())
    one = demonstrations(*arguments, 30, seed=4)
    assert one == demonstrations(*arguments, 30, seed=4)
    assert one[20:] == demonstrations(*arguments, 10, seed=4, first=20)
    assert one != demonstrations(*arguments, 30, seed=5)


def test_a_demonstrator_goes_on_after_an_unexpected_refusal():
    talks = run("hasty")
    errors = [sum(message.status == "error" for message in dialogue) for dialogue, _, _ in talks]
    assert set(errors) == {0, 1}
    assert all(finish == "user_done" for _, finish, _ in talks)


def test_shares_that_exceed_the_whole_are_refused():
    with pytest.raises(ValueError, match="more than 1"):
        Demonstrators(confirm=0.7, early=0.4)
