"""Users who do not listen: one whose whole request stands in the first message, and recordings, replayed.

users = StaticUsers(lambda task, rng, phrasing: task.instruction)
users = RecordedUsers(lambda task: [["hi , please cancel W12", "yes", "no thanks , bye"]], "leave")
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import InfraFailure, Task, UserTurn

Opening = Callable[[Task, np.random.Generator, str], str]
"""The first message of a task, from the user's random numbers and the phrasing."""
Recordings = Callable[[Task], Sequence[Sequence[str]]]
"""The user's messages of every recorded conversation about a task."""
TASKS_KEPT = 512


class Playing:
    """One talk: these messages one after the other, whatever is said between them. After the last one the user is gone,
    or says it again for as long as anybody listens."""

    def __init__(self, messages: Sequence[str], repeat: bool = False) -> None:
        self._messages, self._repeat, self._next = list(messages), repeat, 0

    def first(self) -> UserTurn:
        """The opening line."""
        return self.reply("")

    def reply(self, agent_text: str) -> UserTurn:
        """The next message. After the end it is silence."""
        place = min(self._next, len(self._messages) - 1) if self._repeat else self._next
        self._next += 1
        if place >= len(self._messages):
            return UserTurn("", True)
        last = place == len(self._messages) - 1
        return UserTurn(self._messages[place], last and place > 0 and not self._repeat)

    def measure(self) -> dict[str, Any]:
        """Nothing: these users have no signals."""
        return {}


class StaticUsers:
    """The user simulator `static`."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> Playing:
        """A user of this task, who speaks once."""
        return Playing([self._opening(task, rng, phrasing)])


class RecordedUsers:
    """The user simulator `recorded`. Which recording is replayed is drawn from the user's random numbers."""

    def __init__(self, recordings: Recordings, at_the_end: Literal["leave", "repeat"] = "leave") -> None:
        self._recordings, self._repeat = recordings, at_the_end == "repeat"
        self._kept: OrderedDict[str, Sequence[Sequence[str]]] = OrderedDict()

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> Playing:
        """A recording of this task.

        Raises:
            InfraFailure: there is none.
        """
        found = self._kept.get(task.id)
        if found is None:
            found = self._kept[task.id] = self._recordings(task)
            if len(self._kept) > TASKS_KEPT:
                self._kept.popitem(last=False)
        if not found:
            raise InfraFailure("user", f"there is no recording of task {task.id}")
        return Playing(found[int(rng.random() * len(found))], self._repeat)


def read_recordings(path: Path) -> dict[str, list[list[str]]]:
    """The user's messages of recorded conversations, by the id of the task: from a log's folder, or a JSONL file of
    objects with `task` and `messages`. Conversations that failed or in which the user says nothing are left out.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 it holds something else, or whatever reading a log raises.
    """
    out: dict[str, list[list[str]]] = {}
    if path.is_dir():
        from rlspec.runtime.logs.log import Log  # logs need the worlds' registry

        for trajectory in Log.open(path).trajectories():
            said = [m.text for m in trajectory.dialogue if m.role == "user" and m.text]
            if trajectory.failure is None and said:
                out.setdefault(trajectory.task, []).append(said)
        return out
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error}", "name a log or a JSONL file in `source`") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            task, said = _recording(path, number, line)
            if said:
                out.setdefault(task, []).append(said)
    return out


def _recording(path: Path, number: int, line: str) -> tuple[str, list[str]]:
    try:
        body = json.loads(line)
        messages = body["messages"]
        said = [m["content"] for m in messages if m["role"] == "user" and m["content"]]
        if isinstance(body["task"], str) and all(isinstance(text, str) for text in said):
            return body["task"], said
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, number) from error
    raise _unreadable(path, number)


def _unreadable(path: Path, number: int) -> Refusal:
    words = "an object with `task` (a text) and `messages` (`role`, `content`)"
    return Refusal("RLC0711", f"{path}: line {number} is no recording", f"every line is {words}")


def of(recordings: Mapping[str, Sequence[Sequence[str]]]) -> Recordings:
    """Recordings that were read, as `RecordedUsers` wants them."""
    return lambda task: recordings.get(task.id, ())
