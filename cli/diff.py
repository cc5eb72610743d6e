"""`rlc diff`: what differs between two experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rlspec.compiler.digests import Side
    from rlspec.runtime.rescoring import Effect


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--format", "form", type=click.Choice(["text", "json", "md", "html"]), default="text", show_default=True)
@click.option("--assumptions", is_flag=True, help="Show differences where a side is only assumed.")
@click.option("--provenance", is_flag=True, help="Show values that are equal and come from elsewhere.")
@click.option(
    "--level",
    type=click.Choice(["text", "syntax", "value", "graph"]),
    default="value",
    show_default=True,
    help="What must be equal for status 0.",
)
@click.option("--log", type=click.Path(path_type=Path), help="Show what the difference does to these conversations.")
@click.option("--stage", help="With --log: conversations of this stage.")
@click.option("--table", "tables", multiple=True, metavar="NAME=V,V", help="With --log: values that a stage finds.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here.")
def diff(
    a: str,
    b: str,
    form: str,
    assumptions: bool,
    provenance: bool,
    level: str,
    log: Path | None,
    stage: str | None,
    tables: tuple[str, ...],
    output: Path | None,
) -> None:
    """Say how experiment B differs from A: first at which level, then every edit by role.

    A and B are spec files, specs of a git revision (HEAD~3:specs/x.rlspec), plan.json files or run directories. Status
    0: equal; 1: they differ; 2: one cannot be read or has an error. With --log (a run, or what `rlc import` wrote) the
    same conversations are scored under both.
    """
    from rlspec.cli import differences
    from rlspec.cli.pages import deliver
    from rlspec.cli.sides import side
    from rlspec.compiler.diff import difference

    found = difference(side(a), side(b))
    does = _effect(log, stage, tables, found.a, found.b) if log is not None else None
    if form == "json":
        text = differences.as_json(found, does)
    elif form == "html":
        from rlspec.cli.effects import consequence
        from rlspec.compiler.showing.compared import difference_page

        text = difference_page(found, assumptions, consequence(*does, str(log)) if does is not None else None)
    else:
        from rlspec.cli import effects

        tell = differences.as_text if form == "text" else differences.as_markdown
        text = tell(found, assumptions, provenance)
        if does is not None:
            told = (effects.as_text if form == "text" else effects.as_markdown)(does[0], (a, b), does[1])
            text = f"{text}\n\n{told}"
    deliver(text, output)
    first, second = (getattr(d, level) for d in found.digests)
    if first is None or second is None:  # a plan has no text: its meaning is compared
        first, second = (d.value for d in found.digests)
    if first != second:
        raise click.exceptions.Exit(1)


def _effect(
    log: Path, stage: str | None, tables: tuple[str, ...], a: Side, b: Side
) -> tuple[Effect, dict[str, Effect]]:
    """What the difference does to a log, in all and by environment."""
    from rlspec.cli.rescore import tables_of
    from rlspec.runtime import rescoring

    logged, values = rescoring.read(log, stage), tables_of(tables)
    before, after = (rescoring.scored(logged, s.plan, values) for s in (a, b))
    return rescoring.effect(before, after), rescoring.by_env(before, after)
