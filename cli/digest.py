"""`rlc digest`: the four digests of experiments."""

from __future__ import annotations

import click


@click.command()
@click.argument("files", nargs=-1, required=True)
def digest(files: tuple[str, ...]) -> None:
    """Print the digests of FILES: text (t1), syntax (a1), value (v1), graph (g1); of plans and runs the last two."""
    from rlspec.cli.sides import side

    for name in files:
        found = side(name).digests
        if len(files) > 1:
            click.echo(name)
        for value in (found.text, found.syntax, found.value, found.graph):
            if value is not None:
                click.echo(value)
