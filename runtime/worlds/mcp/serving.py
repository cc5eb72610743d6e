"""An environment of ours served over MCP: its tools, and two of the server's own, one that begins a task and one that
tells the state's hash. Each session of a client has a session of the world of its own.

    over_stdio(world, "desk")                                   # one session, over standard input and output
    over_http(world, "desk", "127.0.0.1", 8080, print)          # streamable HTTP at /mcp
    export(world, Path("desk"), count=200)                      # what an env `mcp` or `played` reads
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators
from rlspec.compiler.plan import Plan
from rlspec.runtime.record.durable import make_directory, write_file
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.distilled import as_record
from rlspec.runtime.worlds.mcp.connection import needed
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Session, Task, World
from rlspec.runtime.worlds.registry import world_of
from rlspec.runtime.worlds.shop.demonstrations import demonstrations
from rlspec.runtime.worlds.shop.tools import TOOLS
from rlspec.runtime.worlds.shop.world import ShopWorld
from rlspec.runtime.worlds.tau_bench.airline import WRITING
from rlspec.runtime.worlds.tau_bench.world import TauBenchWorld

BEGIN, STATE = "begin_task", "final_state"
SERVED = ("shop", "tau_bench")
SESSIONS_KEPT = 4096
"""Sessions that a server keeps at a time; the one that was used longest ago makes room."""

_TASK = {
    "type": "object",
    "properties": {"split": {"type": "string"}, "number": {"type": "integer", "minimum": 0}},
    "required": ["split", "number"],
    "additionalProperties": False,
}
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def served(plan: Plan, label: str | None) -> tuple[World, str]:
    """The environment of a plan that is served, and its label.

    Raises:
        Refusal: RLC0505, there is none of that label, several and no label, or one without tools of its own.
    """
    labels = [source.env for source in plan.drawn]
    if label is None and len(labels) > 1:
        raise Refusal("RLC0505", f"the spec has several environments: {', '.join(labels)}", "say which with --env")
    if label is not None and label not in labels:
        raise Refusal("RLC0505", f"the spec has no environment `{label}`", f"its environments: {', '.join(labels)}")
    source = next(s for s in plan.drawn if label in (None, s.env))
    kind = plan.labelled(source.env).name
    if kind not in SERVED:
        raise Refusal("RLC0505", f"env `{kind}` is not served", f"these are: {', '.join(SERVED)}")
    return world_of(plan, source), source.env


def writing_of(world: World) -> frozenset[str]:
    """The tools of an environment of ours that write."""
    if isinstance(world, ShopWorld):
        return frozenset(name for name, tool in TOOLS.items() if tool.writes)
    return WRITING if isinstance(world, TauBenchWorld) else frozenset()


class Desks:
    """The sessions of one server's clients, by name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def answer(self, client: str, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The text of a call's answer, and whether it is an error."""
        try:
            if name == BEGIN:
                return self._begin(client, arguments)
            session = self._sessions.get(client)
            if session is None:
                return json.dumps({"error": f"call {BEGIN} first"}), True
            self._sessions.move_to_end(client)
            if name == STATE:
                return json.dumps({"db_hash": session.measure()["db_hash"]}), False
            seen = session.step(Call(name, arguments))
        except InfraFailure as failure:
            return json.dumps({"error": failure.reason}), True
        return seen.text, seen.status == "error"

    def _begin(self, client: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        try:
            task = self.world.task(str(arguments["split"]), int(arguments["number"]))
        except (KeyError, TypeError, ValueError, Refusal) as error:
            return json.dumps({"error": str(error)}), True
        before = self._sessions.pop(client, None)
        if before is not None:
            before.close()
        self._sessions[client] = self.world.reset(task)
        if len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)[1].close()
        return json.dumps({"task": task.id}), False


def server_of(world: World, name: str) -> Any:
    """A server of the official SDK. A client without a session (of a protocol that has none) is one client.

    Raises:
        Refusal: RLC0505, the package `mcp` is not installed.
    """
    needed()
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

    desks, writing = Desks(world), writing_of(world)
    tools = [
        Tool(
            name=tool["function"]["name"],
            description=tool["function"].get("description", ""),
            input_schema=tool["function"].get("parameters") or _NOTHING,
            annotations=ToolAnnotations(read_only_hint=tool["function"]["name"] not in writing),
        )
        for tool in world.tools
    ]
    tools += [
        Tool(name=BEGIN, description="begin a task; not for the agent", input_schema=_TASK),
        Tool(name=STATE, description="the hash of the state; not for the agent", input_schema=_NOTHING,
             annotations=ToolAnnotations(read_only_hint=True)),
    ]  # fmt: skip

    async def listed(context: Any, params: Any) -> Any:
        return ListToolsResult(tools=tools)

    async def called(context: Any, params: Any) -> Any:
        headers = getattr(context.request, "headers", None) or {}
        text, error = desks.answer(headers.get("mcp-session-id", ""), params.name, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=error)

    return Server(name, instructions=world.system, on_list_tools=listed, on_call_tool=called)


def over_stdio(world: World, name: str) -> None:
    """Serve one client over standard input and output until it leaves. Raises as `server_of`."""
    server = server_of(world, name)
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(serve())


def over_http(world: World, name: str, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve clients at http://host:port/mcp until the process is stopped; port 0 is any free one. `ready` is told the
    address when the socket is open.

    Raises:
        Refusal: RLC0710, the port is taken; or as `server_of`.
    """
    app = server_of(world, name).streamable_http_app(json_response=True, host=host)
    import uvicorn

    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise Refusal("RLC0710", f"{host}:{port} cannot be served: {error}", "choose another --port") from error
    ready(f"http://{host}:{bound.getsockname()[1]}/mcp")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[bound])


def export(world: World, folder: Path, count: int) -> list[str]:
    """Write what an env `mcp` or `played` reads: `tasks.jsonl`, the first `count` tasks of each split, `tools.json` and
    `policy.md`; of the shop `talks.jsonl` too, `count` demonstrations. The tasks say what simulated users know of them,
    and what the database holds.

    Returns:
        The names of the files.

    Raises:
        Refusal: RLC0702, the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise Refusal("RLC0702", f"{folder} is not empty", "write into another folder")
    rows, seen = [], set()
    for split in ("train", "test"):
        for number in range(count):
            task = world.task(split, number)
            if task.id in seen:  # a benchmark's tasks go round, and are the same for both splits
                break
            seen.add(task.id)
            rows.append(_row(task, split, number))
    make_directory(folder)
    writing = writing_of(world)
    tools = [{**tool, "annotations": {"readOnlyHint": tool["function"]["name"] not in writing}} for tool in world.tools]
    if isinstance(world, ShopWorld):
        shown = demonstrations(world.config, AgendaUser(), Demonstrators(), count, 0)
        said = "".join(json.dumps(as_record(demo.dialogue), ensure_ascii=False) + "\n" for demo in shown)
        write_file(folder / "talks.jsonl", said.encode())
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_file(folder / "policy.md", world.system.encode())
    write_file(folder / "tools.json", (json.dumps(tools, indent=1, ensure_ascii=False) + "\n").encode())
    write_file(folder / "tasks.jsonl", lines.encode())
    return sorted(path.name for path in folder.iterdir())


def _row(task: Task, split: str, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": task.id,
        "split": split,
        "instruction": task.instruction,
        "gold": [{"name": call.name, "arguments": call.arguments} for call in task.gold],
        "setup": [{"name": BEGIN, "arguments": {"split": split, "number": number}}],
    }
    if outputs := task.payload.get("outputs"):
        row["outputs"] = list(outputs)
    if "rows" in task.payload:
        row["state"] = {table: [list(r) for r in found] for table, found in task.payload["rows"].items()}
        row["user"] = {
            "name": task.payload["name"],
            "wishes": task.payload["wishes"],
            "rows": {table: row["state"][table] for table in ("orders", "order_items")},
        }
    return row
