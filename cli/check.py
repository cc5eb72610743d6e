"""`rlc check`: all errors of all files at once, for people and for machines, with safe fixes on request."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli import checking
from rlspec.cli.options import composing


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param, as `rlc run` does.")
@composing
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text",
              show_default=True, help="sarif: SARIF 2.1.0; github: workflow annotations.")  # fmt: skip
@click.option("--fix", "fix", is_flag=True, help="Apply safe fixes to the files, then check again.")
@click.option("--locked", is_flag=True, help="Also say whether each spec's lock holds.")
def check(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
    form: str,
    fix: bool,
    locked: bool,
) -> None:
    """Say everything that is wrong with FILES and all their variants; status 2 when there is an error."""
    if status := checking.run(files, (settings, variant, overlays), form, fix, locked):
        raise click.exceptions.Exit(status)
