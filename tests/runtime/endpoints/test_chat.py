"""An endpoint that misbehaves in every way that endpoints do, over real HTTP on the loopback."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import BaseModel

from model_server import HangUp, ModelServer, Reply, completion
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import InfraFailure

USER = [{"role": "user", "content": "hi"}]


def endpoint(model: ModelServer, **patience: Any) -> Endpoint:
    return Endpoint("m", model.url, patience=Patience(**{"within": 20.0, "first_wait": 0.01, **patience}))


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, {"Retry-After": "0"}),
        Reply(500, {"error": {"message": "oops"}}),
        Reply(200, {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}),
        {"content": None},
        Reply(200, b'{"id": "1", "choices": [{"mess'),
        Reply(200, {"choices": "none"}),
        Reply(200, {"choices": [{"message": "hello"}]}),
        {"content": {"text": "hello"}},
        "half a pair: \ud800",
        {
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
        },
        Reply(200, {**completion(""), "usage": {"prompt_tokens": "many"}}),
        Reply(200, [1, 2]),
        HangUp(),
    ],
)
def test_what_may_pass_is_tried_again(model: ModelServer, trouble: Any) -> None:
    model.says(trouble, trouble, "hello")
    asked = endpoint(model)
    assert asked.say(USER) == "hello"
    assert (len(model.seen), asked.spent.failed_tries, asked.spent.requests) == (3, 2, 1)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (Reply(429, {"error": {"message": "pay", "code": "insufficient_quota"}}), "insufficient_quota"),
        (Reply(401, {"error": {"message": "who are you"}}), "401"),
        (Reply(400, {"error": {"message": "context too long"}}), "context too long"),
    ],
)
def test_what_cannot_pass_is_not_tried_again(model: ModelServer, trouble: Any, said: str) -> None:
    model.says(trouble)
    with pytest.raises(InfraFailure, match=said):
        endpoint(model).say(USER)
    assert len(model.seen) == 1


def test_the_deadline_is_that_of_all_tries_together(model: ModelServer) -> None:
    model.answer, model.delay = lambda _: "hello", 1.5
    began = time.monotonic()
    with pytest.raises(InfraFailure, match=r"m at http://.*: no answer within 0\.8 s"):
        endpoint(model, within=0.8).say(USER)
    assert time.monotonic() - began < 6  # a busy machine starts slowly; without a deadline there were four tries


def test_a_wait_that_does_not_fit_is_not_begun(model: ModelServer) -> None:
    model.says(Reply(429, {"error": {"message": "later"}}, {"Retry-After": "3600"}))
    with pytest.raises(InfraFailure, match="429"):
        endpoint(model).say(USER)
    assert len(model.seen) == 1


def test_several_requests_come_back_in_order(model: ModelServer) -> None:
    model.answer = lambda request: request["messages"][0]["content"].upper()
    batch = [[{"role": "user", "content": word}] for word in ("a", "b", "c")]
    assert endpoint(model).say_all(batch) == ["A", "B", "C"]


class Plan(BaseModel):
    steps: int


def test_an_invalid_answer_is_corrected(model: ModelServer) -> None:
    model.says("no idea", 'Here: {"steps": "many"}', '```json\n{"steps": 3}\n```')
    assert endpoint(model).fill(USER, Plan) == Plan(steps=3)
    assert "no JSON object" in model.seen[1]["messages"][-1]["content"]
    assert "steps" in model.seen[2]["messages"][-1]["content"]


def test_an_answer_that_stays_invalid_is_a_failure(model: ModelServer) -> None:
    model.says("no idea", "no idea")
    with pytest.raises(InfraFailure, match="no valid answer"):
        endpoint(model).fill(USER, Plan, corrections=1)
    assert len(model.seen) == 2


def test_a_call_that_is_none_is_no_message(model: ModelServer) -> None:
    odd = [[{"id": "1"}], [{"id": "1", "function": {"name": 3}}], ["call"], "calls"]
    good = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    model.says(*({"content": None, "tool_calls": calls} for calls in [*odd, good]))
    found = endpoint(model, tries=5).message(USER)
    assert (found["tool_calls"][0]["function"]["name"], len(model.seen)) == ("look", 5)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://me:secret@127.0.0.1:9/v1"])
def test_whoever_cannot_be_reached_is_named(address: str) -> None:
    with pytest.raises(InfraFailure) as failure:
        Endpoint("m", address, patience=Patience(within=5, tries=1)).say(USER)
    assert failure.value.reason.startswith("m at ")
    assert "secret" not in failure.value.reason


def test_an_object_that_nests_too_deeply_is_no_answer(model: ModelServer) -> None:
    model.says('{"steps": ' * 20_000)
    with pytest.raises(InfraFailure, match="no valid answer"):
        endpoint(model).fill(USER, Plan, corrections=0)


@pytest.mark.parametrize("address", ["nonsense", "http://[::1", "ftp://here/v1", "http:///v1", "http://here:port/v1"])
def test_what_is_no_address_is_refused_before_anything_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="is no address of an endpoint"):
        Endpoint("m", address)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(Refusal):
        Endpoint("m")
