"""What a failed trajectory is: a result of the program, for the stages that sample failures again.

`stage fission : resample { failed = failed }` names conditions that the spec declares; without one a trajectory failed
when its reward is below the highest that can be reached.
"""

from __future__ import annotations

from collections.abc import Callable

from rlspec.compiler.builder import Value
from rlspec.compiler.elaborate import Elaborator, Failed
from rlspec.compiler.experiment import Declared, Experiment, Formula
from rlspec.compiler.levels import Level
from rlspec.dsl.annotations import TYPE_CHECKING

if TYPE_CHECKING:
    from rlspec.compiler.catalog.resampling import Resample


def output_name(stage: str) -> str:
    """The result that tells a stage's failures: 1 for a trajectory that failed. No formula can be called so."""
    return f"{stage}.failed"


def failures(
    experiment: Experiment,
    env: Declared,
    elaborator: Elaborator,
    formulas: list[Formula],
    named: Callable[[Formula], Value],
    reward: Value,
) -> dict[str, int]:
    """The steps that say which trajectories of an environment failed, by the name of the result, after reporting
    conditions that are none."""
    out: dict[str, int] = {}
    for stage in experiment.of("stage").values():
        if not getattr(stage.schema, "RIDES", False):
            continue
        from rlspec.compiler.catalog.resampling import Resample  # most specs sample nothing again

        component = stage.component
        if isinstance(component, Resample) and (not component.on or env.label in component.on):
            step = _condition(stage, component, elaborator, formulas, named, reward)
            if step is not None:
                out[output_name(stage.label)] = step
    return out


def _condition(
    stage: Declared,
    component: Resample,
    elaborator: Elaborator,
    formulas: list[Formula],
    named: Callable[[Formula], Value],
    reward: Value,
) -> int | None:
    builder, span = elaborator.builder, stage.item.head.span
    try:
        if not component.failed:
            if reward.level is not Level.TRAJ or reward.range.high == float("inf"):
                raise elaborator.fail(
                    "RLC0505", f"`{stage.label}` does not know what failed: the reward has no highest value", span,
                    "declare `let failed : bool@traj = ...` and write `failed = failed`",
                )  # fmt: skip
            return builder.apply("lt", reward.step, builder.const(reward.range.high))
        steps = []
        for name in component.failed:
            formula = next((f for f in formulas if f.name == name), None)
            if formula is None:  # declared for other environments
                continue
            found = named(formula)
            if found.base != "bool" or found.level is not Level.TRAJ:
                raise elaborator.fail(
                    "RLC0201", f"`{name}` says which trajectories failed, so it is bool@traj", formula.item.head.span,
                    f"it is {found.base}@{found.level.label}",
                )  # fmt: skip
            steps.append(found.step)
        if not steps:
            raise elaborator.fail("RLC0101", f"`{stage.label}` has no condition on this environment", span)
    except Failed:
        return None
    joined = steps[0]
    for step in steps[1:]:
        joined = builder.apply("or", joined, step)
    return joined
