"""Lowering: an experiment without errors becomes a plan, with its graph and its budget."""

from __future__ import annotations

from collections.abc import Sequence

from rlspec.compiler.catalog import is_new, schema
from rlspec.compiler.catalog.base import Component
from rlspec.compiler.catalog.stages import Evaluate, Grpo, Optimised, Stage
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.formulas import Formulas
from rlspec.compiler.plan import (
    BudgetPlan,
    BundlePlan,
    ComponentPlan,
    CreditPlan,
    EdgePlan,
    GraphPlan,
    Plan,
    PluginPlan,
    RolePlan,
    SourcePlan,
    StagePlan,
)
from rlspec.dsl.annotations import Any

DEFAULT_ENGINE = "hf"


def lower(experiment: Experiment, formulas: list[Formulas]) -> Plan:
    """The plan of an experiment that was checked without an error."""
    stages = _stages(experiment)
    envs = tuple(_component(d) for d in experiment.of("env").values())
    machine = next(iter(experiment.of("resources").values()), None)
    resources = machine.made if machine else schema("resources", "machine").model_validate({})
    sources = _sources(experiment, formulas)
    return Plan(
        name=experiment.name,
        title=experiment.title or experiment.name,
        seed=experiment.seed,
        policy=_component(next(iter(experiment.of("policy").values()))),
        engine=_engine(experiment),
        envs=envs,
        users=tuple(_component(d) for d in experiment.of("user").values()),
        judges=tuple(_component(d) for d in experiment.of("judge").values()),
        sources=sources,
        credit=CreditPlan(where=formulas[0].where if formulas else None),
        stages=stages,
        graph=_graph(resources, stages, envs),
        budget=_budget(experiment, stages, sources),
        resources=_component(machine) if machine else _default("resources", "machine"),
        prices=tuple(_component(d) for d in experiment.of("price").values()),
        parts=tuple(_component(d) for kind, ds in experiment.components.items() if is_new(kind) for d in ds.values()),
        plugins=_plugins(experiment),
        notes=(experiment.note,) if experiment.note else (),
    )


def _sources(experiment: Experiment, formulas: list[Formulas]) -> tuple[SourcePlan, ...]:
    """A program for each environment, and for the recoveries of a stage that has formulas of its own."""
    share = 1.0 / max(1, len(experiment.of("env")))
    return tuple(
        SourcePlan(
            env=f.env,
            share=0.0 if f.stage else experiment.mix.get(f.env, 0.0) if experiment.mix else share,
            user=f.user,
            judges=f.judges,
            signals=f.signals,
            program=f.program,
            reward=f.reward,
            advantage=f.advantage,
            advantage_level=f.advantage_level.label,  # type: ignore[arg-type]
            terms=f.terms,
            ranges=f.ranges,
            formulas=f.formulas,
            stage=f.stage,
            returns=f.returns,
        )
        for f in formulas
    )


def _plugins(experiment: Experiment) -> tuple[PluginPlan, ...]:
    """The plugins that something declared comes from."""
    names = {d.name.partition(".")[0] for ds in experiment.components.values() for d in ds.values() if "." in d.name}
    return tuple(
        PluginPlan(name=p.name, origin=p.origin, digest=p.digest, document=p.document)
        for name, p in sorted(experiment.plugins.items())
        if name in names
    )


def _fields(component: Component) -> dict[str, Any]:
    return component.model_dump(mode="json")


def _component(declared: Declared) -> ComponentPlan:
    wiring = dict(declared.wiring)
    if declared.kind == "judge":
        wiring.setdefault("on_failure", ["drop"])
    return ComponentPlan(
        label=declared.label,
        kind=declared.kind,
        name=declared.name,
        fields=_fields(declared.made),
        wiring=wiring,
    )


def _engine(experiment: Experiment) -> ComponentPlan:
    for declared in experiment.of("engine").values():
        return _component(declared)
    return _default("engine", DEFAULT_ENGINE)


def _default(kind: str, name: str) -> ComponentPlan:
    """A component that the spec leaves out, labelled by its kind."""
    return ComponentPlan(label=kind, kind=kind, name=name, fields=_fields(schema(kind, name).model_validate({})))


def _stages(experiment: Experiment) -> tuple[StagePlan, ...]:
    out: list[StagePlan] = []
    trained: str | None = None
    for declared in experiment.of("stage").values():
        fields = _fields(declared.made)
        if isinstance(declared.made, Evaluate):
            _place(experiment, fields)
        if fields.get("mixture", {}).get("at_once") == 0:
            del fields["mixture"]["at_once"]  # as in plans from before
        if declared.name == "resample" and fields["feedback"]["by"] == "rule":
            for name in ("by", "on_leak", "on_failure", "llm", "policy"):
                del fields["feedback"][name]  # the same
        if declared.name == "resample" and fields["errors"] == "live":
            del fields["errors"], fields["collect"]  # the same
        apart = isinstance(declared.made, Optimised) and not declared.made.TRAINS  # it learns with weights of its own
        start = None if apart else trained
        out.append(StagePlan(label=declared.label, name=declared.name, fields=fields, policy_from=start))
        if isinstance(declared.made, Stage) and declared.made.TRAINS:
            trained = declared.label
    return tuple(out)


def _place(experiment: Experiment, fields: dict[str, Any]) -> None:
    """An evaluation's fields with the names of the stages that it follows. What nobody asked for is left out, so that
    plans from before keep their digests."""
    if fields.pop("after_training"):
        trained = [s.label for s in experiment.of("stage").values() if issubclass(s.schema, Stage) and s.schema.TRAINS]
        fields["after"] = [*fields["after"], *(label for label in trained if label not in fields["after"])]
    if not fields["user"]:
        del fields["user"]


def _graph(machine: Any, stages: tuple[StagePlan, ...], envs: tuple[ComponentPlan, ...]) -> GraphPlan:
    """Worker i hosts rollout i and trainer rank i; the scorer lives beside the first."""
    roles = []
    for rank in range(machine.workers):
        roles.append(RolePlan(name=f"rollout.{rank}", role="rollout", rank=rank, bundle=rank))
        roles.append(RolePlan(name=f"trainer.{rank}", role="trainer", rank=rank, bundle=rank))
    roles.append(RolePlan(name="scorer", role="scorer", rank=0, bundle=0))
    edges = []
    for stage in stages:
        if stage.name == "sft":
            edges += [("demonstrations", f"{stage.label}/trainer", "rows")]
        elif stage.name == "diagnostician":
            edges += [("triples", f"{stage.label}/trainer", "rows")]
        elif stage.name == "evaluate":
            edges += [(f"{stage.label}/rollout", f"{stage.label}/report", "trajectories")]
        elif stage.name == "codegym":
            readers = dict.fromkeys(e.label for e in envs if e.fields.get("from") == stage.label)
            edges += [("problems", f"{stage.label}/environments", "code")]
            edges += [(f"{stage.label}/environments", f"{env}/tasks", "environments") for env in readers]
        elif stage.name == "irc":
            readers = dict.fromkeys(s.label for s in stages if issubclass(schema("stage", s.name), Grpo))
            edges += [(f"{stage.label}/rollout", f"{stage.label}/table", "trajectories")]
            edges += [(f"{stage.label}/table", f"{other}/scorer", "weights") for other in readers]
        elif stage.name == "resample":
            inside = stage.fields["within"]
            edges += [
                (f"{inside}/rollout", f"{stage.label}/rollout", "failed trajectories"),
                (f"{stage.label}/rollout", f"{inside}/scorer", "recovery groups"),
            ]
            if writer := stage.fields["feedback"].get("policy"):
                edges.append((f"{writer}/trainer", f"{stage.label}/rollout", "feedback"))
        else:
            edges += [
                (f"{stage.label}/rollout", f"{stage.label}/scorer", "trajectories"),
                (f"{stage.label}/scorer", f"{stage.label}/trainer", "advantages"),
                (f"{stage.label}/trainer", f"{stage.label}/rollout", "weights"),
            ]
        if stage.policy_from and issubclass(schema("stage", stage.name), Optimised):
            edges.append((f"{stage.policy_from}/trainer", f"{stage.label}/trainer", "weights"))
        for place in ("before", "after"):
            for other in stage.fields.get(place, []):
                edges.append((f"{other}/trainer", f"{stage.label}/rollout", f"weights {place}"))
    bundle = BundlePlan(cpus=machine.cpus_per_worker, gpus=machine.gpus_per_worker, threads=machine.threads)
    return GraphPlan(
        roles=tuple(roles),
        bundles=(bundle,) * machine.workers,
        edges=tuple(EdgePlan(source=a, target=b, what=c) for a, b, c in edges),
        ready_within=machine.ready_within,
        step_within=machine.step_within,
    )


def _budget(
    experiment: Experiment, stages: tuple[StagePlan, ...], sources: tuple[SourcePlan, ...]
) -> tuple[BudgetPlan, ...]:
    policy = next(iter(experiment.of("policy").values())).made
    context = int(getattr(policy, "context", 0))
    envs = experiment.of("env").values()
    turns = max((int(getattr(e.made, "max_turns", 1)) for e in envs), default=1)
    users = len(experiment.of("user"))
    judges = _judge_calls(experiment, [s for s in sources if s.share > 0])
    out = []
    made = {label: declared.made for label, declared in experiment.of("stage").items()}
    for stage in stages:
        component = made[stage.label]
        assert isinstance(component, Stage)
        inside = made.get(str(stage.fields.get("within", "")))
        work = component.work(inside if isinstance(inside, Stage) else None)
        trajectories, judged = work.trajectories, work.trajectories * judges
        if isinstance(component, Evaluate):  # as many of each environment, training's share in it or not
            examined = [s for s in sources if s.stage is None and (not component.on or s.env in component.on)]
            judged = sum(work.trajectories * _judge_calls(experiment, [s]) for s in examined)
            trajectories *= len(examined)
        out.append(
            BudgetPlan(
                stage=stage.label,
                steps=work.steps,
                trajectories=trajectories,
                tokens=trajectories * context,
                user_replies=trajectories * turns if work.talks and users else 0,
                judge_calls=judged if work.judges else 0,
            )
        )
    return tuple(out)


def _judge_calls(experiment: Experiment, sources: Sequence[SourcePlan]) -> int:
    """Calls of all judges over one trajectory of these sources at most: one each, or of a judge who listens one for
    every message of the agent, in the environment where they are most."""
    calls = 0
    for label, judge in experiment.of("judge").items():
        asked = [experiment.of("env")[s.env].made for s in sources if label in s.judges]
        if getattr(judge.made, "when", "") == "during_rollout":
            calls += max((int(getattr(env, "max_turns", 1)) for env in asked), default=0)
        else:
            calls += bool(asked)
    return calls
