"""Triples: a failed attempt, the calls that solve its task, and what was said of it, from runs that sample failures
again (Fission-GRPO, arXiv 2601.15625, trains its simulator on about 2,000 of them).

    write(triples_of(Path("runs/fission-1f2e")), Path("triples.jsonl"))
    found = read(Path("triples.jsonl"))

One JSON object per line: `context` (the whole dialogue, and the place of its first fault), `gold` calls, `diagnosis`,
whose words it is (`by`), and the same as `messages`, which is what a diagnostician is trained on: the case, and the
diagnosis.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlspec.compiler.catalog.diagnosticians import Diagnostician
from rlspec.compiler.catalog.resampling import Resample
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.failures import output_name
from rlspec.compiler.plan import Plan
from rlspec.runtime.record.directory import PLAN, RunDirectory
from rlspec.runtime.record.durable import write_file
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import derived_seed
from rlspec.runtime.worlds.diagnosticians import as_json, case_text
from rlspec.runtime.worlds.protocol import Call, Message
from rlspec.runtime.worlds.registry import world_of


@dataclass(frozen=True, slots=True)
class Triple:
    """`place` is that of the first fault in the dialogue (its length: the end); `task` names the task, `key` the
    trajectory, `stage` the stage that would try it again."""

    key: str
    task: str
    stage: str
    dialogue: tuple[Message, ...]
    place: int
    gold: tuple[Call, ...]
    diagnosis: str
    by: str


def triples_of(path: Path) -> Iterator[Triple]:
    """Every failed attempt of a run, in the order in which they were made.

    Raises:
        Refusal: RLC0705 there is no run, or none of its stages samples failures again; RLC0706 it is damaged.
    """
    with RunDirectory.open(path, None, resume=False) as run:
        plan = Plan.model_validate_json((path / PLAN).read_text(encoding="utf-8"))
        riding = [(s.label, c) for s in plan.stages if isinstance(c := s.component(), Resample)]
        if not riding:
            cure = "run a spec with a `resample` stage"
            raise Refusal("RLC0705", f"no stage of the run at {path} diagnoses failures", cure)
        written = {
            (str(line["stage"]), str(line["key"])): (str(line["feedback"]), str(line["by"]))
            for line in run.diagnoses.read()
            if line["feedback"] is not None
        }
        for label, stage in riding:
            tasks = _Tasks(plan, stage.within)
            for name, step in run.steps():
                for trajectory in run.read_trajectories(name, step) if name == stage.within else ():
                    if trajectory.failure is None and trajectory.scores.get(output_name(label)):
                        gold = tasks.gold(trajectory)
                        said, by = written.get(
                            (label, trajectory.key), (str(trajectory.measures[f"{label}.feedback"]), "rule")
                        )
                        yield Triple(
                            trajectory.key,
                            trajectory.task,
                            label,
                            tuple(trajectory.dialogue),
                            int(trajectory.measures[f"{label}.fault"]),
                            gold,
                            said,
                            by,
                        )


class _Tasks:
    """Gold calls by trajectory: a task is made again by its number, which stands in the key of its first attempts."""

    def __init__(self, plan: Plan, within: str) -> None:
        stage = next(s for s in plan.stages if s.label == within).component()
        assert isinstance(stage, Grpo)
        self._per_step, self._within = stage.tasks_per_step, within
        self._worlds = {source.env: world_of(plan, source) for source in plan.drawn}
        self._gold: dict[tuple[str, str], tuple[Call, ...]] = {}

    def gold(self, trajectory: Trajectory) -> tuple[Call, ...]:
        name = (trajectory.env, trajectory.task)
        if name not in self._gold:
            stage, step, position, _ = trajectory.key.split("/")
            if stage != self._within:
                raise Refusal(
                    "RLC0706", f"{trajectory.key} tries task {trajectory.task} again, whose first attempt is gone"
                )
            number = int(step) * self._per_step + int(position)
            self._gold[name] = self._worlds[trajectory.env].task("train", number).gold
        return self._gold[name]


def write(triples: Iterable[Triple], path: Path) -> int:
    """Write a file of triples, in their order; how many they are. Raises Refusal RLC0702."""
    lines = [json.dumps(_as_json(triple)) + "\n" for triple in triples]
    write_file(path, "".join(lines).encode())
    return len(lines)


def _as_json(triple: Triple) -> dict[str, Any]:
    case = case_text(triple.dialogue, triple.place, triple.gold)
    return {
        "key": triple.key,
        "task": triple.task,
        "stage": triple.stage,
        "context": {"dialogue": [as_json(m) for m in triple.dialogue], "fault": triple.place},
        "gold": [{"name": call.name, "arguments": call.arguments} for call in triple.gold],
        "diagnosis": triple.diagnosis,
        "by": triple.by,
        "messages": [{"role": "user", "content": case}, {"role": "assistant", "content": triple.diagnosis}],
    }


def read(path: Path) -> list[Triple]:
    """The triples of a file. Only `context`, `gold` and `diagnosis` have to be there.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 a line is no triple.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error}", "make it with `rlc export triples`") from error
    out = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            out.append(_triple(json.loads(line), number))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"line {number} of {path} is no triple: {type(error).__name__} {error}"
            raise Refusal("RLC0711", reason, "make the file with `rlc export triples`") from error
    return out


def _triple(row: dict[str, Any], number: int) -> Triple:
    dialogue = tuple(_message(entry) for entry in row["context"]["dialogue"])
    diagnosis, place = row["diagnosis"], row["context"]["fault"]
    if not isinstance(diagnosis, str) or not isinstance(place, int) or not 0 <= place <= len(dialogue):
        raise ValueError("`diagnosis` is a text, `fault` a place of the dialogue")
    return Triple(
        str(row.get("key", number)),
        str(row.get("task", number)),
        str(row.get("stage", "")),
        dialogue,
        place,
        tuple(_call(entry) for entry in row["gold"]),
        diagnosis,
        str(row.get("by", "")),
    )


def _message(entry: dict[str, Any]) -> Message:
    call = entry.get("call")
    if entry["role"] not in ("user", "agent", "tool"):
        raise ValueError(f"role {entry['role']!r}")
    return Message(
        entry["role"],
        str(entry.get("text", "")),
        _call(call) if call is not None else None,
        entry.get("status"),
        bool(entry.get("wrote", False)),
        entry.get("malformed"),
    )


def _call(entry: dict[str, Any]) -> Call:
    return Call(str(entry["name"]), dict(entry["arguments"]))


def parted(found: Sequence[Triple], held_out: int, seed: int) -> tuple[list[Triple], list[Triple]]:
    """(triples to learn from, triples to measure on), the latter `held_out` or a few more: all of some tasks, which are
    drawn by the seed, whatever the order of the file."""

    def place(task: str) -> str:
        return hashlib.sha256(f"{seed}/{task}".encode()).hexdigest()

    apart: set[str] = set()
    counts = Counter(triple.task for triple in found)
    for task in sorted(counts, key=place):
        if sum(counts[t] for t in apart) >= held_out:
            break
        apart.add(task)
    return [t for t in found if t.task not in apart], [t for t in found if t.task in apart]


def usable(stage: Diagnostician, label: str, seed: int) -> tuple[list[Triple], list[Triple]]:
    """A stage's triples, parted.

    Raises:
        Refusal: RLC0505 there are too few; as `read`.
    """
    found = read(Path(stage.data))
    learned, held = parted(found, stage.held_out, derived_seed(seed, label, "held out"))
    if len(learned) < stage.batch or not held:
        reason = (
            f"{stage.data} holds {len(found)} triples; with {len(held)} held out there is no batch of {stage.batch}"
        )
        raise Refusal("RLC0505", reason, "export a longer run, or lower `batch` and `held_out`")
    return learned, held
