"""Results of tau-bench (v1) as a log: conversations, the verdict that the benchmark gave, its tasks and gold calls.

A result is an object with `task_id`, `trial`, `reward` and the conversation (`messages`, or `traj` as the benchmark's
own files call it). Gold calls and hashes come from a file of tasks; without one, from each result's `info`.

Facts of the benchmark that are used here (sierra-research/tau-bench): only the first call of a message is executed; a
talk ends when the user says ###STOP### or the agent transfers it; errors are answers that begin with "Error"; which
tools write is told by the domain's code, so it stands below.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlspec.runtime.logs.files import read_records, refuse
from rlspec.runtime.logs.log import STAGE
from rlspec.runtime.logs.messages import Reading, Unreadable, dialogue, trajectory_ledger
from rlspec.runtime.record.trajectory import Finish, Trajectory
from rlspec.runtime.worlds.protocol import Call, Message, Task

WRITES: dict[str, frozenset[str]] = {
    "airline": frozenset(
        {
            "book_reservation",
            "cancel_reservation",
            "send_certificate",
            "update_reservation_baggages",
            "update_reservation_flights",
            "update_reservation_passengers",
        }
    ),
    "retail": frozenset(
        {
            "cancel_pending_order",
            "exchange_delivered_order_items",
            "modify_pending_order_address",
            "modify_pending_order_items",
            "modify_pending_order_payment",
            "modify_user_address",
            "return_delivered_order_items",
        }
    ),
}
"""Tools that change a domain's database."""

STOP, TRANSFER = "###STOP###", "transfer_to_human_agents"


@dataclass(frozen=True, slots=True)
class Imported:
    """What becomes a log: see `rlspec.runtime.logs.log.write`."""

    about: dict[str, Any]
    tasks: list[Task]
    trajectories: list[Trajectory]


def read(files: Sequence[Path], tasks: Path | None, env: str) -> Imported:
    """Read result files. `tasks` is the file of tasks, by default `tasks.json` beside the first file; `env` the label
    of the environment that measures are named by.

    Raises:
        Refusal: RLC0701 a file cannot be read, RLC0711 it does not hold such results.
    """
    results = [(path, record) for path in files for record in read_records(path)]
    beside = files[0].parent / "tasks.json"
    path = tasks or (beside if beside.is_file() else None)
    known, initial = _known(path) if path is not None else ({}, None)
    writes = frozenset().union(*WRITES.values())
    made: dict[int, Task] = {}
    trajectories: list[Trajectory] = []
    systems: set[str] = set()
    extra, trials, seen = 0, Counter[int](), set[str]()
    for source, result in results:
        number = _number(source, result, "task_id")
        entry = known.get(number) or _entry_of(result)
        if entry is None:
            raise refuse(source, f"task {number} has no gold calls", "give the file of tasks with --tasks")
        if number not in made:
            made[number] = _task(path if number in known and path is not None else source, number, entry, initial)
        messages = result.get("messages") or result.get("traj") or []
        try:
            if not isinstance(messages, list):
                raise Unreadable("its conversation is no list of messages")
            talk = dialogue(messages, Reading(writes, "first"))
        except Unreadable as error:
            raise refuse(source, f"task {number}: {error}") from error
        systems.add(talk.system)
        extra += talk.extra_calls
        said = json.dumps([number, result.get("trial"), messages], sort_keys=True)
        if "trial" in result and said in seen:
            raise refuse(source, f"task {number}: trial {result['trial']} is there twice", "name every file once")
        seen.add(said)
        key = f"{STAGE}/0/{number}/{trials[number]}"
        trials[number] += 1
        trajectories.append(_trajectory(source, key, env, made[number], number, result, talk.dialogue))
    if not trajectories:
        raise refuse(files[0], "there is no conversation in it")
    trajectories.sort(key=lambda t: t.group)
    about = {
        "source": "tau-bench",
        "env": env,
        "files": [path.name for path in (*files, *([path] if path is not None else []))],
        "conversations": len(trajectories),
        "tasks": len(made),
        "failed": sum(t.failure is not None for t in trajectories),
        "calls_not_executed": extra,
        "tokens": "none: the log does not say what was sampled",
        "system": systems.pop() if len(systems) == 1 else "",
    }
    return Imported(about, [made[n] for n in sorted(made)], trajectories)


def _known(path: Path) -> tuple[dict[int, Mapping[str, Any]], str | None]:
    """The tasks of a file by their numbers, which are their places unless they say otherwise, and the hash of the first
    database where it is told."""
    records = read_records(path)
    whole = records[0] if len(records) == 1 and "tasks" in records[0] else {}
    listed, initial = whole.get("tasks", records), whole.get("initial_hash")
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise refuse(path, "its `tasks` are no list of objects")
    if initial is not None and not isinstance(initial, str):
        raise refuse(path, "its `initial_hash` is no text")
    numbered = [{"index": place, **entry} for place, entry in enumerate(listed)]
    return {_number(path, entry, "index"): entry for entry in numbered}, initial


def _entry_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The task inside a result of the benchmark itself."""
    info = result.get("info")
    entry = info.get("task") if isinstance(info, Mapping) else None
    if not isinstance(entry, Mapping):
        return None
    reward = info.get("reward_info") if isinstance(info, Mapping) else None
    inner = reward.get("info") if isinstance(reward, Mapping) else None
    gold = inner.get("gt_data_hash") if isinstance(inner, Mapping) else None
    return {**entry, "gold_hash": gold}


def _task(path: Path, number: int, entry: Mapping[str, Any], initial: str | None) -> Task:
    actions, outputs = entry.get("actions") or [], entry.get("outputs") or []
    if not isinstance(actions, list) or not all(
        isinstance(c, Mapping) and isinstance(c.get("name"), str) and isinstance(c.get("kwargs"), Mapping)
        for c in actions
    ):
        raise refuse(path, f"task {number}: `actions` is no list of objects with `name` and `kwargs`")
    if not isinstance(outputs, list) or not all(isinstance(text, str) for text in outputs):
        raise refuse(path, f"task {number}: `outputs` is no list of texts")
    gold = tuple(Call(call["name"], dict(call["kwargs"])) for call in actions)
    payload: dict[str, Any] = {"outputs": outputs}
    if initial is not None:
        payload["initial_hash"] = initial
    if entry.get("gold_hash") is not None:
        payload["reference_hash"] = entry["gold_hash"]
    return Task(f"tau_bench.test.{number}", "test", str(entry.get("instruction", "")), gold, payload)


def _trajectory(
    source: Path, key: str, env: str, task: Task, number: int, result: Mapping[str, Any], talk: list[Message]
) -> Trajectory:
    reward, info = result.get("reward"), result.get("info")
    broken = info.get("error") if isinstance(info, Mapping) else None
    if reward not in (0, 1):
        raise refuse(source, f"task {number} has the reward {reward!r}, which is not 0 or 1")
    measures: dict[str, Any] = {f"{env}.verified": int(reward)}
    if task.payload.get("reference_hash") is not None:
        measures[f"{env}.reference_hash"] = task.payload["reference_hash"]
    if broken is not None:
        return Trajectory(key, env, task.id, number, trajectory_ledger(talk), talk, {}, {}, "failed", f"env: {broken}")
    return Trajectory(key, env, task.id, number, trajectory_ledger(talk), talk, measures, {}, _finish(talk))


def _finish(talk: Sequence[Message]) -> Finish:
    if any(m.call is not None and m.call.name == TRANSFER for m in talk):
        return "transferred"
    said = [m.text for m in talk if m.role == "user"]
    return "user_done" if said and STOP in said[-1] else "turn_limit"


def _number(path: Path | None, entry: Any, name: str) -> int:
    value = entry.get(name) if isinstance(entry, Mapping) else None
    if not isinstance(value, int):
        raise refuse(path or Path("?"), f"an entry has no whole number as its `{name}`")
    return value
