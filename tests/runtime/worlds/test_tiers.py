"""The judge `tiers`: which label a turn gets, what is declared about duplicates, gold calls and priority."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.compiler.catalog.tiers import PRIORITY, TIERS, Tiers
from rlspec.compiler.records import ValidationError
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Call, Message, Task
from rlspec.runtime.worlds.shop.demonstrations import demonstrations
from rlspec.runtime.worlds.tiers import TierJudge

READ = Call("get_order", {"order_id": "W1"})
WRITE = Call("cancel_order", {"order_id": "W1", "reason": "late"})
GOLD = (READ, WRITE)


def called(call: Call, status: str = "ok", wrote: bool | None = None) -> list[Message]:
    wrote = (status == "ok" and not call.name.startswith("get_")) if wrote is None else wrote
    return [Message("agent", "", call, status=status, wrote=wrote), Message("tool", "{}", status=status, wrote=wrote)]


def said(text: str = "hello") -> list[Message]:
    return [Message("agent", text), Message("user", "and ?")]


def tiers(*parts: list[Message], gold=GOLD, **config) -> list[str]:
    return TierJudge(Tiers(**config)).label(gold, [m for part in parts for m in part])[0]


def changed(call: Call, **arguments) -> Call:
    return Call(call.name, call.arguments | arguments)


def test_each_tier():
    half = changed(WRITE, reason="broken")
    other = Call("change_home", {"city": "lima"})
    found = tiers(
        said(),
        called(READ),
        called(Call("get_user", {"name": "a"})),
        called(half),
        called(other),
        called(WRITE, "error"),
        called(WRITE),
        [Message("agent", "{", malformed="no JSON"), Message("tool", "error", status="error")],
        called(READ),
    )
    assert found == ["msg", "gold", "read", "soft", "state", "err", "dup", "err", "dup"]


def test_a_duplicate_looks_at_the_history_or_at_successes():
    twice = [called(WRITE, "error"), called(WRITE)]
    assert tiers(*twice) == ["err", "dup"]
    assert tiers(*twice, duplicates="successes") == ["err", "gold"]
    assert tiers(called(WRITE), called(WRITE), duplicates="successes") == ["gold", "dup"]


def test_a_gold_call_is_used_up_unless_it_may_be_credited_twice():
    gold_first = ("gold", "err", "dup", "soft", "state", "read", "msg")
    again = [called(WRITE), called(WRITE)]
    assert tiers(*again, priority=gold_first) == ["gold", "dup"]
    assert tiers(*again, priority=gold_first, gold_twice=True) == ["gold", "gold"]
    assert tiers(*again, priority=gold_first, gold=(*GOLD, WRITE)) == ["gold", "gold"]
    near = [called(WRITE), called(changed(WRITE, reason="broken"))]
    assert tiers(*near) == ["gold", "state"]
    assert tiers(*near, gold_twice=True) == ["gold", "soft"]


def test_a_gold_call_that_fails_is_an_error_and_stays_open():
    spelled = [called(WRITE, "error"), called(changed(WRITE, note=None))]
    assert tiers(*spelled) == ["err", "dup"]
    assert tiers(*spelled, equal="exact") == ["err", "soft"]
    assert tiers(called(WRITE, "error"), priority=("gold", *(t for t in PRIORITY if t != "gold"))) == ["gold"]


def test_writes_are_what_changed_the_state_or_what_is_declared():
    call = Call("think", {"thought": "x"})
    assert tiers(called(call, wrote=True)) == ["state"]
    assert tiers(called(call, wrote=True), writes=("cancel_order",)) == ["read"]
    assert tiers(called(call, wrote=False), writes=("think",)) == ["state"]


def test_overlap_is_that_of_the_nearest_gold_call():
    gold = (Call("book", {"a": 1, "b": 2, "c": 3, "d": 4}), Call("book", {"a": 1, "b": 2}))
    labels, overlaps = TierJudge(Tiers()).label(gold, called(Call("book", {"a": 1, "b": 9})))
    assert (labels, overlaps) == (["soft"], [0.5])
    strict = TierJudge(Tiers(soft_above=0.5)).label(gold, called(Call("book", {"a": 1, "b": 9})))
    assert strict == (["state"], [0.5])
    assert TierJudge(Tiers()).label(gold, said())[1] == [0.0]


def test_a_call_that_nobody_answered_is_a_read():
    assert tiers([Message("agent", "", Call("ask", {}))]) == ["read"]


def test_priority_must_be_a_whole_order():
    with pytest.raises(ValidationError, match="each of"):
        Tiers(priority=("gold", "msg"))


calls = st.builds(
    Call,
    st.sampled_from(["get_order", "cancel_order"]),
    st.fixed_dictionaries({"order_id": st.sampled_from(["W1", "W2", 1, "1"])}),
)
turns = st.one_of(
    st.builds(lambda c, s, w: called(c, s, w and s == "ok"), calls, st.sampled_from(["ok", "error"]), st.booleans()),
    st.just(said()),
)


@given(
    st.lists(turns, max_size=8),
    st.lists(calls, max_size=3),
    st.permutations(TIERS),
    st.sampled_from(["history", "successes"]),
)
def test_every_turn_gets_one_tier_and_no_gold_call_pays_twice(parts, gold, priority, duplicates):
    dialogue = [m for part in parts for m in part]
    judge = TierJudge(Tiers(priority=tuple(priority), duplicates=duplicates))
    labels, overlaps = judge.label(gold, dialogue)
    assert len(labels) == len(overlaps) == len(parts)
    assert Counter(labels)["gold"] <= len(gold)
    assert all(0 <= overlap <= 1 for overlap in overlaps)
    assert [label == "msg" for label in labels] == [part[0].call is None for part in parts]
    assert judge.label(gold, dialogue) == (labels, overlaps)


def test_it_labels_the_talks_of_the_shop():
    mixture = Demonstrators(confirm=1.0, early=0.0, leaves=0.0, changed=0.0, repair=0.0)
    judge = TierJudge(Tiers())
    for shown in demonstrations(Shop(difficulty=2), AgendaUser(changes_mind=0), mixture, 20, seed=3):
        found = judge.measure(shown.task, shown.dialogue, stream(0, "tiers"))
        writes = [m for m in shown.dialogue if m.role == "tool" and m.wrote]
        labels = Counter(found["tier"])
        assert len(found["tier"]) == sum(m.role == "agent" for m in shown.dialogue)
        assert labels["state"] == 0
        assert labels["gold"] >= len(writes) > 0


def test_it_needs_nothing_but_gold_calls_and_dialogue():
    task = Task("t", "train", "", GOLD)
    assert TierJudge(Tiers()).measure(task, called(READ), stream(1, "x")) == {"tier": ["gold"], "overlap": [1.0]}
