"""What a cold start may imitate: the solutions' calls, some with a slip that is repaired, or a stronger model's
conversations.

A line of a file of conversations is {"env_string": "codegym_v1@id__Class@{...}", "messages": [...]}, the messages as
OpenAI-compatible endpoints take and give them. A conversation counts when its task belongs to the training split and
its last call submits the right answer; what the messages say of their own success does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.comparators import same
from rlspec.runtime.worlds.codegym.environment import SUBMIT
from rlspec.runtime.worlds.codegym.envstring import BadEnvString, read
from rlspec.runtime.worlds.codegym.host import UNKNOWN
from rlspec.runtime.worlds.codegym.naming import POOL
from rlspec.runtime.worlds.codegym.world import GymWorld
from rlspec.runtime.worlds.protocol import Call, Message, Task


def oracle(world: GymWorld, task: Task, slips: float, rng: np.random.Generator, guesses: float = 0.0) -> list[Message]:
    """The oracle trajectory of a task; with the chance `slips`, one call of a tool that the task does not have, whose
    error is read, comes before one of its calls. With the chance `guesses` it ends somewhere before its end: what was
    seen last and could be an answer is submitted."""
    dialogue = world.demonstration(task)
    draw, where, which, guess, end = rng.random(5)
    if guess < guesses:
        return _guessed(dialogue, 1 + int(end * (len(task.gold) - 2)), task.payload["reference"])
    if draw >= slips:
        return dialogue
    own = {call.name for call in task.gold}
    number = int(where * len(task.gold))
    if task.payload["names"]:  # the right call by a name that another task could have
        names = [name for name in POOL if name not in own]
        others = [Call(name, task.gold[number].arguments) for name in names]
    else:
        others = [call for call in world.calls if call.name not in own]
    if not others:
        return dialogue
    place = 1 + 2 * number  # before an agent message
    slip = Message("agent", "", others[int(which * len(others))])
    return [*dialogue[:place], slip, Message("tool", UNKNOWN, status="error"), *dialogue[place:]]


def _guessed(dialogue: list[Message], calls: int, reference: Any) -> list[Message]:
    """The first so many calls, then what was seen last and has the reference's type as the submission."""
    shown = dialogue[: 1 + 2 * calls]
    for message in reversed(shown):
        if message.role == "tool" and type(answer := _value(message.text)) is type(reference):
            return [*shown, Message("agent", "", Call(SUBMIT, {"answer": answer}))]
    return dialogue


def _value(text: str) -> Any:
    """What a tool's text says: a value, or the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def recorded(world: GymWorld, path: Path) -> list[tuple[Task, list[Message]]]:
    """The conversations of a file that count, in its order.

    Raises:
        Refusal: RLC0701, the file cannot be read, or none of it counts.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"conversations {path}: {error}", "give a JSONL file of conversations") from error
    tasks = {task.payload["env_string"]: task for task in world.all_tasks("train")}
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            env = read(record["env_string"])
            messages = list(_messages(record["messages"]))
        except (BadEnvString, KeyError, TypeError, ValueError) as error:
            raise Refusal("RLC0701", f"conversations {path}, line {number}: {error}", "see docs/codegym.md") from error
        task = tasks.get(record["env_string"])
        if task is None or env.code_id not in world.environments or not _right(world, task, messages):
            continue
        found.append((task, [Message("user", task.instruction), *messages]))
    if not found:
        raise Refusal("RLC0701", f"conversations {path}: none solves a task of the training split", "record others")
    return found


def _messages(records: list[Mapping[str, Any]]) -> Iterator[Message]:
    """Agent and tool messages, one call per message; what system and user say is ours to say."""
    for record in records:
        if record["role"] == "assistant":
            calls = record.get("tool_calls") or []
            if len(calls) > 1:
                raise ValueError("a message has more than one call")
            call = None
            if calls:
                function = calls[0]["function"]
                given = function["arguments"]
                call = Call(function["name"], json.loads(given) if isinstance(given, str) else dict(given))
            yield Message("agent", record.get("content") or "", call)
        elif record["role"] == "tool":
            yield Message("tool", str(record["content"]), status="ok")


def _right(world: GymWorld, task: Task, messages: list[Message]) -> bool:
    calls = [m.call for m in messages if m.call is not None]
    if not calls or calls[-1].name != SUBMIT:
        return False
    comparator = world.environments[task.payload["environment"]].comparator
    return same(comparator, calls[-1].arguments.get("answer"), task.payload["reference"])
