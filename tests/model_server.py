"""A language model behind real HTTP on the loopback, for tests: it answers as told and remembers what it was asked.

    with ModelServer() as model:
        model.answer = lambda request: request["messages"][-1]["content"].upper()
        Endpoint("m", model.url).say([{"role": "user", "content": "hi"}])
        assert model.seen[0]["messages"][0]["content"] == "hi"

It speaks as much of OpenAI's chat completions as the project reads, and misbehaves in every way that endpoints do.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes over the wire to the letter: bytes as they are, anything else as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class HangUp:
    """The connection is closed without an answer."""


Answer = str | int | Mapping[str, Any] | Reply | HangUp
"""What the assistant says; a status that is a failure; the assistant's message; or how else it ends."""


def completion(message: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The body of an answer: what the assistant says, or its message. Every one counts 7 + 3 tokens."""
    said = message if isinstance(message, Mapping) else {"content": message}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **said}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


class ModelServer:
    """Asks `answer` about every request, one at a time, and lets its answer go `delay` seconds later.

    `seen` holds the requests in the order in which they came, `keys` their authorization; `connections` is how many
    were opened, `busiest` the most requests that were under way at once. It ends with its `with`.
    """

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Answer] = lambda request: 500
        self.delay = 0.0
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.connections = self.busiest = self._busy = 0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._open: set[socket.socket] = set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def says(self, *answers: Answer) -> None:
        """Give these answers to the next requests, one each, and to any further one a failure."""
        left = iter(answers)
        self.answer = lambda request: next(left, 500)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._open:  # whoever keeps one for later finds nobody there
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _answered(self, request: dict[str, Any], key: str | None) -> Reply | HangUp:
        with self._lock:
            self.seen.append(request)
            self.keys.append(key)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
            answer = self.answer(request)
        self._ended.wait(self.delay)
        with self._lock:
            self._busy -= 1
        if isinstance(answer, Reply | HangUp):
            return answer
        if isinstance(answer, int):
            return Reply(answer, {"error": {"message": "no"}})
        return Reply(200, completion(answer))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server.connections += 1
                    server._open.add(self.connection)

            def finish(self) -> None:
                with server._lock:
                    server._open.discard(self.connection)
                super().finish()

            def handle(self) -> None:
                with suppress(ConnectionError):  # whoever asked has gone
                    super().handle()

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = server._answered(request, self.headers["Authorization"])
                if isinstance(reply, HangUp):
                    self.close_connection = True
                    return
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler
