"""The oracle judge: a label per turn, at most one -1 and exactly for talks that fail, and noise as declared."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, OracleJudge, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Call, Message, Status, Task
from rlspec.runtime.worlds.shop import make_judge
from rlspec.runtime.worlds.shop.demonstrations import demonstrations
from rlspec.runtime.worlds.shop.judge import clean_labels
from rlspec.runtime.worlds.shop.tools import TOOLS

GOLD = (
    Call("find_user", {"name": "anna"}),
    Call("get_order", {"order_id": "W10"}),
    Call("cancel_order", {"order_id": "W10"}),
    Call("change_home", {"user_id": "u10", "city": "lima"}),
)
TASK = Task("t", "train", "", GOLD, {})


def agent(text: str) -> Message:
    return Message("agent", text)


def user(text: str) -> Message:
    return Message("user", text)


def called(name: str, status: Status = "ok", **arguments: str) -> list[Message]:
    wrote = status == "ok" and name in TOOLS and TOOLS[name].writes
    return [Message("agent", "", call=Call(name, arguments)), Message("tool", "{}", status=status, wrote=wrote)]


def replay(call: Call) -> list[Message]:
    return [Message("agent", "", call=call), Message("tool", "{}", status="ok", wrote=TOOLS[call.name].writes)]


@pytest.mark.parametrize("difficulty", [0, 1, 2, 3])
def test_a_talk_has_a_major_error_exactly_when_it_fails(difficulty):
    mixture = Demonstrators(confirm=0.3, changed=0.7, repair=0.2)
    for shown in demonstrations(Shop(difficulty=difficulty), AgendaUser(), mixture, 80, seed=6):
        labels = clean_labels(shown.task, shown.dialogue)
        assert len(labels) == sum(message.role == "agent" for message in shown.dialogue)
        assert labels.count(-1) <= 1
        if shown.finish == "user_done":
            assert (-1 in labels) == (not shown.verified)


def test_a_model_talk_is_praised_turn_by_turn():
    dialogue = [user("hi , cancel an order"), agent("your name ?"), user("anna"), *replay(GOLD[0])]
    dialogue += [agent("which order ?"), user("order W10"), *replay(GOLD[1]), agent("cancel W10 , ok ?"), user("yes")]
    dialogue += [*replay(GOLD[2]), agent("anything else ?"), user("also , i moved to lima"), *replay(GOLD[3])]
    dialogue += [agent("anything else ?"), user("no , bye")]
    assert clean_labels(TASK, dialogue) == [1] * 9


def test_repetition_and_refused_calls_are_neutral():
    dialogue = [user("hi"), agent("your name ?"), user("anna"), agent("your name ?"), user("i am anna")]
    dialogue += [
        *replay(GOLD[0]),
        *replay(GOLD[0]),
        *called("fly", "error"),
        *called("cancel_order", "error", order_id="W1"),
    ]
    assert clean_labels(TASK, dialogue) == [1, 0, 1, 0, 0, 0]


def test_a_repeated_confirmation_is_neutral():
    dialogue = [user("cancel W10"), agent("cancel W10 , ok ?"), user("yes"), agent("cancel W10 , ok ?"), user("yes")]
    assert clean_labels(TASK, dialogue) == [1, 0]


def test_the_wrong_write_is_the_major_error_not_the_goodbye_after_it():
    dialogue = [user("hi"), *replay(GOLD[0]), *called("cancel_order", order_id="W11"), agent("bye"), user("ok bye")]
    assert clean_labels(TASK, dialogue) == [1, -1, 0]


def test_leaving_work_undone_is_the_major_error():
    dialogue = [user("hi"), *replay(GOLD[0]), *replay(GOLD[2]), agent("bye"), user("bye")]
    assert clean_labels(TASK, dialogue) == [1, 1, -1]


def test_a_wrong_write_made_good_is_neutral():
    wrong = called("change_home", user_id="u10", city="oslo")
    dialogue = [user("hi"), *replay(GOLD[2]), *wrong, *replay(GOLD[3]), agent("bye"), user("bye")]
    assert clean_labels(TASK, dialogue) == [1, 0, 1, 0]
    undone = [user("hi"), *replay(GOLD[2]), *replay(GOLD[3]), *wrong, agent("bye"), user("bye")]
    assert clean_labels(TASK, undone) == [1, 1, -1, 0]


def test_a_talk_that_was_cut_has_no_end_to_blame():
    assert clean_labels(TASK, [user("hi"), *replay(GOLD[0]), agent("your name ?"), user("anna")]) == [1, 1]


def test_noise_is_as_declared():
    quiet = make_judge(OracleJudge())
    flipping, falling = make_judge(OracleJudge(flip=0.3)), make_judge(OracleJudge(cascade=0.5))
    mixture = Demonstrators(confirm=0.0, early=0.0, changed=1.0)
    flips, later = [], []
    for place, shown in enumerate(demonstrations(Shop(), AgendaUser(), mixture, 250, seed=7)):
        clean = quiet.score(shown.task, shown.dialogue, stream(1, place))
        assert clean == clean_labels(shown.task, shown.dialogue)
        noisy = flipping.score(shown.task, shown.dialogue, stream(1, place))
        flips += [one != other for one, other in zip(clean, noisy, strict=True)]
        fallen = falling.score(shown.task, shown.dialogue, stream(1, place))
        if -1 in clean:
            first = clean.index(-1)
            assert fallen[: first + 1] == clean[: first + 1]
            later += [label == -1 for label in fallen[first + 1 :]]
    assert abs(fmean(flips) - 0.3) < 0.03
    assert abs(fmean(later) - 0.5) < 0.08


def test_bias_spread_and_the_rule_of_one_major_error_are_as_declared():
    mixture = Demonstrators(confirm=0.0, early=0.0, changed=1.0)
    judges = [OracleJudge(bias=0.3), OracleJudge(bias=-0.3), OracleJudge(flip=0.1, spread=0.6)]
    lenient, strict, spreading = map(make_judge, judges)
    ruled = make_judge(OracleJudge(flip=0.4, cascade=0.5, at_most_one_major=True))
    up, down, after_wrong, after_right, majors = [], [], [], [], []
    for place, shown in enumerate(demonstrations(Shop(), AgendaUser(), mixture, 250, seed=9)):
        clean = clean_labels(shown.task, shown.dialogue)
        raised = lenient.score(shown.task, shown.dialogue, stream(1, place))
        up += [more - one for one, more in zip(clean, raised, strict=True) if one < 1]
        lowered = strict.score(shown.task, shown.dialogue, stream(1, place))
        down += [one - less for one, less in zip(clean, lowered, strict=True) if one > -1]
        wrong = [
            a != b for a, b in zip(clean, spreading.score(shown.task, shown.dialogue, stream(1, place)), strict=True)
        ]
        for before, now in pairwise(wrong):
            (after_wrong if before else after_right).append(now)
        majors.append(ruled.score(shown.task, shown.dialogue, stream(1, place)).count(-1))
    assert set(up) == set(down) == {0, 1}
    assert abs(fmean(up) - 0.3) < 0.05
    assert abs(fmean(down) - 0.3) < 0.05
    assert abs(fmean(after_right) - 0.1) < 0.03
    assert abs(fmean(after_wrong) - 0.6) < 0.08
    assert set(majors) == {0, 1}


def test_the_same_stream_gives_the_same_labels():
    judge = make_judge(OracleJudge(flip=0.5, cascade=0.5))
    shown = demonstrations(Shop(), AgendaUser(), Demonstrators(), 1, seed=8)[0]
    assert judge.score(shown.task, shown.dialogue, stream(2)) == judge.score(shown.task, shown.dialogue, stream(2))


texts = st.one_of(st.sampled_from(["ok ?", "bye", "anything else ?", "your name ?", ""]), st.text(max_size=8))
calls = st.builds(
    Call,
    st.sampled_from([*TOOLS, "fly"]),
    st.dictionaries(st.sampled_from(["order_id", "city"]), st.one_of(st.text(max_size=3), st.integers(), st.none())),
)
spoken = st.builds(lambda text, bad: Message("agent", text, malformed=bad), texts, st.sampled_from([None, "no json"]))
steps = st.one_of(
    st.builds(
        lambda call, status: [Message("agent", "", call=call), Message("tool", "{}", status=status)],
        calls,
        st.sampled_from(["ok", "error"]),
    ),
    st.builds(lambda message, text: [message, Message("user", text)], spoken, texts),
    st.builds(lambda message: [message], spoken),
)


@given(st.lists(steps, max_size=10))
def test_every_message_of_the_agent_gets_one_label(parts):
    dialogue = [user("hi"), *(message for part in parts for message in part)]
    labels = clean_labels(TASK, dialogue)
    assert len(labels) == sum(message.role == "agent" for message in dialogue)
    assert set(labels) <= {-1, 0, 1}
    assert labels.count(-1) <= 1
