"""A line to an endpoint: one client and one event loop for all requests of a process, whatever thread they come from.

    line = Line("http://127.0.0.1:8000/v1", at_once=8)
    answers = line.run([lambda client: client.chat.completions.create(...), ...])
    line.close()

Making a client (certificates, connection pool) takes longer than most requests to a server nearby, so it is made once,
at the first request, and connections are kept. The loop runs on a thread of its own: a client belongs to one loop, and
who asks are threads. A process that was forked from one with a line has none and makes its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
Request = Callable[[Any], Awaitable[T]]

KEPT = 2.0
"""Seconds that an idle connection is kept. Common servers close it after five: one that is used again just then is
lost together with its request."""
CLOSING = 2.0
"""Seconds that closing may take."""


class Line:
    """See the module. `at_once` requests run at a time, the others wait."""

    def __init__(self, base_url: str | None, at_once: int) -> None:
        self.base_url, self.at_once = base_url, at_once
        self._lock = threading.Lock()
        self._process = 0  # that made what follows
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._gate = asyncio.Semaphore(at_once)

    def run(self, requests: Sequence[Request[T]]) -> list[T]:
        """Answers in the order of the requests. The first error is raised, and what is still under way is given up."""
        future: Future[list[T]] = asyncio.run_coroutine_threadsafe(self._together(requests), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C reaches who waits, not the loop
            raise

    async def _together(self, requests: Sequence[Request[T]]) -> list[T]:
        tasks = [asyncio.ensure_future(self._one(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, request: Request[T]) -> T:
        async with self._gate:
            return await request(self._client)

    def _running(self) -> asyncio.AbstractEventLoop:
        """This process's loop, begun together with the client when it is first needed."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._begin()
            assert self._loop is not None
            return self._loop

    def _begin(self) -> None:
        import openai

        usual = openai.DEFAULT_CONNECTION_LIMITS
        limits = type(usual)(
            max_connections=usual.max_connections,
            max_keepalive_connections=usual.max_keepalive_connections,
            keepalive_expiry=KEPT,
        )
        http = openai.DefaultAsyncHttpxClient(limits=limits)
        # The key is sent with each request: a client would keep it.
        self._client = openai.AsyncOpenAI(api_key="none", base_url=self.base_url, max_retries=0, http_client=http)
        self._gate = asyncio.Semaphore(self.at_once)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()
        self._process = os.getpid()

    def close(self) -> None:
        """Close connections and end the thread; a later request begins anew."""
        with self._lock:
            loop, thread, client, process = self._loop, self._thread, self._client, self._process
            self._loop = self._thread = self._client = None
        if loop is None or thread is None or process != os.getpid() or not thread.is_alive():
            return  # a forked process leaves its parent's connections alone
        if thread is threading.current_thread():  # collected by what it runs itself
            loop.stop()
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(client.close(), loop).result(CLOSING)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING)
        if not thread.is_alive():
            loop.close()
