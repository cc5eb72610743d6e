"""What the commands share: reading a spec with its settings, printing its diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rlspec.cli.options import Patch, overlay
from rlspec.compiler.check import Checked, check, check_whole, settings_of
from rlspec.dsl.diagnostics import Diagnostic, SpecError, render
from rlspec.dsl.parser import read


def pairs(settings: Sequence[str]) -> dict[str, str]:
    """`name=value` options as a mapping.

    Raises:
        click.BadParameter: one has no `=`.
    """
    out = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise click.BadParameter(f"--set takes name=value, not {setting!r}")
        out[name.strip()] = value.strip()
    return out


def checked(
    path: Path,
    settings: Sequence[str] = (),
    seed: int | None = None,
    variant: str | None = None,
    overlays: Sequence[Path | Patch] = (),
) -> Checked:
    """Read and check a spec, with one variant of it and with overlays.

    Raises:
        SpecError: a file cannot be read, or a setting does not parse.
    """
    return check(read(path), settings_of(pairs(settings)), seed, variant, [overlay(o) for o in overlays])


def checked_whole(path: Path, settings: Sequence[str] = (), overlays: Sequence[Path | Patch] = ()) -> Checked:
    """Read and check a spec with all its variants, claims and tests.

    Raises:
        SpecError: a file cannot be read, or a setting does not parse.
    """
    return check_whole(read(path), settings_of(pairs(settings)), [overlay(o) for o in overlays])


def sound(
    path: Path,
    settings: Sequence[str] = (),
    seed: int | None = None,
    variant: str | None = None,
    overlays: Sequence[Path | Patch] = (),
    quiet: bool = False,
) -> Checked:
    """A spec without errors; its warnings are printed, unless `quiet`.

    Raises:
        SpecError: every error and warning of the spec.
    """
    found = checked(path, settings, seed, variant, overlays)
    if not found.errors and found.experiment is not None and found.plan is not None:
        from rlspec.compiler.costs.fit import report_excess

        report_excess(found.experiment, found.plan, found.diagnostics, read_files=True)
    if found.errors:
        raise SpecError([placed(d, found) for d in found.diagnostics])
    for warning in () if quiet else found.diagnostics:
        click.echo(render(warning, found.source), err=True)
    return found


def placed(diagnostic: Diagnostic, found: Checked) -> Diagnostic:
    """A diagnostic with the file that it is about."""
    from dataclasses import replace

    return diagnostic if diagnostic.source is not None else replace(diagnostic, source=found.source)
