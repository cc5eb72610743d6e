"""The users that are not live: the request at once, recordings, rules; a demonstrator can serve each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.compiler.catalog.users import RecordedUser, ScriptedUser
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import InfraFailure
from rlspec.runtime.worlds.recorded import RecordedUsers, StaticUsers, of, read_recordings
from rlspec.runtime.worlds.shop import make_world
from rlspec.runtime.worlds.shop.demonstrations import demonstrate, demonstrations
from rlspec.runtime.worlds.shop.hearing import hear
from rlspec.runtime.worlds.shop.modes import ScriptedUsers, recorded_users
from rlspec.runtime.worlds.shop.requests import whole_request

SHOP = Shop(difficulty=2)
WORLD = make_world(SHOP)
TASKS = [WORLD.task("train", number) for number in range(40)]


def rng(*name):
    return stream(1, *name)


@pytest.mark.parametrize("phrasing", ["train", "held_out"])
def test_static_user_says_everything_at_once_and_nothing_after(phrasing):
    for task in TASKS:
        user = StaticUsers(whole_request).open(task, rng(task.id), phrasing)
        first = user.first()
        heard = hear(first.text).mentions
        assert not first.done
        assert heard["name"] == [task.payload["name"]]
        for wish in task.payload["wishes"]:
            assert wish["value"] in ("", *(word for words in heard.values() for word in words))
        assert user.reply("anything else ?") == user.reply("hello ?")
        assert (user.reply("ok ?").text, user.reply("ok ?").done) == ("", True)


def test_recordings_are_the_same_whatever_the_agent_says():
    made = [recorded_users(RecordedUser(recordings=2), SHOP, AgendaUser()) for _ in range(2)]
    talks = []
    for users, words in zip(made, ("ok ?", "bye"), strict=True):
        said = []
        for task in TASKS[:10]:
            user = users.open(task, rng(task.id))
            turns = [user.first()]
            while not turns[-1].done:
                turns.append(user.reply(words))
            said.append([t.text for t in turns])
        talks.append(said)
    assert talks[0] == talks[1]
    assert max(len(said) for said in talks[0]) >= 3


def test_a_recorded_change_of_mind_comes_too_late_for_the_hasty_and_in_time_for_the_careful():
    users = recorded_users(RecordedUser(), SHOP, AgendaUser(changes_mind=1.0))
    solved = {
        style: sum(demonstrate(WORLD, users, task, style, rng(task.id))[2] for task in TASKS)
        for style in ("confirm", "hasty")
    }
    assert solved["confirm"] == len(TASKS)
    assert solved["hasty"] < len(TASKS) / 2


def test_scripted_user_is_without_chance_and_can_be_served():
    users = ScriptedUsers(ScriptedUser(patience=1))
    for task in TASKS:
        talks = [demonstrate(WORLD, users, task, "confirm", rng(seed)) for seed in (1, 2)]
        assert [m.text for m in talks[0][0]] == [m.text for m in talks[1][0]]
        assert talks[0][2]
    user = users.open(TASKS[0], rng("x"))
    user.first()
    assert not user.reply("hm .").done
    assert user.reply("hm .").done  # patience is over


def test_recordings_are_read_and_repeated(tmp_path: Path):
    path = tmp_path / "talks.jsonl"
    talk = [("user", "hi"), ("assistant", "yes ?"), ("user", "cancel W12"), ("user", "bye")]
    path.write_text(json.dumps({"task": TASKS[0].id, "messages": [{"role": r, "content": c} for r, c in talk]}) + "\n")
    recordings = of(read_recordings(path))
    leaving = RecordedUsers(recordings).open(TASKS[0], rng("a"))
    turns = [leaving.first(), leaving.reply(""), leaving.reply(""), leaving.reply("")]
    assert [(t.text, t.done) for t in turns] == [("hi", False), ("cancel W12", False), ("bye", True), ("", True)]
    staying = RecordedUsers(recordings, "repeat").open(TASKS[0], rng("a"))
    assert [staying.first().text, *(staying.reply("").text for _ in range(4))][-2:] == ["bye", "bye"]
    with pytest.raises(InfraFailure, match="no recording"):
        RecordedUsers(recordings).open(TASKS[1], rng("a"))


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"task": 3, "messages": []}', '{"messages": []}'])
def test_what_is_no_recording_is_refused(tmp_path: Path, line):
    path = tmp_path / "talks.jsonl"
    path.write_text(line)
    with pytest.raises(Refusal) as refused:
        read_recordings(path)
    assert refused.value.code == "RLC0711"


def test_a_share_of_the_demonstrations_is_at_once():
    shown = demonstrations(SHOP, AgendaUser(), Demonstrators(at_once=0.5), 60, 0)
    alone = [d for d in shown if sum(m.role == "user" for m in d.dialogue) == 1]
    assert 15 <= len(alone) <= 45
    assert all(d.style == "hasty" for d in alone)
