"""`rlc export`: what a run holds, as files for others."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("export")
def export() -> None:
    """Write what a run holds as files for others."""


@export.command("triples")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The JSONL file to write.")
def triples(run: Path, out: Path) -> None:
    """Failed attempts of RUN with the calls that solve their tasks and what was said of them, one JSON object per line.

    A stage `: diagnostician` learns from such a file."""
    from rlspec.runtime.triples import triples_of, write

    found = list(triples_of(run))
    write(found, out)
    tasks = len({triple.task for triple in found})
    click.echo(f"{out}: {len(found)} triples of {tasks} tasks, {len({t.diagnosis for t in found})} different diagnoses")
