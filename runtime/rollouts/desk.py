"""Who takes part in the conversations of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rlspec.compiler.catalog.resampling import Feedback, Resample
from rlspec.compiler.plan import Plan, SourcePlan
from rlspec.runtime.rollouts.job import Job
from rlspec.runtime.worlds.protocol import Judge, Task, Users, World
from rlspec.runtime.worlds.registry import examiners_of, judges_of, retries_of, user_of, world_of


@dataclass(slots=True)
class Desk:
    """What a source's conversations need: its world, who talks to the agent, who judges."""

    source: SourcePlan
    world: World
    users: Users | None
    judges: dict[str, Judge]
    max_turns: int
    max_events: int  # tool calls plus user replies; 0 for no such limit
    max_messages: int  # of everybody; 0 for no such limit
    ends_malformed: bool  # a call that cannot be read ends the conversation
    retries: dict[str, int]
    resampled: dict[str, Feedback]
    examiners: dict[str, Users]

    @classmethod
    def of(cls, plan: Plan, source: SourcePlan) -> Desk:
        """As the plan declares it."""
        fields = plan.labelled(source.env).fields
        return cls(
            source,
            world_of(plan, source),
            user_of(plan, source),
            judges_of(plan, source),
            int(fields.get("max_turns", 1)),
            int(fields.get("max_events", 0)),
            int(fields.get("max_messages", 0)),
            fields.get("malformed_call") == "ends",
            {label: retries_of(plan.labelled(label)) for label in source.judges},
            {
                stage.label: found.feedback
                for stage in plan.stages
                if isinstance(found := stage.component(), Resample) and (not found.on or source.env in found.on)
            },
            examiners_of(plan, source),
        )

    def talks(self, job: Job) -> Users | None:
        """Who talks to the agent in a job."""
        return self.examiners[job.user] if job.user else self.users

    def tools(self, task: Task) -> Sequence[dict[str, Any]]:
        """The tools of a task: its own, or the world's."""
        return self.world.tools if task.tools is None else task.tools


def at_once(desks: Iterable[Desk]) -> int:
    """How many worlds, users and judges may be waited for at a time."""
    everyone = [
        part for desk in desks for part in (desk.world, desk.users, *desk.examiners.values(), *desk.judges.values())
    ]
    return max((int(getattr(part, "at_once", 1)) for part in everyone), default=1)
