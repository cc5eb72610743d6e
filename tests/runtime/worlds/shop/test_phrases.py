"""What users say: several hundred wordings, held-out ones apart, all of it within a small vocabulary."""

from __future__ import annotations

import re

import pytest

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.runtime.worlds.shop.demonstrations import demonstrations
from rlspec.runtime.worlds.shop.hearing import CUES, hear
from rlspec.runtime.worlds.shop.lexicon import KIND_OF, POOLS
from rlspec.runtime.worlds.shop.phrasebook import phrasebook
from rlspec.runtime.worlds.shop.wishes import INTENTS

TRAIN, HELD_OUT = phrasebook("train").lines, phrasebook("held_out").lines
SLOTS = re.compile(r"\{(\w+)\}")


def lines(book) -> list[str]:
    return [line for wordings in book.values() for line in wordings]


def words(book) -> set[str]:
    return {word for line in lines(book) for word in SLOTS.sub(" ", line).split()}


def test_there_are_several_hundred_wordings():
    assert len(set(lines(TRAIN))) + len(set(lines(HELD_OUT))) >= 300


def test_held_out_wordings_are_new_lines_of_known_words():
    assert not set(lines(TRAIN)) & set(lines(HELD_OUT))
    assert words(HELD_OUT) <= words(TRAIN)


def test_both_sets_have_wordings_for_every_act_with_the_same_parts():
    assert set(TRAIN) == set(HELD_OUT)
    for act in TRAIN:
        parts = {tuple(sorted(SLOTS.findall(line))) for line in (*TRAIN[act], *HELD_OUT[act])}
        assert len(parts) == 1, act


@pytest.mark.parametrize("book", [TRAIN, HELD_OUT], ids=["train", "held_out"])
def test_a_wording_of_a_wish_has_the_cue_of_its_intent_and_of_no_other(book):
    for act, wordings in book.items():
        intent, _, shape = act.partition(".")
        for line in wordings:
            heard = hear(SLOTS.sub("W10", line)).intents
            if intent in INTENTS and shape:
                assert heard == (intent,), line
            elif act not in ("also", "no_wish"):
                assert heard == (), line


def test_a_user_says_bye_when_it_leaves_and_only_then():
    for book in (TRAIN, HELD_OUT):
        for act, wordings in book.items():
            for line in wordings:
                assert ("bye" in line.split()) == (act in ("done", "farewell", "angry"))


def test_every_thing_is_one_word_of_one_kind():
    things = [word for pool in POOLS.values() for word in pool]
    assert len(things) == len({word.lower() for word in things}) == len(KIND_OF)
    assert all(re.fullmatch(r"[a-z]+|[Wgu]\d\d", word) for word in things)
    assert not {word.lower() for word in things} & words(TRAIN)
    assert not set(KIND_OF) & {cue for cues in CUES.values() for cue in cues}


def test_the_vocabulary_of_talks_is_small():
    spoken: set[str] = set()
    for difficulty in (1, 2):
        for phrasing in ("train", "held_out"):
            for shown in demonstrations(
                Shop(difficulty=difficulty), AgendaUser(), Demonstrators(), 80, seed=5, phrasing=phrasing
            ):
                for message in shown.dialogue:
                    spoken |= set(re.findall(r"\w+|[^\w\s]", message.text))
    assert len((spoken | words(TRAIN)) - {word for pool in POOLS.values() for word in pool}) + len(KIND_OF) <= 350


def test_an_unknown_phrasing_is_refused():
    with pytest.raises(ValueError, match="train and held_out"):
        phrasebook("test")
