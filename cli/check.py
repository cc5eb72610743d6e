"""`rlc check`: all errors of all files at once."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlspec.cli.options import composing


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param, as `rlc run` does.")
@composing
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def check(
    files: tuple[Path, ...], settings: tuple[str, ...], variant: str | None, overlays: tuple[Path, ...], form: str
) -> None:
    """Say everything that is wrong with FILES and all their variants; status 2 when there is an error."""
    from rlspec.cli.specs import checked, checked_whole
    from rlspec.dsl.diagnostics import SpecError, as_json, render

    failed = 0
    records = []
    for path in files:
        try:
            found = (
                checked(path, settings, None, variant, overlays)
                if variant is not None
                else checked_whole(path, settings, overlays)
            )
            source, diagnostics = found.source, found.diagnostics
        except SpecError as error:
            source, diagnostics = None, list(error.diagnostics)
        errors = sum(d.severity == "error" for d in diagnostics)
        failed += bool(errors)
        if form == "json":
            records += [as_json(d, source) for d in diagnostics]
            continue
        for diagnostic in diagnostics:
            click.echo(render(diagnostic, source) + "\n", err=True)
        warnings = len(diagnostics) - errors
        verdict = "ok" if not errors else f"{errors} error{'s' * (errors != 1)}"
        click.echo(f"{path}: {verdict}" + (f", {warnings} warning{'s' * (warnings != 1)}" if warnings else ""))
    if form == "json":
        click.echo(json.dumps(records, indent=1))
    if failed:
        raise click.exceptions.Exit(2)
