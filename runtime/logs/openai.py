"""Any OpenAI-style conversations as a log.

A record is an object with `messages`; beside them may stand `task` (conversations of one task are a group), `reward`
(0 or 1: the outcome), `gold` (the calls that solve the task: objects of `name` and `arguments`), `instruction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlspec.runtime.logs.files import read_records, refuse
from rlspec.runtime.logs.log import STAGE
from rlspec.runtime.logs.messages import Reading, Unreadable, dialogue, trajectory_ledger
from rlspec.runtime.logs.tau_bench import Imported
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.worlds.protocol import Call, Task


def read(files: Sequence[Path], env: str, writes: frozenset[str]) -> Imported:
    """Read files of conversations; `writes` are the tools that change the state.

    Raises:
        Refusal: RLC0701 a file cannot be read, RLC0711 it does not hold such conversations.
    """
    tasks: dict[str, Task] = {}
    trajectories: list[Trajectory] = []
    systems: set[str] = set()
    extra = 0
    for path in files:
        for place, record in enumerate(read_records(path)):
            if not isinstance(record.get("messages"), list):
                raise refuse(path, f"entry {place} has no list of `messages`")
            name = str(record.get("task", f"{path.name}:{place}"))
            tasks.setdefault(name, _task(path, place, name, record))
            try:
                talk = dialogue(record["messages"], Reading(writes, "split"))
            except Unreadable as error:
                raise refuse(path, f"entry {place}: {error}") from error
            systems.add(talk.system)
            extra += talk.extra_calls
            group = list(tasks).index(name)
            measures = {f"{env}.verified": _reward(path, place, record)} if "reward" in record else {}
            key = f"{STAGE}/0/{group}/{sum(t.group == group for t in trajectories)}"
            trajectories.append(
                Trajectory(key, env, name, group, trajectory_ledger(talk.dialogue), talk.dialogue, measures)
            )
    if not trajectories:
        raise refuse(files[0], "there is no conversation in it")
    about = {
        "source": "openai",
        "env": env,
        "files": [path.name for path in files],
        "conversations": len(trajectories),
        "tasks": len(tasks),
        "calls_made_turns": extra,
        "tokens": "none: the log does not say what was sampled",
        "system": systems.pop() if len(systems) == 1 else "",
    }
    return Imported(about, list(tasks.values()), trajectories)


def _reward(path: Path, place: int, record: Mapping[str, Any]) -> int:
    if record["reward"] not in (0, 1):
        raise refuse(path, f"entry {place} has the reward {record['reward']!r}, which is not 0 or 1")
    return int(record["reward"])


def _task(path: Path, place: int, name: str, record: Mapping[str, Any]) -> Task:
    calls = record.get("gold", [])
    if not isinstance(calls, list) or not all(
        isinstance(c, Mapping) and isinstance(c.get("name"), str) and isinstance(c.get("arguments"), Mapping)
        for c in calls
    ):
        raise refuse(path, f"entry {place}: `gold` is no list of objects with `name` and `arguments`")
    gold = tuple(Call(c["name"], dict(c["arguments"])) for c in calls)
    return Task(name, "test", str(record.get("instruction", "")), gold)
