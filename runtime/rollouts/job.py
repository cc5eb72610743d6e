"""What is to be rolled out."""

from __future__ import annotations

from dataclasses import dataclass

from rlspec.runtime.recovery import Start


@dataclass(frozen=True, slots=True)
class Job:
    """A conversation to be had. `key` names it and its random numbers; `group` is its group in the step; `start` the
    failed attempt that it goes on from, if it does; `user` the label of another user than training's."""

    key: str
    env: str
    split: str
    task: int
    group: int
    phrasing: str
    start: Start | None = None
    user: str = ""
