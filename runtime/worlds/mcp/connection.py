"""One session with an MCP server, for code that is not asynchronous.

    connection = Connection(config)                     # a process of its own, or an HTTP session of its own
    connection.tools()
    connection.call("get_order", {"order_id": "W12"})
    connection.close()

The official SDK speaks the protocol, with the handshake that begins a session: a server may keep state for as long as
the session is open. All sessions of a process live on one event loop on a thread of its own, each as one task, because
what opens a transport has to close it.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import IO, Any, TypeVar

from rlspec.compiler.catalog.tool_sides import Mcp
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.protocol import InfraFailure, Observation

T = TypeVar("T")

GRACE = 5.0
"""Seconds beyond a call's own deadline before the thread that waits for it gives up, whatever the SDK does."""
AGENTS_FAULT = (-32602, -32601)
"""JSON-RPC errors that a call may earn: invalid parameters, no such method (some servers say so of a tool)."""
SAID = 400
"""Characters of a server's last words that are quoted."""


class NoAnswer(InfraFailure):
    """The server did not answer in time; whether it did what it was asked is not known."""


class Connection:
    """See the module.

    Raises:
        InfraFailure: the server cannot be started or reached, or does not answer.
        Refusal: RLC0505, the package `mcp` is not installed.
    """

    def __init__(self, config: Mcp) -> None:
        self._config = config
        self._loop = loop()
        self._log: IO[str] | None = None
        self._opened: Future[tuple[Any, str]] = Future()
        self._closing = asyncio.Event()
        self._over: Future[None] = asyncio.run_coroutine_threadsafe(self._live(), self._loop)
        try:
            self._session, self.instructions = self._opened.result(config.opens_within + GRACE)
        except NotYet:
            self._over.cancel()
            raise NoAnswer("env", self._late(config.opens_within)) from None

    # --------------------------------------------------------------------------------------------------- asking

    def tools(self) -> list[dict[str, Any]]:
        """The server's tools as OpenAI-style schemas, with the server's `annotations` beside `function`.

        Raises:
            InfraFailure: the server fails.
        """
        out = []
        for tool in self._do(self._listed()):
            parameters = {"type": "object", **tool.input_schema}  # the SDK keeps no order; schemas begin with `type`
            function = {"name": tool.name, "description": tool.description or "", "parameters": parameters}
            read_only = bool(tool.annotations and tool.annotations.read_only_hint)
            out.append({"type": "function", "function": function, "annotations": {"readOnlyHint": read_only}})
        return out

    def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Call a tool; what it says of the call, errors included, is the observation.

        Raises:
            NoAnswer: it did not answer in time.
            InfraFailure: the server fails.
        """
        from mcp import MCPError

        async def ask() -> Any:
            try:
                return await self._session.call_tool(name, arguments, read_timeout_seconds=self._config.timeout)
            except MCPError as error:
                if error.code in AGENTS_FAULT:
                    return error
                raise

        found = self._do(ask())
        if isinstance(found, MCPError):
            return Observation(json.dumps({"error": found.message}), "error")
        return Observation(_text(found), "error" if found.is_error else "ok")

    def close(self) -> None:
        """End the session, and with it the process."""
        if not self._over.done():
            self._loop.call_soon_threadsafe(self._closing.set)
            try:
                self._over.result(GRACE)
            except Exception:  # a server that does not let go is killed with its transport's task
                self._over.cancel()
        if self._log is not None:
            self._log.close()

    # ------------------------------------------------------------------------------------------------- the session

    async def _live(self) -> None:
        """Open the transport and the session, and keep both until `close`."""
        from mcp import ClientSession

        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._config.opens_within):
                    read, write = await stack.enter_async_context(self._transport())
                    session = await stack.enter_async_context(
                        ClientSession(read, write, read_timeout_seconds=self._config.opens_within)
                    )
                    told = await session.initialize()
                self._opened.set_result((session, told.instructions or ""))
                await self._closing.wait()
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(self._failure(error))
            elif isinstance(error, asyncio.CancelledError):
                raise

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        config = self._config
        if config.url:
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            headers = {"Authorization": f"Bearer {reveal(config.key)}"} if config.key is not None else {}
            async with (
                create_mcp_http_client(headers=headers) as client,
                streamable_http_client(config.url, http_client=client) as streams,
            ):
                yield streams
            return
        from mcp import StdioServerParameters, stdio_client

        passed = {name: os.environ[name] for name in config.passes_on if name in os.environ}
        started = StdioServerParameters(command=config.command[0], args=list(config.command[1:]), env=passed)
        self._log = log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        async with stdio_client(started, errlog=log) as streams:
            yield streams

    async def _listed(self) -> list[Any]:
        """All pages of the server's tools."""
        from mcp.types import PaginatedRequestParams

        found = await self._session.list_tools()
        out = list(found.tools)
        while found.next_cursor:
            found = await self._session.list_tools(params=PaginatedRequestParams(cursor=found.next_cursor))
            out += found.tools
        return out

    # -------------------------------------------------------------------------------------------------- failures

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._over.done():
            work.close()
            raise InfraFailure("env", f"{self._name}: the session is over{self._words()}")
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result(self._config.timeout + GRACE)
        except NotYet:
            asked.cancel()
            raise NoAnswer("env", self._late(self._config.timeout)) from None
        except InfraFailure:
            raise
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> InfraFailure:
        """What went wrong, as the first cause says it."""
        from mcp import MCPError
        from mcp.types import REQUEST_TIMEOUT

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
            config = self._config
            return NoAnswer("env", self._late(config.timeout if self._opened.done() else config.opens_within))
        if isinstance(error, InfraFailure):
            return error
        said = str(error) or type(error).__name__
        return InfraFailure("env", f"{self._name}: {said}{self._words()}")

    def _late(self, seconds: float) -> str:
        return f"{self._name}: no answer within {seconds:g} s{self._words()}"

    @property
    def _name(self) -> str:
        return self._config.url or " ".join(self._config.command)

    def _words(self) -> str:
        """The last words of a process on its standard error."""
        if self._log is None or self._log.closed:
            return ""
        self._log.seek(0)
        said = self._log.read().strip()
        return f" (it said: {said[-SAID:].strip()})" if said else ""


def _text(found: Any) -> str:
    """The text of a result: its texts, or else its structured content; what is no text is named by its kind."""
    parts = [block.text if block.type == "text" else f"[{block.type}]" for block in found.content]
    if not parts and found.structured_content is not None:
        return json.dumps(found.structured_content)
    return "\n".join(parts)


def needed() -> None:
    """Make sure that the official SDK is there.

    Raises:
        Refusal: RLC0505, the package `mcp` is not installed.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise Refusal("RLC0505", f"the Model Context Protocol needs the package mcp: {error}",
                      'install it: pip install "rlspec[mcp]"') from error  # fmt: skip


@cache
def loop() -> asyncio.AbstractEventLoop:
    """This process's event loop for sessions, on its thread.

    Raises:
        Refusal: RLC0505, the package `mcp` is not installed.
    """
    needed()
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="mcp", daemon=True).start()
    return made
