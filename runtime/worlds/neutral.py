"""`on_failure = [..., outcome_only]`: what a trajectory is worth whose judge failed beyond its retries.

Every measure of the judge counts as 0, in every turn. A reward whose terms of the judge vanish at 0 is then what the
spec would pay without them: the outcome. How often that happened is the measure `outcome_only` of the judge (1 or 0 per
trajectory), so the metric `turns.outcome_only` is the share of such trajectories.
"""

from __future__ import annotations

from typing import Any

from rlspec.compiler.levels import Level
from rlspec.compiler.measures import measure_type
from rlspec.compiler.plan import ComponentPlan
from rlspec.compiler.types import NUMERIC
from rlspec.runtime.refusal import Refusal

COUNTED = "outcome_only"


def falls_back(part: ComponentPlan) -> bool:
    """Whether the failure rule of a judge is `outcome_only`.

    Raises:
        Refusal: RLC0505, one of its measures cannot be 0.
    """
    if "outcome_only" not in part.wiring.get("on_failure", []):
        return False
    if part.kind != "judge":
        raise Refusal("RLC0505", f"{part.kind} `{part.label}`: without it there is no outcome either",
                      "use `retry(n)`, `drop` or `abort_above(share)`")  # fmt: skip
    for name, text in part.component().MEASURES.items():
        found = measure_type(text)
        if found.base not in NUMERIC or not found.range.low <= 0 <= found.range.high:
            raise Refusal("RLC0505", f"judge `{part.label}`: `{name}` has no 0 that could stand for its absence",
                          "use `retry(n)`, `drop` or `abort_above(share)`")  # fmt: skip
    return True


def neutral(part: ComponentPlan, turns: int) -> dict[str, Any]:
    """The measures of a judge that did not judge a trajectory of so many turns."""
    levels = {name: measure_type(text).level for name, text in part.component().MEASURES.items()}
    return {name: [0] * turns if level is Level.TURN else 0 for name, level in levels.items()} | {COUNTED: 1}
