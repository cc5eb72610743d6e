"""Resampling: trajectories that failed become groups of their own, with what went wrong in their context.

    stage train   : grpo { tasks_per_step = 16tasks  group = 8trajs }
    stage fission : resample { within = train  group = 8trajs  trigger = 6steps }
    reward R : real@traj on fission = ...          # without it the recovery groups have the environment's formulas

Recovery groups are scored by a source of their own, so their statistics never mix with those of the groups that they
came from.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rlspec.compiler.catalog.base import Ref, Unit
from rlspec.compiler.catalog.stages import Stage, Work


class Resample(Stage):
    """Failed trajectories are sampled again as groups of their own, inside a training stage (Fission-GRPO 2026)."""

    NAME: ClassVar[str] = "resample"
    RIDES: ClassVar[bool] = True
    RUNS: ClassVar[bool] = False

    within: Annotated[str, Ref("stage"), Field(description="the training stage that it rides on")]
    on: Annotated[
        tuple[Annotated[str, Ref("env")], ...],
        Field(description="environments whose failures are sampled again; none named means all"),
    ] = ()
    group: Annotated[int, Unit("trajs"), Field(ge=2, description="trajectories per recovery group")] = 8
    groups: Annotated[int, Unit("tasks"), Field(ge=1, description="recovery groups at a time")] = 4
    depth: Annotated[
        int, Field(ge=1, description="how often in a row a failed recovery may be sampled again; 1 is never")
    ] = 1
    buffer: Annotated[Literal["lifo", "fifo"], Field(description="which stored failure comes first")] = "lifo"
    trigger: Annotated[int, Unit("steps"), Field(ge=1, description="steps between two rounds of recovery")] = 6

    def work(self, inside: Stage | None = None) -> Work:
        return Work(int(getattr(inside, "steps", 0)) // self.trigger, self.groups * self.group, judges=True)
