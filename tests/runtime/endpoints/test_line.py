"""One client for all requests of an endpoint in a process, over real HTTP on the loopback."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.endpoints.line import KEPT

USER = [{"role": "user", "content": "hi"}]


class Keeping:
    """A server that keeps connections open, and counts them. It says the key that it was shown."""

    def __init__(self) -> None:
        self.connections = self.busy = self.busiest = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with outer.lock:
                    outer.connections += 1

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    outer.busy += 1
                    outer.busiest = max(outer.busiest, outer.busy)
                threading.Event().wait(0.01)
                with outer.lock:
                    outer.busy -= 1
                said = self.headers["Authorization"]
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
                found = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
                data = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Keeping]:
    found = Keeping()
    yield found
    found.http.shutdown()
    found.http.server_close()


def lines() -> int:
    gc.collect()  # endpoints that nobody holds any more
    return sum(thread.name == "endpoint" for thread in threading.enumerate())


def test_requests_share_a_client_and_closing_ends_it(server: Keeping) -> None:
    before = lines()
    endpoint = Endpoint("m", server.url, patience=Patience(20.0))
    for _ in range(5):
        endpoint.say(USER)
    assert (server.connections, lines()) == (1, before + 1)
    endpoint.close()
    assert lines() == before
    assert endpoint.say(USER)  # a later request begins anew
    assert server.connections == 2
    del endpoint
    assert lines() == before


def test_threads_share_it_and_no_more_are_under_way_than_declared(server: Keeping) -> None:
    endpoint = Endpoint("m", server.url, patience=Patience(20.0), at_once=3)
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: endpoint.say(USER), range(24)))
    assert len(found) == endpoint.spent.requests == 24
    assert server.busiest <= 3
    assert server.connections <= 3
    endpoint.close()


def test_the_key_is_that_of_the_moment(server: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("m", server.url, "SOME_KEY", Patience(20.0))
    assert endpoint.say(USER) == "Bearer none"
    monkeypatch.setenv("SOME_KEY", "another")
    assert endpoint.say(USER) == "Bearer another"
    assert server.connections == 1
    endpoint.close()


def _asked(endpoint: Endpoint, said: Any) -> None:
    said.put((endpoint.say(USER), lines()))
    said.close()
    said.join_thread()
    os._exit(0)


def test_a_forked_process_has_a_line_of_its_own(server: Keeping) -> None:
    endpoint = Endpoint("m", server.url, patience=Patience(20.0))
    endpoint.say(USER)
    began = time.monotonic()
    fork = multiprocessing.get_context("fork")
    said = fork.Queue()
    child = fork.Process(target=_asked, args=(endpoint, said))
    child.start()
    assert said.get(timeout=30) == ("Bearer none", 1)
    child.join(30)
    assert endpoint.say(USER)
    # The parent's goes on, unless the machine was so slow that it was idle for too long.
    assert server.connections == 2 or time.monotonic() - began > KEPT
    endpoint.close()
