"""A real HTTP server on the loopback that misbehaves in every way that endpoints do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import BaseModel

from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import InfraFailure

USER = [{"role": "user", "content": "hi"}]


class Server:
    """Answers the n-th request with the n-th step, the last one for ever. A step is a text, (status, body, headers), or
    "hang"."""

    def __init__(self) -> None:
        self.steps: list[Any] = ["hello"]
        self.seen: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append(body)
                step = outer.steps[min(len(outer.seen), len(outer.steps)) - 1]
                step = step(body) if callable(step) else step
                if step == "hang":
                    time.sleep(1.5)
                    return
                if step == "reset":
                    self.connection.close()
                    return
                status, payload, headers = step if isinstance(step, tuple) else (200, completion(step), {})
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


def completion(text: str | None, tool_calls: list[Any] | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.http.shutdown()
    found.http.server_close()


def endpoint(server: Server, **patience: Any) -> Endpoint:
    return Endpoint("m", server.url, patience=Patience(**{"within": 20.0, "first_wait": 0.01, **patience}))


@pytest.mark.parametrize(
    "trouble",
    [
        (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, {"Retry-After": "0"}),
        (500, {"error": {"message": "oops"}}, {}),
        (200, {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}, {}),
        (200, completion(None), {}),
        (200, b'{"id": "1", "choices": [{"mess', {}),
        (200, {"choices": "none"}, {}),
        (200, {"choices": [{"message": "hello"}]}, {}),
        (200, {"choices": [{"message": {"role": "assistant", "content": {"text": "hello"}}}]}, {}),
        (200, completion("half a pair: \ud800"), {}),
        (200, completion(None, [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]), {}),
        (200, {**completion(""), "usage": {"prompt_tokens": "many"}}, {}),
        (200, [1, 2], {}),
        "reset",
    ],
)
def test_what_may_pass_is_tried_again(server: Server, trouble: Any) -> None:
    server.steps = [trouble, trouble, "hello"]
    asked = endpoint(server)
    assert asked.say(USER) == "hello"
    assert (len(server.seen), asked.spent.failed_tries, asked.spent.requests) == (3, 2, 1)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ((429, {"error": {"message": "pay", "code": "insufficient_quota"}}, {}), "insufficient_quota"),
        ((401, {"error": {"message": "who are you"}}, {}), "401"),
        ((400, {"error": {"message": "context too long"}}, {}), "context too long"),
    ],
)
def test_what_cannot_pass_is_not_tried_again(server: Server, trouble: Any, said: str) -> None:
    server.steps = [trouble]
    with pytest.raises(InfraFailure, match=said):
        endpoint(server).say(USER)
    assert len(server.seen) == 1


def test_the_deadline_is_that_of_all_tries_together(server: Server) -> None:
    server.steps = ["hang"]
    began = time.monotonic()
    with pytest.raises(InfraFailure, match=r"m at http://.*: no answer within 0\.8 s"):
        endpoint(server, within=0.8).say(USER)
    assert time.monotonic() - began < 6  # a busy machine starts slowly; without a deadline there were four tries


def test_a_wait_that_does_not_fit_is_not_begun(server: Server) -> None:
    server.steps = [(429, {"error": {"message": "later"}}, {"Retry-After": "3600"})]
    with pytest.raises(InfraFailure, match="429"):
        endpoint(server).say(USER)
    assert len(server.seen) == 1


def test_several_requests_come_back_in_order(server: Server) -> None:
    echo: Callable[[dict[str, Any]], str] = lambda body: body["messages"][0]["content"].upper()  # noqa: E731
    server.steps = [echo]
    batch = [[{"role": "user", "content": word}] for word in ("a", "b", "c")]
    assert endpoint(server).say_all(batch) == ["A", "B", "C"]


class Plan(BaseModel):
    steps: int


def test_an_invalid_answer_is_corrected(server: Server) -> None:
    server.steps = ["no idea", 'Here: {"steps": "many"}', '```json\n{"steps": 3}\n```']
    assert endpoint(server).fill(USER, Plan) == Plan(steps=3)
    assert "no JSON object" in server.seen[1]["messages"][-1]["content"]
    assert "steps" in server.seen[2]["messages"][-1]["content"]


def test_an_answer_that_stays_invalid_is_a_failure(server: Server) -> None:
    server.steps = ["no idea"]
    with pytest.raises(InfraFailure, match="no valid answer"):
        endpoint(server).fill(USER, Plan, corrections=1)
    assert len(server.seen) == 2


def test_a_call_that_is_none_is_no_message(server: Server) -> None:
    odd = [[{"id": "1"}], [{"id": "1", "function": {"name": 3}}], ["call"], "calls"]
    good = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    server.steps = [*((200, completion(None, calls), {}) for calls in odd), (200, completion(None, good), {})]
    found = endpoint(server, tries=5).message(USER)
    assert (found["tool_calls"][0]["function"]["name"], len(server.seen)) == ("look", 5)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://me:secret@127.0.0.1:9/v1"])
def test_whoever_cannot_be_reached_is_named(address: str) -> None:
    with pytest.raises(InfraFailure) as failure:
        Endpoint("m", address, patience=Patience(within=5, tries=1)).say(USER)
    assert failure.value.reason.startswith("m at ")
    assert "secret" not in failure.value.reason


def test_an_object_that_nests_too_deeply_is_no_answer(server: Server) -> None:
    server.steps = ['{"steps": ' * 20_000]
    with pytest.raises(InfraFailure, match="no valid answer"):
        endpoint(server).fill(USER, Plan, corrections=0)


@pytest.mark.parametrize("address", ["nonsense", "http://[::1", "ftp://here/v1", "http:///v1", "http://here:port/v1"])
def test_what_is_no_address_is_refused_before_anything_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="is no address of an endpoint"):
        Endpoint("m", address)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(Refusal):
        Endpoint("m")
