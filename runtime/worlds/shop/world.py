"""The shop as a world: tasks, sessions over a database of their own, and the verdict on the final content."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from rlspec.compiler.catalog.shop import Shop
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Observation, Task
from rlspec.runtime.worlds.shop import database
from rlspec.runtime.worlds.shop.customers import Rows
from rlspec.runtime.worlds.shop.hearing import hear
from rlspec.runtime.worlds.shop.tasks import generate
from rlspec.runtime.worlds.shop.tools import DISAPPROVED, TOOLS, Desk, ToolError

IMAGES_KEPT = 256
"""Images of recent tasks that a world keeps, some 20 KB each: the rollouts of a group start from the same one."""


def written(call: Call) -> str:
    """A call with its arguments, as something to compare."""
    return json.dumps([call.name, call.arguments], sort_keys=True)


@dataclass(slots=True)
class Writes:
    """Successful writes of a trajectory and those that solve its task; whether they decide on success, and whether
    anything does in a talk that was cut off."""

    made: list[str] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    decide: bool = False
    cut_counts: bool = True


class ShopSession:
    """One trajectory's database and its counts; `approved` are the only writes that its user bears, if it is asked.
    Raises `InfraFailure("env", ...)` when SQLite fails."""

    def __init__(
        self,
        image: bytes,
        reference_hash: str,
        user: str = "",
        counts: dict[str, int] | None = None,
        writes: Writes | None = None,
        approved: Sequence[str] | None = None,
    ) -> None:
        try:
            self._desk = Desk(database.connect(image), user)
        except sqlite3.Error as error:
            raise InfraFailure("env", f"sqlite: {error}") from error
        self._reference_hash = reference_hash
        self._counts = dict(counts or dict.fromkeys(("reads", "writes", "errors", "repeats", "asked_first"), 0))
        self._writes = writes or Writes()
        self._approved = approved
        self._called: set[str] = set()
        self._cut = False

    def step(self, call: Call) -> Observation:
        """Run a call. The agent's mistakes are observations of status "error"; they leave the state as it was."""
        told = written(call)
        self._counts["repeats"] += told in self._called
        self._called.add(told)
        try:
            tool = TOOLS.get(call.name)
            if tool is None:
                raise ToolError("unknown tool")
            tool.check(call.arguments)
            if tool.needs_user and not self._desk.user:
                raise ToolError("identify the user first")
            if self._approved is not None and tool.writes and told not in self._approved:
                raise ToolError(DISAPPROVED)
            text = tool.run(self._desk, **call.arguments)
        except ToolError as error:
            self._counts["errors"] += 1
            return Observation(json.dumps({"error": str(error)}), "error")
        except sqlite3.Error as error:
            raise InfraFailure("env", f"sqlite: {error}") from error
        self._counts["writes" if tool.writes else "reads"] += 1
        if tool.writes:
            self._writes.made.append(told)
        return Observation(text, "ok", wrote=tool.writes)

    def hear(self, agent_text: str) -> None:
        """Take notice of what the agent says to its user: whether it asks for a yes before it writes."""
        if hear(agent_text).act == "confirm" and not self._counts["writes"]:
            self._counts["asked_first"] = 1

    def cut(self) -> None:
        """The talk ended at a limit and not by anybody's word."""
        self._cut = True

    def fork(self) -> ShopSession:
        """A session with the same content, user and counts, which shares nothing with this one."""
        try:
            image = self._desk.database.serialize()
        except sqlite3.Error as error:
            raise InfraFailure("env", f"sqlite: {error}") from error
        writes = replace(self._writes, made=list(self._writes.made))
        twin = ShopSession(image, self._reference_hash, self._desk.user, self._counts, writes, self._approved)
        twin._called, twin._cut = set(self._called), self._cut
        return twin

    def content_hash(self) -> str:
        """The hash of the content as it is now."""
        try:
            return database.content_hash(database.content(self._desk.database))
        except sqlite3.Error as error:
            raise InfraFailure("env", f"sqlite: {error}") from error

    def measure(self) -> dict[str, Any]:
        """The signals of `Shop.MEASURES`. Cut off without `reward_truncated`, there is no final database: its hash is
        empty, and nothing is verified."""
        counts = self._writes.cut_counts or not self._cut
        found = self.content_hash() if counts else ""
        right = sorted(self._writes.made) == sorted(self._writes.gold)
        return {
            "verified": int(counts and (right if self._writes.decide else found == self._reference_hash)),
            "right_writes": int(right),
            "db_hash": found,
            "reference_hash": self._reference_hash,
            "outputs_said": 1,  # its tasks ask for no text, and such tasks pass this check, as in tau-bench
            "identified": int(bool(self._desk.user)),
            **self._counts,
        }

    def close(self) -> None:
        self._desk.database.close()


class ShopWorld:
    """The environment `shop`. Everything random comes from the task."""

    def __init__(self, config: Shop) -> None:
        self.config = config
        self._images: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    @cached_property
    def system(self) -> str:
        """The written policy."""
        return (files("rlspec.runtime.worlds.shop") / "policy.md").read_text(encoding="utf-8")

    @cached_property
    def tools(self) -> Sequence[dict[str, Any]]:
        """The schemas of the tools, OpenAI style."""
        return [tool.schema for tool in TOOLS.values()]

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task of `split` ("train" or "test"); the same one on every call and machine."""
        image = b""

        def hashes(rows: Rows, gold: Sequence[Call]) -> tuple[str, str]:
            nonlocal image
            image = database.image_of(rows)
            return _hashes(image, rows, gold)

        task = generate(self.config, split, number, hashes)
        self._keep(task, image)
        return task

    def reset(self, task: Task) -> ShopSession:
        """A session of its own, in the state in which the task begins."""
        image = self._images.get((task.id, task.payload["reference_hash"]))
        if image is None:
            image = database.image_of(task.payload["rows"])
            self._keep(task, image)
        gold = [written(call) for call in task.gold if TOOLS[call.name].writes]
        decide = self.config.verifier == "write_operations"
        writes = Writes([], gold, decide, self.config.reward_truncated)
        approved = gold if self.config.approval else None
        return ShopSession(image, task.payload["reference_hash"], writes=writes, approved=approved)

    def _keep(self, task: Task, image: bytes) -> None:
        self._images[task.id, task.payload["reference_hash"]] = image
        if len(self._images) > IMAGES_KEPT:
            self._images.popitem(last=False)


def _hashes(image: bytes, rows: Rows, gold: Sequence[Call]) -> tuple[str, str]:
    """The hash of the content before and after the gold calls. A gold call that errs is a bug of the generator."""
    before = database.content_hash({table: rows.get(table, ()) for table in database.WIDTH})
    session = ShopSession(image, "")
    for call in gold:
        observation = session.step(call)
        if observation.status != "ok":
            raise RuntimeError(f"gold call {call} of a generated task fails: {observation.text}")
    after = session.content_hash()
    session.close()
    return before, after
