"""Tasks from a JSONL file, for environments whose tools are an MCP server's or played by a model.

    {"id": "t1", "instruction": "...", "gold": [{"name": "cancel", "arguments": {"order": "W1"}}], "setup": [...],
     "outputs": ["42"], "split": "train", "state": {...}, "user": {...}}

Only `id` and `instruction` are required. A task without a `split` belongs to the split that a hash of its id says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Task

SPLITS = ("train", "test")
FIELDS = ("id", "instruction", "gold", "setup", "outputs", "split", "state", "user")
KIND = "every line is an object with `id` and `instruction`, see docs/tools.md"


@dataclass(frozen=True, slots=True)
class TaskFile:
    """Tasks by split. Numbers go round: after the last task comes the first again."""

    path: Path
    tasks: Mapping[str, Sequence[Task]]

    def task(self, split: str, number: int) -> Task:
        """The `number`-th task of a split.

        Raises:
            Refusal: RLC0505, the split has no task.
        """
        found = self.tasks.get(split, ())
        if not found:
            raise Refusal("RLC0505", f"{self.path} has no task of the split {split}",
                          "give tasks a `split`, or change `test_share`")  # fmt: skip
        return found[number % len(found)]


def read_tasks(path: Path, test_share: float) -> TaskFile:
    """The tasks of a file.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 a line is no task, or an id occurs twice.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error}", "name a JSONL file in `tasks`") from error
    tasks: dict[str, list[Task]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            task = _task(json.loads(line), test_share)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Refusal("RLC0711", f"{path}: line {number} is no task: {error}", KIND) from error
        if task.id in seen:
            raise Refusal("RLC0711", f"{path}: line {number}: task `{task.id}` is there twice", KIND)
        seen.add(task.id)
        tasks[task.split].append(task)
    if not seen:
        raise Refusal("RLC0711", f"{path} has no task", KIND)
    return TaskFile(path, tasks)


def _task(row: Any, test_share: float) -> Task:
    if not isinstance(row, dict):
        raise ValueError("it is no object")
    strange = [name for name in row if name not in FIELDS]
    if strange:
        raise ValueError(f"unknown field `{strange[0]}`")
    for name in ("id", "instruction"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise ValueError(f"`{name}` is missing or no text")
    name = row["id"]
    split = row.get("split") or ("test" if _draw(name) < test_share else "train")
    if split not in SPLITS:
        raise ValueError(f"`split` is {split!r}, not one of {', '.join(SPLITS)}")
    outputs = row.get("outputs", [])
    if not isinstance(outputs, list) or not all(isinstance(text, str) for text in outputs):
        raise ValueError("`outputs` is a list of texts")
    user = row.get("user", {})
    if not isinstance(user, dict):
        raise ValueError("`user` is an object")
    payload = {**user, "setup": calls(row.get("setup", [])), "outputs": tuple(outputs), "state": row.get("state")}
    return Task(name, split, row["instruction"], calls(row.get("gold", [])), payload)


def calls(rows: Any) -> tuple[Call, ...]:
    """Calls as they are written.

    Raises:
        ValueError: they are none.
    """
    if not isinstance(rows, list):
        raise ValueError("calls are a list of objects with `name` and `arguments`")
    out = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ValueError("a call is an object with `name` and `arguments`")
        arguments = row.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of `{row['name']}` are no object")
        out.append(Call(row["name"], arguments))
    return tuple(out)


def _draw(name: str) -> float:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") / 2**64


def text_of(path: str, what: str) -> str:
    """The text of a file that a field names; empty for an empty name.

    Raises:
        Refusal: RLC0701, it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error}", f"name a text file in `{what}`") from error
