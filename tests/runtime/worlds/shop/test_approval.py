"""A desk whose users approve what is written: refusals that explain nothing, users that reconsider what they are asked
about, and demonstrators that are told what was wrong."""

from __future__ import annotations

from collections import Counter
from functools import cache

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Call
from rlspec.runtime.worlds.shop import make_user, make_world
from rlspec.runtime.worlds.shop.demonstrations import Demonstration, demonstrations, habits
from rlspec.runtime.worlds.shop.wishes import Wish

DESK = Shop(difficulty=0, intents=("recolour",), approval=True, thinks_of_other_item=0.9, max_turns=5)
USER = AgendaUser(reveal=1.0, changes_mind=1.0, volunteers=0.0, reconsiders=1.0)
MIXTURE = Demonstrators(confirm=0, early=1, leaves=0.2, changed=1, repair=1, resigns=0.3, doubts=0.2, told=0.5)


@cache
def shown() -> list[Demonstration]:
    return demonstrations(DESK, USER, MIXTURE, 200, 7)


def refusals(demo: Demonstration) -> list[int]:
    return [place for place, m in enumerate(demo.dialogue) if m.role == "tool" and m.status == "error"]


def test_only_what_the_user_wants_in_the_end_is_written_and_a_refusal_explains_nothing():
    world = make_world(DESK)
    for number in range(10):
        task = world.task("train", number)
        wish = Wish.read(task.payload["wishes"][0])
        session = world.reset(task)
        session.step(Call("find_user", {"name": task.payload["name"]}))
        for place in (session, session.fork()):
            before = place.content_hash()
            refused = place.step(wish.at_first().write())
            assert (refused.text, refused.status) == ('{"error": "not approved"}', "error")
            assert place.content_hash() == before
        assert session.step(wish.write()).status == "ok"
        assert session.measure()["verified"] == 1
        assert make_world(DESK.model_copy(update={"approval": False})).reset(task).step(wish.write()).status == "error"


def test_a_change_of_mind_comes_out_at_a_question_about_that_very_thing_alone():
    world = make_world(DESK)
    for number in range(20):
        task = world.task("train", number)
        thought = Wish.read(task.payload["wishes"][0]).thought
        for question, about in (("which item ?", "target"), ("which colour ?", "value")):
            user = make_user(USER, DESK).open(task, stream(1, number))
            user.first()
            user.reply(question)
            assert user.measure()["changed"] == (about == thought)


def test_who_is_told_asks_about_what_was_wrong_and_who_is_not_guesses():
    asked = Counter[tuple[str, str]]()
    for demo in shown():
        for place in refusals(demo)[:1]:
            text, after = demo.dialogue[place].text, demo.dialogue[place + 1].text
            asked[text, after] += 1
    texts = Counter[str]()
    for (text, _), count in asked.items():
        texts[text] += count
    assert set(texts) == {"error : wrong item", "error : wrong colour", '{"error": "not approved"}'}
    assert 0.3 < 1 - texts['{"error": "not approved"}'] / texts.total() < 0.7
    for text, right, wrong in (("item", "item", "colour"), ("colour", "colour", "item")):
        assert asked[f"error : wrong {text}", f"which {right} ?"] > 0
        assert asked[f"error : wrong {text}", f"which {wrong} ?"] == 0
        assert asked['{"error": "not approved"}', f"which {right} ?"] > 0
        assert 0.1 < asked[f"error : wrong {text}", "bye"] / texts[f"error : wrong {text}"] < 0.5


def test_who_asks_about_what_was_wrong_succeeds_and_what_is_told_gives_no_value_away():
    for demo in shown():
        wish = Wish.read(demo.task.payload["wishes"][0])
        told = [demo.dialogue[place] for place in refusals(demo) if "not approved" not in demo.dialogue[place].text]
        assert all(wish.value not in m.text and wish.item not in m.text for m in told)
        first = refusals(demo)[:1]
        if told and first and demo.dialogue[first[0]] is told[0] and demo.dialogue[first[0] + 1].text != "bye":
            assert demo.verified or any("which" in m.text for m in demo.dialogue[: first[0]])


def test_a_mixture_without_them_draws_nothing_for_them():
    numbers, next_one = stream(3, "x"), stream(3, "x").random()
    assert habits(Shop(), Demonstrators(), numbers) == ("", "", False)
    assert numbers.random() == next_one
    assert habits(DESK, Demonstrators(doubts=1, told=1), numbers)[2]
