"""The order of stages: what a formula reads must be there when its trajectories are scored."""

from __future__ import annotations

from rlspec.compiler.binding import tables_of
from rlspec.compiler.catalog.stages import Evaluate, Grpo, Stage
from rlspec.compiler.examiners import serves
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import Formulas
from rlspec.dsl import tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rlspec.compiler.catalog.resampling import Resample


def suited(experiment: Experiment, report: list[Diagnostic]) -> None:
    """Report stages that cannot follow each other."""
    trained = False
    for declared in experiment.of("stage").values():
        if declared.name == "sft" and trained:
            report.append(
                Diagnostic("RLC0504", "a cold start comes before the training stage", declared.item.head.span)
            )
        trained = trained or _trains(declared)
        if issubclass(declared.schema, Stage) and declared.schema.RIDES:
            _riding(experiment, declared, report)
            from rlspec.compiler.catalog.resampling import Resample  # most specs sample nothing again

            if isinstance(declared.component, Resample) and declared.component.feedback.policy:
                _written(experiment, declared, declared.component, report)
        if isinstance(declared.component, Evaluate) and declared.component.user:
            _examining(experiment, declared, declared.component, report)


def in_time(experiment: Experiment, sources: list[Formulas], report: list[Diagnostic]) -> None:
    """Report tables that are found after their first use, and measures of a stage that another one reads. Call it with
    sources without errors."""
    stages = list(experiment.of("stage").values())
    order = [s.label for s in stages]
    for source in sources:
        training = _scored_in(experiment, source)
        for table in tables_of(source.program):
            owner, _, result = table.partition(".")
            for stage in training:
                if order.index(owner) > order.index(stage.label):
                    where = _mention(experiment, source, (owner, result))
                    _add(report, Diagnostic("RLC0504", f"`{table}` is known after `{owner}`, which comes after "
                                            f"`{stage.label}`", where, label=f"put `{owner}` first"))  # fmt: skip
        for signal in source.signals:
            owner, _, measure = signal.measure.partition(".")
            measuring = experiment.of("stage").get(owner)
            if measuring is None or measure not in measuring.schema.MEASURES:
                continue
            for stage in training:
                if stage.label != owner:
                    where = _mention(experiment, source, (owner, measure))
                    _add(report, Diagnostic("RLC0504", f"`{signal.measure}` is measured by `{owner}` alone, and "
                                            f"`{stage.label}` is scored by this formula too", where))  # fmt: skip


def _add(report: list[Diagnostic], diagnostic: Diagnostic) -> None:
    if diagnostic not in report:
        report.append(diagnostic)


def _trains(declared: Declared) -> bool:
    """Whether it learns from scored trajectories."""
    return issubclass(declared.schema, Grpo)


def _riding(experiment: Experiment, declared: Declared, report: list[Diagnostic]) -> None:
    """A stage that rides on another needs one that samples and learns."""
    within = getattr(declared.component, "within", None)
    inside = experiment.of("stage").get(within) if within is not None else None
    if inside is not None and not _trains(inside):
        report.append(Diagnostic("RLC0504", f"`{declared.label}` samples again what fails within `{within}`, a "
                                 f"{inside.name} stage, which samples nothing", declared.item.head.span,
                                 label="name a training stage"))  # fmt: skip


def _written(experiment: Experiment, declared: Declared, stage: Resample, report: list[Diagnostic]) -> None:
    """A policy that writes feedback must have been trained for it by then."""
    order = list(experiment.of("stage"))
    writer = experiment.of("stage").get(stage.feedback.policy)
    if writer is None:
        return
    if writer.name != "diagnostician":
        report.append(Diagnostic("RLC0504", f"`{writer.label}` is no stage that trains a diagnostician",
                                 declared.item.head.span, label="name a `diagnostician` stage"))  # fmt: skip
    elif order.index(writer.label) > order.index(stage.within):
        report.append(Diagnostic("RLC0504", f"`{writer.label}` trains who diagnoses, and comes after `{stage.within}`",
                                 declared.item.head.span, label=f"put `{writer.label}` first"))  # fmt: skip


def _examining(experiment: Experiment, declared: Declared, stage: Evaluate, report: list[Diagnostic]) -> None:
    """An evaluation's own user needs an environment to examine in."""
    user = experiment.of("user").get(stage.user)
    measured = stage.on or tuple(experiment.of("env"))
    if user is not None and not any(serves(user, env) for env in measured):
        report.append(Diagnostic("RLC0504", f"`{declared.label}` measures nothing that user `{stage.user}` serves",
                                 declared.item.head.span, label="name the environment in `serves`"))  # fmt: skip


def _scored_in(experiment: Experiment, source: Formulas) -> list[Declared]:
    """The training stages whose trajectories a source's program scores."""
    training = [s for s in experiment.of("stage").values() if _trains(s)]
    if source.stage is None:
        return training
    within = getattr(experiment.of("stage")[source.stage].component, "within", None)
    return [s for s in training if s.label == within]


def _mention(experiment: Experiment, source: Formulas, words: tuple[str, str]) -> tree.Span:
    """Where a source's formulas say `owner.name`."""
    nodes = [f.expression for f in experiment.formulas if f.on in source.scopes]
    if experiment.credit_where is not None:
        nodes.append(experiment.credit_where)
    for node in nodes:
        found = _find(node, words)
        if found is not None:
            return found
    return experiment.item.head.span


def _find(node: object, words: tuple[str, str]) -> tree.Span | None:
    if isinstance(node, tree.Member) and isinstance(node.target, tree.Name):
        return node.span if (node.target.value, node.name.value) == words else None
    if isinstance(node, tuple):
        return next((found for part in node if (found := _find(part, words)) is not None), None)
    parts = [getattr(node, name) for name in getattr(type(node), "__slots__", ()) if name != "span"]
    return next((found for part in parts if (found := _find(part, words)) is not None), None)
