"""A lint over a variant beside the experiment that it varies: an ablation that answers two questions answers none."""

from __future__ import annotations

from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.experiment import Experiment
from rlspec.compiler.lint_scene import meant, place_value
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.printer import text_of

AIMS = ("reward", "advantage")
MEANS = ("lr", "kl.coefficient", "kl.estimator", "kl.place")


def confounded(base: Experiment, varied: Experiment, variant: tree.Item) -> Diagnostic | None:
    """RLC0540 where a variant changes what is rewarded together with a learning rate or KL, and does not say of the
    latter where it comes from. Points of a sweep are many comparisons, most of them with one change."""
    if variant.head.path[0].value == "sweep" or _aims(base) == _aims(varied):
        return None
    moved = []
    for label, stage in varied.of("stage").items():
        before = base.of("stage").get(label)
        if before is not None and isinstance(stage.component, Grpo) and isinstance(before.component, Grpo):
            moved += [
                f"{label}.{path}" for path in MEANS
                if place_value(stage, path) != place_value(before, path) and not meant(stage, path)
            ]  # fmt: skip
    if not moved:
        return None
    name = variant.head.labels[0].value
    return Diagnostic("RLC0540", f"variant `{name}` changes what is rewarded and {' and '.join(moved)}",
                      variant.head.span, "note", "an effect belongs to neither alone: make it two")  # fmt: skip


def _aims(experiment: Experiment) -> dict[tuple[str, str, str | None], str]:
    return {(f.kind, f.name, f.on): text_of(f.expression) for f in experiment.formulas if f.kind in AIMS}
