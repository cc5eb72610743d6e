"""The schedule of a run: its stages as a line of units, evaluations where the plan puts them."""

from __future__ import annotations

from dataclasses import dataclass

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.stages import Stage
from rlspec.compiler.plan import Plan


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work: a training stage, or an evaluation (`stage`) before or after one (`about`)."""

    stage: str
    kind: str
    about: str = ""
    place: str = ""


def schedule(plan: Plan) -> list[Unit]:
    """The units in order. An evaluation that names no stage runs where it stands."""
    evaluations = [s for s in plan.stages if s.name == "evaluate"]
    units: list[Unit] = []
    for stage in plan.stages:
        component = schema("stage", stage.name)
        if issubclass(component, Stage) and component.RIDES:
            continue  # it takes place inside another stage
        if stage.name == "evaluate":
            if not stage.fields["before"] and not stage.fields["after"]:
                units.append(Unit(stage.label, "evaluate", stage.policy_from or "", "after"))
            continue
        for place in ("before", "after"):
            if place == "after":
                units.append(Unit(stage.label, stage.name))
            units += [
                Unit(e.label, "evaluate", stage.label, place) for e in evaluations if stage.label in e.fields[place]
            ]
    return units


def evaluations_within(plan: Plan, stage: str) -> list[str]:
    """Evaluations that follow a stage and so also run inside it, where it says `evaluate_every`."""
    return [s.label for s in plan.stages if s.name == "evaluate" and stage in s.fields["after"]]
