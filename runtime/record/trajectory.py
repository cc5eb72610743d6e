"""A trajectory: one conversation from the first word to the verdict, with everything needed to score it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.worlds.protocol import Message

Finish = Literal["user_done", "transferred", "turn_limit", "context_limit", "malformed", "failed"]


@dataclass(slots=True)
class Trajectory:
    """`key` is its place ("train/12/5/3": stage, step, task of the step, rollout), `group` the number of its group in
    the step. `measures` holds what env, user and judge measured, by "label.name": a number or a text for a trajectory,
    a list with one entry per agent turn for a turn. `scores` holds what the program computed: numbers for trajectory
    values, lists for turn values. `failure` is set when the machinery failed; such a trajectory has no scores."""

    key: str
    env: str
    task: str
    group: int
    ledger: Ledger
    dialogue: list[Message]
    measures: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    finish: Finish = "user_done"
    failure: str | None = None
