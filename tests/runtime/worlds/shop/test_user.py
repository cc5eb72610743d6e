"""The agenda user: reveals in part, answers, changes its mind, rejects what is wrong, gets impatient, leaves."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.shop import AgendaUser, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Task
from rlspec.runtime.worlds.shop import make_user, make_world
from rlspec.runtime.worlds.shop.hearing import hear
from rlspec.runtime.worlds.shop.wishes import Wish

BASE = Wish("recolour", "W10", "mug", "blue", False, "pending", "visa", "u10", "value", first_value="green")


def task_of(*wishes: Wish) -> Task:
    """A task about two orders: W10 with a mug and a lamp, W11 with a desk."""
    rows = {
        "orders": [("W10", "u10", "pending", "visa", "oslo", 0, 0), ("W11", "u10", "pending", "amex", "oslo", 0, 0)],
        "order_items": [
            ("W10", "mug", "red", "bought"),
            ("W10", "lamp", "red", "bought"),
            ("W11", "desk", "red", "bought"),
        ],
    }
    return Task("t", "train", "", (), {"name": "anna", "rows": rows, "wishes": [wish.plain() for wish in wishes]})


def talk(*wishes: Wish, seed: int = 0, phrasing: str = "train", **fields):
    """A user of these wishes, after its first line."""
    quiet = {"reveal": 0.0, "changes_mind": 0.0, "volunteers": 0.0, "patience": 3}
    users = make_user(AgendaUser(**(quiet | fields)), Shop())
    user = users.open(task_of(*wishes), stream(seed, "user"), phrasing)
    user.first()
    return user


def mentions(text: str) -> set[str]:
    return {word for words in hear(text).mentions.values() for word in words}


@pytest.mark.parametrize("phrasing", ["train", "held_out"])
def test_it_answers_what_it_is_asked(phrasing):
    for seed in range(20):
        user = talk(BASE, seed=seed, phrasing=phrasing)
        assert mentions(user.reply("your name ?").text) == {"anna"}
        assert mentions(user.reply("Which item is it?").text) == {"mug"}
        assert mentions(user.reply("and in which colour do you want it ?").text) == {"blue"}
        assert user.measure()["useless"] == 0
        assert mentions(user.reply("name and item ?").text) == {"anna", "mug"}


def test_it_reveals_each_detail_at_the_declared_rate():
    world = make_world(Shop())
    users = make_user(AgendaUser(reveal=0.35), Shop())
    named, slots, possible = [], 0, 0
    for number in range(300):
        task = world.task("train", number)
        wish = Wish.read(task.payload["wishes"][0])
        found = hear(users.open(task, stream(1, number)).first().text).mentions
        named.append("name" in found)
        slots += ("item" in found or "order" in found) + (wish.value_kind in found if wish.value_kind else 0)
        possible += 1 + bool(wish.value_kind)
    assert abs(fmean(named) - 0.35) < 0.09
    assert abs(slots / possible - 0.35) < 0.07


def test_it_agrees_to_what_it_wants_and_counts_it():
    user = talk(BASE)
    assert hear(user.reply("mug in blue , ok ?").text).has("yes", "ok", "right", "sure")
    assert user.measure()["confirmed"] == 1


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("lamp in blue , ok ?", "mug"),
        ("mug in green , ok ?", "blue"),
        ("W11 in blue , ok ?", "mug"),
        ("refund mug , ok ?", "mug"),
    ],
)
@pytest.mark.parametrize("phrasing", ["train", "held_out"])
def test_it_rejects_a_confirmation_of_wrong_things_and_says_the_right_one(text, right, phrasing):
    for seed in range(10):
        user = talk(BASE, seed=seed, phrasing=phrasing)
        answer = user.reply(text)
        assert hear(answer.text).has("no", "wrong")
        assert right in mentions(answer.text)
        assert user.measure()["rejected"] == 1
        assert user.measure()["confirmed"] == 0


def test_it_bears_with_other_true_things_and_other_wordings():
    text = "I will change the mug of order W10 from red to blue . Is that correct ?"
    user = talk(BASE)
    user.reply(text)
    assert user.measure()["confirmed"] == 1


def test_it_wants_to_know_what_it_agrees_to():
    user = talk(BASE)
    assert hear(user.reply("ok ?").text).has("exactly", "understand")
    assert user.measure()["useless"] == 1


@pytest.mark.parametrize("phrasing", ["train", "held_out"])
@pytest.mark.parametrize("occasion", ["mug in green , ok ?", "anything else ?"])
def test_a_change_of_mind_comes_out_when_asked_to_confirm_or_for_more(occasion, phrasing):
    for seed in range(10):
        user = talk(BASE, seed=seed, phrasing=phrasing, changes_mind=1.0)
        assert mentions(user.reply("which colour ?").text) == {"green"}
        turn = user.reply(occasion)
        assert mentions(turn.text) == {"blue"}
        assert not turn.done
        assert user.measure()["changed"] == 1
        user.reply("mug in blue , ok ?")
        assert user.measure()["confirmed"] == 1
        assert user.reply("anything else ?").done


def test_a_change_of_mind_comes_out_at_other_questions_at_the_declared_rate():
    out = []
    for seed in range(400):
        user = talk(BASE, seed=seed, changes_mind=1.0, volunteers=0.25)
        out.append("blue" in mentions(user.reply("your name ?").text))
    assert abs(fmean(out) - 0.25) < 0.07


def test_minds_change_at_the_declared_rate():
    changed = []
    for seed in range(400):
        user = talk(BASE, seed=seed, changes_mind=0.7)
        user.reply("anything else ?")
        changed.append(user.measure()["changed"])
    assert abs(fmean(changed) - 0.7) < 0.08


def test_a_change_of_the_target_names_the_other_one():
    wish = Wish(
        "cancel", "W10", "mug", "", True, "pending", "visa", "u10", "target", first_order="W11", first_item="desk"
    )
    user = talk(wish, changes_mind=1.0)
    assert mentions(user.reply("which order ?").text) == {"W11"}
    assert mentions(user.reply("cancel W11 , ok ?").text) == {"W10"}


@pytest.mark.parametrize("phrasing", ["train", "held_out"])
def test_a_second_wish_comes_after_anything_else(phrasing):
    second = Wish("cancel", "W11", "desk", "", True, "pending", "amex", "u10")
    user = talk(BASE, second, phrasing=phrasing, reveal=1.0)
    turn = user.reply("anything else ?")
    assert hear(turn.text).intents == ("cancel",)
    assert mentions(turn.text) == {"W11"}
    assert not turn.done
    assert user.reply("anything else ?").done


def test_it_leaves_when_it_has_had_enough():
    user = talk(BASE, patience=2)
    assert not user.reply("done").done
    assert not user.reply("well").done
    assert user.reply("hm").done
    assert user.measure()["left_angry"] == 1
    assert user.reply("your name ?").done


def test_repeated_questions_cost_patience():
    user = talk(BASE, patience=1)
    assert not user.reply("your name ?").done
    assert not user.reply("your name ?").done
    assert user.reply("your name ?").done


def test_it_goes_when_it_is_sent_away():
    user = talk(BASE)
    assert user.reply("bye").done
    assert user.measure()["dismissed"] == 1


def test_the_same_stream_gives_the_same_talk():
    world, users = make_world(Shop()), make_user(AgendaUser(), Shop())
    task = world.task("train", 4)
    lines = ["your name ?", "which item ?", "anything else ?", "which city ?", "anything else ?"]
    talks = []
    for _ in range(2):
        user = users.open(task, stream(9, "user"))
        talks.append([user.first().text, *(user.reply(line).text for line in lines)])
    assert talks[0] == talks[1]


def test_measures_are_the_declared_ones():
    assert set(talk(BASE).measure()) == set(AgendaUser.MEASURES)


@given(st.lists(st.text(max_size=30), max_size=12))
def test_whatever_is_said_it_answers_and_in_the_end_it_leaves(lines):
    user = talk(BASE, patience=3)
    turns = [user.reply(line) for line in lines]
    assert all(turn.text or turn.done for turn in turns)
    if len(turns) >= 5 and not any(hear(line).asked for line in lines):
        assert turns[-1].done
