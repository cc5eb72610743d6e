"""What a policy that does nothing solves, where an environment can tell."""

from __future__ import annotations

from rlspec.compiler.plan import Plan
from rlspec.runtime.worlds.registry import world_of
from rlspec.runtime.worlds.tau_bench.world import TauBenchWorld, floor


def floors(plan: Plan) -> list[str]:
    """A line for each set of tasks of a plan's environments of which some are solved before anything is done."""
    out = []
    for source in plan.drawn:
        if plan.labelled(source.env).name != "tau_bench":
            continue
        world = world_of(plan, source)
        assert isinstance(world, TauBenchWorld)
        for domain, share in floor(world).items():
            if share > 0:
                out.append(f"{source.env}: doing nothing solves {share:.1%} of the {domain} tasks; compare with that")
    return out
