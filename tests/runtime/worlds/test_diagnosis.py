"""What is said about a failed attempt: where it went wrong first, and never what would have been right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.calls import CallMatch
from rlspec.compiler.catalog.resampling import Feedback
from rlspec.runtime.worlds.call_match import CallMatchJudge
from rlspec.runtime.worlds.diagnosis import diagnose
from rlspec.runtime.worlds.leaks import leaked
from rlspec.runtime.worlds.protocol import Call, Message, Task

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}, "item": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["order"],
            },
        },
    }
    for name in ("cancel", "exchange", "find")
]
GOLD = (Call("exchange", {"order": "W17", "item": "red lamp", "count": 3}), Call("cancel", {"order": "W21"}))
TASK = Task("t.1", "train", "exchange the lamp, cancel the other", GOLD)


def said(*calls: Call | str, status: str = "ok", wrote: bool = True) -> list[Message]:
    """A dialogue of these calls and malformed attempts, each answered the same way."""
    out = [Message("user", "hello")]
    for call in calls:
        if isinstance(call, str):
            out += [Message("agent", "{", malformed=call), Message("tool", f"error : {call}", status="error")]
        else:
            done = wrote and call.name != "find"
            out.append(Message("agent", "", call, status=status, wrote=done))  # type: ignore[arg-type]
            out.append(Message("tool", "done", status=status, wrote=done))  # type: ignore[arg-type]
    return out


def found(dialogue: list[Message]) -> tuple[int, str, str]:
    diagnosis = diagnose(TASK, TOOLS, dialogue, Feedback())
    return diagnosis.place, diagnosis.route, diagnosis.text


def test_the_first_fault_is_named_by_its_argument() -> None:
    dialogue = said(Call("find", {"order": "W17"}), Call("exchange", {"order": "W71", "item": "red lamp", "count": 3}))
    assert found(dialogue) == (3, "semantic", "error : wrong order")
    assert found(said(Call("exchange", {"order": "W17", "count": 3})))[2] == "error : missing item"
    assert found(said(Call("cancel", {"order": "W21", "item": "x"})))[2] == "error : no item is wanted"
    assert found(said(GOLD[0], GOLD[0]))[2] == "error : exchange is not wanted"


def test_numbers_are_equal_by_value_and_order_of_calls_is_free() -> None:
    dialogue = said(GOLD[1], Call("exchange", {"order": "W17", "item": "red lamp", "count": 3.0}))
    assert found(dialogue) == (len(dialogue), "semantic", "error : something is wrong")


def test_what_was_left_undone_is_found_at_the_end() -> None:
    dialogue = said(GOLD[0])
    assert found(dialogue) == (len(dialogue), "semantic", "error : something is left to do")


def test_what_cannot_be_parsed_or_breaks_the_schema_is_a_fault_of_format() -> None:
    assert found(said("the call is not JSON")) == (1, "format", "error : call is malformed")
    assert found(said(Call("cancel", {"order": 21})))[1] == "format"
    assert found(said(Call("close", {})))[1] == "format"


def test_a_refused_call_that_is_like_no_gold_call_is_said_to_be_refused() -> None:
    assert found(said(Call("find", {"order": "W9"}), status="error"))[2] == "error : find was refused"


def test_what_the_environment_said_itself_is_said_again_where_it_refused() -> None:
    says = Feedback(own_words=True)
    refused = said(Call("exchange", {"order": "W17", "item": "x", "count": 3}), status="error")
    refused[2] = Message("tool", "out of stock", status="error")
    assert diagnose(TASK, TOOLS, refused, says).text == "out of stock"
    assert diagnose(TASK, TOOLS, said("no JSON"), says).text == "error : no JSON"
    written = said(Call("exchange", {"order": "W17", "item": "x", "count": 3}))
    assert diagnose(TASK, TOOLS, written, says).text == "error : wrong item"
    refused[2] = Message("tool", "only the red lamp is here", status="error")
    assert diagnose(TASK, TOOLS, refused, says).text == "error : something is wrong"


def test_a_wording_that_gives_the_value_away_is_not_said() -> None:
    telling = Feedback(wrong="error : {argument} is Red-Lamp , not that")
    diagnosis = diagnose(TASK, TOOLS, said(Call("exchange", {"order": "W17", "item": "x", "count": 3})), telling)
    assert diagnosis.text == "error : something is wrong"
    assert diagnosis.leaks == 1


@pytest.mark.parametrize(
    "text",
    ["w-17", "it is W 17 .", "RED LAMP", "redlamp", "three", "3.0", "say 3 !", "réd lamp", "W seventeen", "w one seven",
     "it is W XVII", "W 1 seven", "III", "W twenty one", "W twenty-one"],
)  # fmt: skip
def test_a_value_is_found_in_any_spelling(text: str) -> None:
    assert leaked(f"error : {text}", GOLD)


@pytest.mark.parametrize(
    "text",
    ["error : wrong order", "error : exchange is not wanted", "33 lamps", "w170", "W twenty seven", "W XVIII",
     "the first one of the mix", "i do not see it , w"],
)  # fmt: skip
def test_what_is_no_value_is_not_found(text: str) -> None:
    assert leaked(text, GOLD) == []


@given(st.text(min_size=1).filter(lambda t: any(c.isalnum() for c in t)), st.text(), st.text())
def test_a_value_said_to_the_letter_is_always_found(value: str, before: str, after: str) -> None:
    assert leaked(f"{before} {value} {after}", [Call("f", {"x": [{"deep": value}]})]) or not value.isascii()


def measured(dialogue: list[Message], counted: str = "all") -> dict[str, object]:
    judge = CallMatchJudge(CallMatch.model_validate({"counted": counted}), lambda: TOOLS)
    return judge.measure(TASK, dialogue, np.random.default_rng(0))


def test_calls_are_counted_and_their_arguments_compared() -> None:
    assert measured(said(*GOLD)) == {"format": 1, "same_number": 1, "argument_f1": 1.0, "calls": 2, "gold_calls": 2}
    half = measured(said(Call("exchange", {"order": "W17", "item": "blue lamp", "count": 3})))
    assert half["same_number"] == 0
    assert half["argument_f1"] == pytest.approx(2 * 2 / (3 + 4))  # two of three right, two of four found
    assert measured(said("the call is not JSON"))["format"] == 0
    assert measured(said())["argument_f1"] == 0.0


def test_reads_count_only_where_all_calls_do() -> None:
    dialogue = said(Call("find", {"order": "W17"}), *GOLD)
    assert measured(dialogue)["same_number"] == 0
    assert measured(dialogue, "writes")["same_number"] == 1
