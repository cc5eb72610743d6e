"""`rlc why`: where a value of a spec comes from."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("path")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
def why(file: Path, path: str, settings: tuple[str, ...], variant: str | None, overlays: tuple[Path, ...]) -> None:
    """Print every layer of FILE that writes PATH, e.g. stage.train.lr, reward.R or param.k; the last one counts."""
    from rlspec.cli.specs import pairs, sound
    from rlspec.compiler.whence import chain, rendered

    found = sound(file, settings, None, variant, overlays, quiet=True)
    click.echo(rendered(chain(found.composition, path, pairs(settings))))
