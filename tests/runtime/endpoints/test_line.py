"""One client for all requests of an endpoint in a process, over real HTTP on the loopback."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.endpoints.line import KEPT

USER = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def answering(model: ModelServer) -> None:
    """It takes its time, so that requests can be under way together."""
    model.answer, model.delay = lambda _: "hello", 0.01


def lines() -> int:
    gc.collect()  # endpoints that nobody holds any more
    return sum(thread.name == "endpoint" for thread in threading.enumerate())


def test_requests_share_a_client_and_closing_ends_it(model: ModelServer) -> None:
    before = lines()
    endpoint = Endpoint("m", model.url, patience=Patience(20.0))
    for _ in range(5):
        endpoint.say(USER)
    assert (model.connections, lines()) == (1, before + 1)
    endpoint.close()
    assert lines() == before
    assert endpoint.say(USER)  # a later request begins anew
    assert model.connections == 2
    del endpoint
    assert lines() == before


def test_threads_share_it_and_no_more_are_under_way_than_declared(model: ModelServer) -> None:
    endpoint = Endpoint("m", model.url, patience=Patience(20.0), at_once=3)
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: endpoint.say(USER), range(24)))
    assert len(found) == endpoint.spent.requests == 24
    assert model.busiest <= 3
    assert model.connections <= 3
    endpoint.close()


def test_the_key_is_that_of_the_moment(model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("m", model.url, "SOME_KEY", Patience(20.0))
    endpoint.say(USER)
    monkeypatch.setenv("SOME_KEY", "another")
    endpoint.say(USER)
    assert (model.keys, model.connections) == (["Bearer none", "Bearer another"], 1)
    endpoint.close()


def _asked(endpoint: Endpoint, said: Any) -> None:
    said.put((endpoint.say(USER), lines()))
    said.close()
    said.join_thread()
    os._exit(0)


def test_a_forked_process_has_a_line_of_its_own(model: ModelServer) -> None:
    endpoint = Endpoint("m", model.url, patience=Patience(20.0))
    endpoint.say(USER)
    began = time.monotonic()
    fork = multiprocessing.get_context("fork")
    said = fork.Queue()
    child = fork.Process(target=_asked, args=(endpoint, said))
    child.start()
    assert said.get(timeout=30) == ("hello", 1)
    child.join(30)
    assert endpoint.say(USER)
    # The parent's goes on, unless the machine was so slow that it was idle for too long.
    assert model.connections == 2 or time.monotonic() - began > KEPT
    endpoint.close()
