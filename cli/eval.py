"""`rlc eval`: what an expression means in a spec, and its value on literal trajectories."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing


@click.command("eval")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("expression")
@click.option("--given", "givens", multiple=True, metavar="NAME=VALUE", help="A signal, measure or formula's values.")
@click.option("--on", "env", metavar="ENV", help="The environment  [default: the first that knows what is given]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
def eval_(
    file: Path,
    expression: str,
    givens: tuple[str, ...],
    env: str | None,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
) -> None:
    """Print type, level and range of EXPRESSION in FILE, and its value when what it reads is given.

    \b
    rlc eval tarl.rlspec R
    rlc eval tarl.rlspec R --given outcome=0 --given "verdict=[1, -1, -1, 0]"
    """
    from rlspec.cli.specs import sound
    from rlspec.compiler.spectest import evaluated

    found = sound(file, settings, None, variant, overlays, quiet=True)
    assert found.experiment is not None
    click.echo(evaluated(found.experiment, expression, givens, env))
