"""What a policy that does nothing solves, where an environment can tell."""

from __future__ import annotations

from rlspec.compiler.plan import Plan
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.mcp.world import McpWorld
from rlspec.runtime.worlds.played import PlayedWorld
from rlspec.runtime.worlds.protocol import InfraFailure
from rlspec.runtime.worlds.registry import world_of
from rlspec.runtime.worlds.tau_bench.world import TauBenchWorld, floor

TELL = ("tau_bench", "mcp", "played")
"""Environments whose tasks may be solved before anything is done; the others make none such."""


def floors(plan: Plan) -> list[str]:
    """A line for each set of tasks of a plan's environments of which some are solved before anything is done."""
    out = []
    for source in plan.drawn:
        if plan.labelled(source.env).name not in TELL:
            continue
        world = world_of(plan, source)
        assert isinstance(world, TauBenchWorld | McpWorld | PlayedWorld)
        found = floor(world) if isinstance(world, TauBenchWorld) else _of_file(world)
        for tasks, share in found.items():
            if share > 0:
                out.append(f"{source.env}: doing nothing solves {share:.1%} of the {tasks} tasks; compare with that")
    return out


def _of_file(world: McpWorld | PlayedWorld) -> dict[str, float]:
    """As the world tells, which may need its server.

    Raises:
        Refusal: RLC0714, that fails.
    """
    try:
        return world.floor()
    except InfraFailure as failure:
        raise Refusal("RLC0714", failure.reason, "the tasks' `setup` and `gold` calls must work") from failure
