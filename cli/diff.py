"""`rlc diff`: what differs between two experiments."""

from __future__ import annotations

import click


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--format", "form", type=click.Choice(["text", "json", "md"]), default="text", show_default=True)
@click.option("--assumptions", is_flag=True, help="Show differences where a side is only assumed.")
@click.option("--provenance", is_flag=True, help="Show values that are equal and come from elsewhere.")
@click.option(
    "--level",
    type=click.Choice(["text", "syntax", "value", "graph"]),
    default="value",
    show_default=True,
    help="What must be equal for status 0.",
)
def diff(a: str, b: str, form: str, assumptions: bool, provenance: bool, level: str) -> None:
    """Say how experiment B differs from A: first at which level, then every edit by role.

    A and B are spec files, specs of a git revision (HEAD~3:specs/x.rlspec), plan.json files or run directories. Status
    0: equal; 1: they differ; 2: one cannot be read or has an error.
    """
    from rlspec.cli.differences import as_json, as_markdown, as_text
    from rlspec.cli.sides import side
    from rlspec.compiler.diff import difference

    found = difference(side(a), side(b))
    if form == "json":
        click.echo(as_json(found))
    else:
        click.echo((as_text if form == "text" else as_markdown)(found, assumptions, provenance))
    first, second = (getattr(d, level) for d in found.digests)
    if first is None or second is None:  # a plan has no text: its meaning is compared
        first, second = (d.value for d in found.digests)
    if first != second:
        raise click.exceptions.Exit(1)
