"""`rlc compile`: a spec as a plan, with what a reader wants to know of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlspec.cli.options import composing

if TYPE_CHECKING:
    from rlspec.compiler.plan import Plan, SourcePlan


@click.command("compile")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the plan here.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
@click.option("--seed", type=click.IntRange(0), help="The run's seed.")
@click.option("--emit", type=click.Choice(["kernels", "plan"]), help="Print the generated kernels, or the plan.")
def compile_(
    file: Path,
    output: Path | None,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
    seed: int | None,
    emit: str | None,
) -> None:
    """Validate FILE, lower it to a plan, and print stages, edges, ranges and budget."""
    from rlspec.cli.specs import sound

    plan = sound(file, settings, seed, variant, overlays).plan
    assert plan is not None
    if output is not None:
        from rlspec.runtime.record.durable import write_file

        write_file(output, plan_text(plan).encode())
    if emit == "kernels":
        from rlspec.compiler.kernels import source

        for entry in plan.sources:
            click.echo(f"# ---- {entry.name}\n{source(entry.program)}")
    elif emit == "plan":
        click.echo(plan_text(plan), nl=False)
    else:
        click.echo(overview(plan))


def plan_text(plan: Plan) -> str:
    """The plan's JSON, indented, with its digest first for readers."""
    body = plan.model_dump(mode="json")
    return json.dumps({"digest": plan.digest, **body}, indent=1, ensure_ascii=True) + "\n"


def overview(plan: Plan) -> str:
    """The plan in a few lines."""
    lines = [f"{plan.name}  {plan.digest[:19]}  seed {plan.seed}", "", "stages"]
    for stage, budget in zip(plan.stages, plan.budget, strict=True):
        start = f"from {stage.policy_from}" if stage.policy_from else "from the policy as declared"
        if "within" in stage.fields:
            start = f"within {stage.fields['within']}"
        lines.append(f"  {stage.label:<12} {stage.name:<9} {start}")
        per = "in all" if stage.name == "evaluate" else "per step"
        lines.append(
            f"  {'':<12} {budget.steps} step{'s' * (budget.steps != 1)}; {per} {budget.trajectories} trajectories, "
            f"at most {budget.tokens:,} tokens"
            + (f", {budget.user_replies:,} user replies" if budget.user_replies else "")
            + (f", {budget.judge_calls:,} judge calls" if budget.judge_calls else "")
        )
    lines += ["", "edges"]
    lines += [f"  {edge.source} -> {edge.target}  ({edge.what})" for edge in plan.graph.edges]
    lines += ["", "workers"]
    for number, bundle in enumerate(plan.graph.bundles):
        roles = ", ".join(role.name for role in plan.graph.roles if role.bundle == number)
        lines.append(f"  {number}: {roles}  ({bundle.cpus:g} CPU, {bundle.gpus:g} GPU, {bundle.threads} thread)")
    lines += ["", "formulas"]
    for source in plan.sources:
        lines += _formulas(plan, source)
    return "\n".join(lines)


def _formulas(plan: Plan, source: SourcePlan) -> list[str]:
    """A source's formulas with types, ranges, and when they are known if that is not plainly with the samples."""
    from rlspec.compiler.binding import time_of, waiting
    from rlspec.compiler.formula import formula

    share = f"{source.share:.0%} of the tasks" if source.stage is None else f"sampled again on {source.env}"
    lines = [f"  on {source.name} ({share})"]
    lines += [f"    {text} : known {when}" for text, when in waiting(source.program).items()]
    for name, text in source.formulas.items():
        when = str(time_of(source.program, name))
        lines.append(f"    {name} : {source.ranges[name]}" + (f"  {when}" if when != "per sample" else ""))
        lines.append(f"      = {text}")
    if plan.credit.where is not None:
        measured = {s.name: s.measure for s in source.signals if s.name == s.measure.replace(".", "_")}
        lines.append(f"    credit to tokens where {formula(source.program, plan.credit.where, measured)}")
    return lines
