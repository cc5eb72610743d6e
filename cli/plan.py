"""`rlc plan`: what an experiment does, what it costs, and whether it fits, before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlspec.cli.options import Patch, composing

if TYPE_CHECKING:
    from rlspec.compiler.costs.charges import Price
    from rlspec.compiler.costs.estimate import Estimate
    from rlspec.compiler.plan import Plan


@click.command("plan")
@click.argument("files", nargs=-1, required=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
@click.option("--prices", "table", type=click.Path(path_type=Path), metavar="FILE",
              help="Prices of models, JSON or a spec's `price` declarations; they win over the spec's.")  # fmt: skip
@click.option("--typical", nargs=2, type=click.IntRange(min=1), metavar="TURNS TOKENS",
              help="Work and calls of dialogues of this size instead of upper bounds.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json", "md"]), default="text", show_default=True)
def plan(
    files: tuple[str, ...],
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path | Patch, ...],
    table: Path | None,
    typical: tuple[int, int] | None,
    form: str,
) -> None:
    """Say what FILE costs and whether it fits: a spec (`x.rlspec#variant` too), a plan.json or a run's directory.

    Several FILES are put side by side. Status 2 when a declared memory is exceeded."""
    from rlspec.compiler.costs.charges import read_prices
    from rlspec.compiler.costs.estimate import estimate
    from rlspec.compiler.costs.report import as_json, as_markdown, as_text
    from rlspec.compiler.costs.workload import Typical

    prices: dict[str, Price] = read_prices(table) if table is not None else {}
    assumed = Typical(*typical) if typical else None
    found = [estimate(_plan(name, settings, variant, overlays), prices, assumed) for name in files]
    if form == "json":
        bodies = [as_json(one) for one in found]
        click.echo(json.dumps(bodies[0] if len(bodies) == 1 else bodies, indent=1, ensure_ascii=False))
    elif len(found) == 1:
        click.echo(as_markdown(found[0]) if form == "md" else as_text(found[0]), nl=form != "md")
    else:
        _columns(found, files, form)
    if any(_refused(one) for one in found):
        raise click.exceptions.Exit(2)


def _plan(name: str, settings: tuple[str, ...], variant: str | None, overlays: tuple[Path | Patch, ...]) -> Plan:
    """The plan that a word of the command line names. What does not fit is the page's to say, not the check's.

    Raises:
        SpecError: there is no such file; or what is wrong with the spec or plan.
    """
    from rlspec.cli.options import overlay
    from rlspec.cli.specs import pairs, placed
    from rlspec.compiler.check import check, settings_of
    from rlspec.compiler.stored import read_plan
    from rlspec.dsl.diagnostics import SpecError
    from rlspec.dsl.parser import read

    path = Path(name)
    if path.is_dir() or path.suffix == ".json":
        return read_plan(path / "plan.json" if path.is_dir() else path)
    place, _, behind = name.partition("#")
    found = check(
        read(place), settings_of(pairs(settings)), None, behind or variant, [overlay(o) for o in overlays], fits=False
    )
    if found.plan is None:
        raise SpecError([placed(d, found) for d in found.errors])
    return found.plan


def _refused(found: Estimate) -> bool:
    """Print the diagnostics of what cannot fit."""
    from rlspec.compiler.costs.fit import diagnostics
    from rlspec.dsl.diagnostics import render

    told = [] if isinstance(found.memory, str) else diagnostics(found.memory)
    for diagnostic in told:
        click.echo(render(diagnostic), err=True)
    return bool(told)


def _columns(found: list[Estimate], files: tuple[str, ...], form: str) -> None:
    from rlspec.compiler.costs.report import section_markdown, section_text, side_by_side

    names = [one.plan.name for one in found]
    heads = [n if names.count(n) == 1 else f for n, f in zip(names, files, strict=True)]
    table = side_by_side(found, heads)
    click.echo(section_markdown(table) if form == "md" else section_text(table))
