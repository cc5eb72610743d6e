"""How many trajectories the machinery may lose before a run stops.

A failed trajectory counts in no statistic, so one lost here and there changes nothing but the number of those that are
left. When all of a step fail, or a larger share than `on_failure = [abort_above(share)]` allows, what is left says
nothing, and the run ends where it can be gone on with.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.plan import Plan
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.registry import tolerated_failures


def tolerate(plan: Plan, trajectories: Sequence[Trajectory], what: str) -> None:
    """Bear with the trajectories that failed; `what` names where they were had ("step 3").

    Raises:
        Refusal: RLC0708, too many of them failed.
    """
    failed = [t.failure for t in trajectories if t.failure is not None]
    if failed and (len(failed) == len(trajectories) or len(failed) > tolerated_failures(plan) * len(trajectories)):
        raise Refusal(
            "RLC0708",
            f"{len(failed)} of {len(trajectories)} trajectories of {what} failed: {'; '.join(sorted(set(failed))[:3])}",
            "cure the cause and go on with --resume",
        )
