"""What a run directory has to tell, as plain data: for the terminal, for JSON, for a page.

run = RunDirectory.open(path, None, resume=False)
report.metrics_table(run.metrics.read(), "train")            # first, middle, last
report.evaluations(run.metrics.read())                       # pass^k before and after
key, place = report.find(run, "train/12/5/3")
report.describe(trajectory, report.formulas(run))            # turn by turn
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rlspec.runtime.record import store
from rlspec.runtime.record.directory import PLAN, RunDirectory
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal

_PLACE = ("stage", "step", "kind", "before", "after", "at_step", "time")
_TELLING = ("success", "reward", "reward_mean", "loss")


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of a stage: its values at the stage's lines (None where a line lacks it)."""

    name: str
    values: tuple[float | None, ...]

    @property
    def finite(self) -> list[float]:
        return [value for value in self.values if value is not None and math.isfinite(value)]


@dataclass(frozen=True, slots=True)
class Formulas:
    """Names of one source's results: its reward, the reward's terms with their text, its advantage."""

    reward: str
    terms: tuple[tuple[str, str], ...]
    advantage: str


def is_evaluation(line: Mapping[str, Any]) -> bool:
    """Whether a line of metrics is an evaluation's."""
    return line.get("kind") == "evaluation" or "after" in line or "before" in line


def training_stages(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Stages that learn, in the order of their first line."""
    return list(dict.fromkeys(str(line.get("stage")) for line in lines if not is_evaluation(line)))


def metrics_table(lines: Sequence[Mapping[str, Any]], stage: str) -> tuple[list[int], list[Row]]:
    """The steps of a stage, and a row for each of its numbers: success, rewards and losses first, then as in
    the lines."""
    own = [line for line in lines if line.get("stage") == stage]
    names = dict.fromkeys(
        name
        for line in own
        for name, value in line.items()
        if name not in _PLACE and isinstance(value, int | float) and not isinstance(value, bool)
    )
    ordered = sorted(names, key=_rank)  # stable
    rows = [Row(name, tuple(_number(line.get(name)) for line in own)) for name in ordered]
    return [int(line.get("step", 0)) for line in own], rows


def _rank(name: str) -> int:
    """How much a metric tells of whether a stage learned: its place in `_TELLING`."""
    last = name.rpartition(".")[2]
    return _TELLING.index(last) if last in _TELLING else len(_TELLING)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def curve(rows: Sequence[Row]) -> Row | None:
    """The row that shows best whether a stage learned: success, else a reward, else a loss, else the
    first."""
    return min(rows, key=lambda row: _rank(row.name), default=None)


def evaluations(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each evaluation: `stage`, `step`, `when` ("after coldstart", "in train at step 100"), its numbers."""
    found = []
    for line in lines:
        if not is_evaluation(line):
            continue
        about = line.get("after") or line.get("before") or ""
        when = f"{'after' if 'after' in line else 'before'} {about}" if about else ""
        if "at_step" in line:
            when = f"in {about} at step {line['at_step']}"
        numbers = {name: value for name, value in line.items() if name not in _PLACE}
        found.append({"stage": line.get("stage"), "step": line.get("step"), "when": when, **numbers})
    return found


def formulas(run: RunDirectory) -> dict[str, Formulas]:
    """Each environment's reward, terms and advantage, by the plan; {} when the plan declares no sources.

    Raises:
        Refusal: RLC0706 when the plan is damaged.
    """
    path = run.path / PLAN
    try:
        plan = json.loads(path.read_bytes())
        return {
            source["env"]: Formulas(
                source["reward"],
                tuple((term["output"], term["text"]) for term in source["terms"]),
                source["advantage"],
            )
            for source in plan.get("sources", [])
            if source.get("stage") is None
        }
    except OSError as error:
        raise Refusal("RLC0701", f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal("RLC0706", f"{path} is damaged: {error}", "restore it from a copy") from error


def find(run: RunDirectory, key: str, step: int | None = None) -> tuple[Trajectory, tuple[str, int]]:
    """The trajectory of that key, and the (stage, step) of its file. Evaluations ask the same tasks again, so
    a key may be in several files: `step` chooses one, else the file that the key names, else the latest is
    taken.

    Raises:
        Refusal: RLC0705 when there is none, with near keys.
    """
    stage, _, rest = key.partition("/")
    named = rest.partition("/")[0]
    steps = [place for place in reversed(run.steps()) if place[0] == stage and step in (None, place[1])]
    steps.sort(key=lambda place: str(place[1]) != named)
    known: list[str] = []
    for place in steps:
        keys = store.read_keys(run.trajectories / store.file_name(*place))
        if key in keys:
            return run.read_trajectories(*place)[keys.index(key)], place
        known += keys
    if not steps:
        stages = list(dict.fromkeys(name for name, _ in run.steps()))
        cure = f"trajectories are kept of {', '.join(stages)}" if stages else "no trajectories are kept yet"
        at = "" if step is None else f" at step {step}"
        raise Refusal("RLC0705", f"{run.path} has no trajectories of stage {stage}{at}", cure)
    near = get_close_matches(key, known, n=3, cutoff=0.5)
    raise Refusal("RLC0705", f"{run.path} has no trajectory {key}", f"near ones: {', '.join(near)}" if near else "")


def worth(trajectory: Trajectory, known: Mapping[str, Formulas]) -> float | None:
    """What a trajectory got: its reward (the sum of a turn-level one), without one whether it was verified;
    None when the machinery lost it."""
    if trajectory.failure is not None:
        return None
    names = known.get(trajectory.env)
    value = trajectory.scores.get(names.reward) if names else None
    if value is None:
        value = trajectory.measures.get(f"{trajectory.env}.verified", 0.0)
    return math.fsum(value) if isinstance(value, list) else float(value)


def good_and_bad(trajectories: Sequence[Trajectory], known: Mapping[str, Formulas]) -> list[tuple[str, Trajectory]]:
    """("good", the best) and ("bad", the worst); one alone when they got the same, none when all were lost.
    Of equals the shortest is taken: it is the quickest to read."""
    scored = [(value, len(t.dialogue), t) for t in trajectories if (value := worth(t, known)) is not None]
    if not scored:
        return []
    good = min(scored, key=lambda entry: (-entry[0], entry[1]))
    bad = min(scored, key=lambda entry: (entry[0], entry[1]))
    if good[0] == bad[0]:
        return [("all got the same", good[2])]
    return [("good", good[2]), ("bad", bad[2])]


def describe(trajectory: Trajectory, known: Mapping[str, Formulas]) -> dict[str, Any]:
    """A trajectory turn by turn: every message with what was measured and computed for its turn; then what
    belongs to the whole. Agent messages number the turns."""
    ledger, names = trajectory.ledger, known.get(trajectory.env)
    turns = ledger.turn_slices()
    spans = [span for span in ledger.spans if span.kind == "agent"]
    logprobs = ledger.logprobs()
    messages: list[dict[str, Any]] = []
    turn = -1
    for message in trajectory.dialogue:
        entry: dict[str, Any] = {"role": message.role, "text": message.text}
        if message.call is not None:
            entry["call"] = {"name": message.call.name, "arguments": message.call.arguments}
        for name in ("status", "malformed"):
            if getattr(message, name) is not None:
                entry[name] = getattr(message, name)
        if message.wrote:
            entry["wrote"] = True
        if message.role == "agent":
            turn += 1
            entry["turn"] = turn
            if turn < len(turns):
                count = turns[turn].stop - turns[turn].start
                entry["tokens"], entry["version"] = count, spans[turn].version
                if count:
                    entry["logprob"] = float(logprobs[turns[turn]].mean(dtype="float64"))
            entry["signals"] = _at(trajectory.measures, turn, len(turns))
            entry["scores"] = _at(trajectory.scores, turn, len(turns))
        messages.append(entry)
    scores = {name: value for name, value in trajectory.scores.items() if not _by_turn(value, len(turns))}
    found = {
        "key": trajectory.key,
        "env": trajectory.env,
        "task": trajectory.task,
        "group": trajectory.group,
        "finish": trajectory.finish,
        "failure": trajectory.failure,
        "turns": len(turns),
        "tokens": len(ledger),
        "agent_tokens": sum(turn.stop - turn.start for turn in turns),
        "messages": messages,
        "signals": {n: v for n, v in trajectory.measures.items() if not _by_turn(v, len(turns))},
        "scores": scores,
    }
    if names is not None and names.reward in trajectory.scores:
        terms = [{"text": text, "value": trajectory.scores.get(output)} for output, text in names.terms]
        found["reward"] = {"name": names.reward, "value": trajectory.scores[names.reward], "terms": terms}
        advantage = trajectory.scores.get(names.advantage)
        found["advantage"] = {"name": names.advantage, "value": advantage}
        own = {names.reward, names.advantage, *(output for output, _ in names.terms)}
        found["scores"] = {name: value for name, value in scores.items() if name not in own}
    return found


def _by_turn(value: Any, turns: int) -> bool:
    return isinstance(value, list) and len(value) == turns


def _at(values: Mapping[str, Any], turn: int, turns: int) -> dict[str, Any]:
    """The entries of one turn."""
    return {name: value[turn] for name, value in values.items() if _by_turn(value, turns) and turn < turns}
