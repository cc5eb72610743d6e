"""An MCP server's tools as a world.

    world = McpWorld(Mcp(url="http://127.0.0.1:8080/mcp", tasks="tasks.jsonl", state_tool="final_state"))
    session = world.reset(world.task("train", 0))      # a session with the server, the task's `setup` calls made

The verdict is about what the agent's calls have written, or about the state that they leave, which a tool of the server
tells; the reference is then the state after the task's gold calls in a session of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from rlspec.compiler.catalog.tool_sides import Mcp
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.distilled import read_talks
from rlspec.runtime.worlds.mcp.connection import Connection, NoAnswer
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Observation, Task
from rlspec.runtime.worlds.task_file import read_tasks, text_of
from rlspec.runtime.worlds.verdicts import Account

UNKNOWN = json.dumps({"error": "unknown tool"})


def state_hash(told: str) -> str:
    """The hash of a state: of JSON its meaning counts, not its layout; of anything else its letters."""
    with suppress(ValueError):
        told = json.dumps(json.loads(told), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


class McpSession:
    """One conversation's session with the server."""

    def __init__(self, world: McpWorld, task: Task, connection: Connection) -> None:
        self._world, self._task, self._connection = world, task, connection
        self._account = Account(task, world.writing)
        self._calls: list[Call] = []
        self._broken = False

    def step(self, call: Call) -> Observation:
        """Run a call. What a tool says of it, errors included, is the observation.

        Raises:
            InfraFailure: the server fails, or does not answer a call that may not be made twice.
        """
        if call.name not in self._world.names:
            seen = Observation(UNKNOWN, "error")
        else:
            seen = self._asked(lambda: self._connection.call(call.name, call.arguments), call.name)
            self._calls.append(call)
            if seen.status == "ok" and call.name in self._world.writing:
                seen = Observation(seen.text, seen.status, wrote=True)
        self._account.count(call, seen)
        return seen

    def _asked(self, ask: Callable[[], Observation], name: str) -> Observation:
        """An answer; a tool that changes nothing is asked again when it gives none."""
        tries = 1 + (0 if name in self._world.writing else self._world.retries)
        for left in reversed(range(tries)):
            try:
                return ask()
            except NoAnswer:
                if not left:
                    self._broken = True
                    raise
            except InfraFailure:
                self._broken = True
                raise
        raise AssertionError("a tool is asked at least once")

    def hear(self, agent_text: str) -> None:
        """What the agent says to its user."""
        self._account.hear(agent_text)

    def cut(self) -> None:
        """The conversation ended at a limit."""
        self._account.cut = True

    def fork(self) -> McpSession:
        """A session of its own in the same state: with the same calls made again.

        Raises:
            InfraFailure: the server fails.
        """
        other = self._world.reset(self._task)
        for call in self._calls:
            other.step(call)
        other._account.said = list(self._account.said)
        return other

    def measure(self) -> dict[str, Any]:
        """The signals of `Mcp.MEASURES`. Of a conversation that was cut off nothing is verified, without
        `reward_truncated`.

        Raises:
            InfraFailure: the server fails.
        """
        config = self._world.config
        out: dict[str, Any] = self._account.measure()
        paid = not self._account.cut or config.reward_truncated
        right, floor = self._account.right, self._account.for_nothing
        if config.state_tool:
            before, after = self._world.hashes(self._task)
            found = self._world.state(self._connection) if paid else ""
            out |= {"db_hash": found, "reference_hash": after}
            if config.verifier == "db_hash":
                right, floor = found == after, before == after
        return {**out, "verified": int(right and paid), "floor": int(floor)}

    def close(self) -> None:
        """Give the session back."""
        self._world.give_back(self._connection, self._broken)


class McpWorld:
    """The environment `mcp`. `retries` more tries to open a session, and of calls that change nothing."""

    slow = True

    def __init__(self, config: Mcp, retries: int = 0) -> None:
        self.config, self.retries, self.at_once = config, retries, config.at_once
        self.file = read_tasks(Path(config.tasks), config.test_share)
        self._system = text_of(config.system, "system")
        self._hashes: dict[str, tuple[str, str]] = {}
        self._idle: list[Connection] = []
        self._lock = Lock()

    # -------------------------------------------------------------------------------------------- what it is like

    @cached_property
    def _server(self) -> tuple[str, list[dict[str, Any]]]:
        """The server's instructions and all its tools."""
        connection = self._open()
        try:
            return connection.instructions, connection.tools()
        finally:
            self.give_back(connection)

    @cached_property
    def _shown(self) -> list[dict[str, Any]]:
        """The tools that the agent has."""
        kept = {self.config.state_tool, *self.config.hidden}
        kept |= {call.name for found in self.file.tasks.values() for t in found for call in t.payload["setup"]}
        return [tool for tool in self._server[1] if tool["function"]["name"] not in kept]

    @property
    def system(self) -> str:
        """The policy of the file, or the server's instructions."""
        return self._system or self._server[0]

    @cached_property
    def tools(self) -> Sequence[dict[str, Any]]:
        """The schemas of the tools that the agent has."""
        return [{"type": tool["type"], "function": tool["function"]} for tool in self._shown]

    @cached_property
    def names(self) -> frozenset[str]:
        """The tools that the agent has, by name."""
        return frozenset(tool["function"]["name"] for tool in self._shown)

    @cached_property
    def writing(self) -> frozenset[str]:
        """The tools that write."""
        if self.config.writing:
            return frozenset(self.config.writing)
        return frozenset(t["function"]["name"] for t in self._shown if not t["annotations"]["readOnlyHint"])

    def ready(self) -> None:
        """Read what is imitated, ask the server for its tools, and hold them against the tasks.

        Raises:
            Refusal: RLC0714, it cannot be reached; RLC0505, there is a tool named that it has not; or as `read_talks`.
        """
        if self.config.distilled:
            read_talks(Path(self.config.distilled))
        try:
            has = {tool["function"]["name"] for tool in self._server[1]}
        except InfraFailure as failure:
            raise Refusal("RLC0714", failure.reason, "start the server, or correct `url` or `command`") from failure
        tasks = [task for found in self.file.tasks.values() for task in found]
        named = dict.fromkeys(self.config.writing, "writing") | dict.fromkeys(self.config.hidden, "hidden")
        named |= {self.config.state_tool: "state_tool"} if self.config.state_tool else {}
        named |= {call.name: f"task `{task.id}`" for task in tasks for call in (*task.gold, *task.payload["setup"])}
        for name, where in named.items():
            if name not in has:
                raise Refusal("RLC0505", f"the server has no tool `{name}`, which {where} names",
                              f"its tools: {', '.join(sorted(has)) or 'none'}")  # fmt: skip

    # ----------------------------------------------------------------------------------------- tasks and sessions

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task of a split."""
        return self.file.task(split, number)

    def reset(self, task: Task) -> McpSession:
        """A session with the server, after the task's `setup` calls.

        Raises:
            InfraFailure: the server fails, or refuses one of them.
        """
        return McpSession(self, task, self._begun(task))

    def _begun(self, task: Task) -> Connection:
        connection = self._open()
        try:
            for call in task.payload["setup"]:
                seen = connection.call(call.name, call.arguments)
                if seen.status == "error":
                    raise InfraFailure("env", f"task {task.id}: its setup call {call.name} fails: {seen.text}")
        except InfraFailure:
            connection.close()
            raise
        return connection

    def _open(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        for _ in range(self.retries):
            try:
                return Connection(self.config)
            except InfraFailure:
                continue
        return Connection(self.config)

    def give_back(self, connection: Connection, broken: bool = False) -> None:
        """A session that nobody needs any more: kept for the next conversation, where they share them."""
        if self.config.reuse and not broken:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()

    # ------------------------------------------------------------------------------------------------- the state

    def state(self, connection: Connection) -> str:
        """The hash of a session's state now.

        Raises:
            InfraFailure: the server fails, or its tool refuses.
        """
        seen = connection.call(self.config.state_tool, {})
        if seen.status == "error":
            raise InfraFailure("env", f"{self.config.state_tool} fails: {seen.text}")
        return state_hash(seen.text)

    def hashes(self, task: Task) -> tuple[str, str]:
        """The hash of a task's state before anything is done, and after its gold calls.

        Raises:
            InfraFailure: the server fails, or a gold call does.
        """
        if task.id not in self._hashes:
            connection = self._begun(task)
            try:
                before = self.state(connection)
                for call in task.gold:
                    seen = connection.call(call.name, call.arguments)
                    if seen.status == "error":
                        raise InfraFailure("env", f"task {task.id}: its gold call {call.name} fails: {seen.text}")
                self._hashes[task.id] = before, self.state(connection)
            except InfraFailure:
                connection.close()
                raise
            self.give_back(connection)
        return self._hashes[task.id]

    def floor(self) -> dict[str, float]:
        """What a policy that does nothing solves, as a share of each split's tasks.

        Raises:
            InfraFailure: the server fails.
        """
        by_hash = self.config.verifier == "db_hash"

        def free(task: Task) -> bool:
            if not by_hash:
                return Account(task, self.writing).for_nothing
            before, after = self.hashes(task)
            return before == after

        splits = {split: found for split, found in self.file.tasks.items() if found}
        return {split: sum(map(free, found)) / len(found) for split, found in splits.items()}
