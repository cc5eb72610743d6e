"""`rlc test`: score the literal trajectories of a spec's tests."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
def test(files: tuple[Path, ...], settings: tuple[str, ...], variant: str | None, overlays: tuple[Path, ...]) -> None:
    """Run the tests of FILES; status 1 when an expectation does not hold, 2 when a spec or test has an error."""
    from rlspec.cli.specs import checked, sound
    from rlspec.compiler.check import run_tests
    from rlspec.dsl.diagnostics import SpecError, render

    failures = errors = 0
    for path in files:
        try:
            found = sound(path, settings, None, variant, overlays, quiet=True)
        except SpecError as error:
            for diagnostic in error.diagnostics:
                click.echo(render(diagnostic) + "\n", err=True)
            errors += 1
            continue
        named = {case.variant.value for case in found.cases if case.variant is not None}
        varied = {n: checked(path, settings, None, n, overlays) for n in named & set(found.composition.variants)}
        for name, other in varied.items():
            for diagnostic in other.errors:
                click.echo(f"{render(diagnostic, other.source)}\n  = in variant `{name}`\n", err=True)
            errors += bool(other.errors)
        verdicts, mistakes = run_tests(found, varied)
        for diagnostic in mistakes:
            click.echo(render(diagnostic, found.source) + "\n", err=True)
        failed = [v for v in verdicts if v.failure is not None]
        for verdict in failed:
            assert verdict.failure is not None
            click.echo(render(verdict.failure, found.source) + "\n", err=True)
        failures += len(failed)
        errors += bool(mistakes)
        held = len(verdicts) - len(failed)
        click.echo(
            f"{path}: {held} of {len(verdicts)} expectation{'s' * (len(verdicts) != 1)} hold"
            + (f", {len(mistakes)} mistake{'s' * (len(mistakes) != 1)}" if mistakes else "")
        )
    if errors or failures:
        raise click.exceptions.Exit(2 if errors else 1)
