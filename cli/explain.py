"""`rlc explain`: what a diagnostic code stands for."""

from __future__ import annotations

import click


@click.command()
@click.argument("code")
def explain(code: str) -> None:
    """Explain a diagnostic CODE, e.g. RLC0301."""
    from rlspec.dsl.codes import CODES
    from rlspec.dsl.diagnostics import near_name

    found = CODES.get(code.upper())
    if found is None:
        near = near_name(code.upper(), CODES)
        raise click.BadParameter(f"there is no {code}" + (f"; did you mean {near}?" if near else ""))
    click.echo(f"{code.upper()}: {found}")
