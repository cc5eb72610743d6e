"""What a spec may say of a trajectory's calls against the calls that solve its task.

    judge calls : call_match { on = [desk] }
    let corr : real@traj in [0, 1] = 0.5 * calls.same_number + 0.5 * calls.argument_f1

The parts of Fission-GRPO's reward (arXiv 2601.15625); how they are weighed is a formula of the spec. The code that
measures is `runtime/worlds/call_match.py`.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component
from rlspec.compiler.catalog.tiers import DeepEqual
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar, Literal


class CallMatch(Component):
    """Compares the agent's calls with the gold calls, by rules: whether all could be parsed and had the tools' own
    arguments, whether there are as many, and how many arguments are right.

    `format` is 0 when a call could not be parsed, named no tool, or broke its tool's schema. `same_number` is 1 when as
    many calls were made as the gold calls are, `argument_f1` the F1 of (tool, argument, value) of all calls against
    all gold calls, as multisets; 1 where neither has any. `calls` and `gold_calls` are how many there are."""

    KIND: ClassVar[str] = "judge"
    NAME: ClassVar[str] = "call_match"
    BY_RULE: ClassVar[bool] = True
    NEEDS_GOLD: ClassVar[bool] = True
    MEASURES: ClassVar[dict[str, str]] = {
        "format": "int@traj in {0, 1}",
        "same_number": "int@traj in {0, 1}",
        "argument_f1": "real@traj in [0, 1]",
        "calls": "int@traj in [0, 100_000]",
        "gold_calls": "int@traj in [0, 100_000]",
    }

    counted: Annotated[
        Literal["all", "writes"],
        Field(description="which calls are compared: all, or those that changed the state or would have"),
    ] = "all"
    deep_equal: Annotated[DeepEqual, Field(description="when two values are the same")] = DeepEqual()
