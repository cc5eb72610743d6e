"""`rlc merge`: three-way merge of specs, also as git's merge driver."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result here  [default: print it]")
@click.option(
    "--path", "place", help="Where the merged spec will stand; its bases and imports are looked for beside it."
)
def merge(base: Path, ours: Path, theirs: Path, output: Path | None, place: str | None) -> None:
    """Merge OURS and THEIRS, which both come from BASE, by what their items are called.

    Status 0: merged; 1: there are conflicts, marked in the text, or the result has errors that neither side has; 2: a
    file cannot be read, and nothing is written.
    """
    from rlspec.compiler.merging import merged
    from rlspec.dsl.diagnostics import Source, SpecError, render
    from rlspec.dsl.parser import read
    from rlspec.runtime.record.durable import write_file

    try:
        before = read(base)
    except SpecError as error:
        if {d.code for d in error.diagnostics} != {"RLC0002"}:
            raise
        before = Source(str(base), "")  # both sides have added the file
    outcome = merged(before, read(ours), read(theirs), place or str(ours))
    if output is None:
        click.echo(outcome.text, nl=False)
    else:
        write_file(output, outcome.text.encode())
    for conflict in outcome.conflicts:
        click.echo(f"conflict: {conflict.path}: {conflict.reason}", err=True)
    for diagnostic in outcome.errors:
        click.echo(render(diagnostic, Source(place or str(ours), outcome.text)) + "\n", err=True)
    if outcome.errors:
        click.echo("the merge fits together as text, but not as a spec: see above", err=True)
    if not outcome.clean:
        raise click.exceptions.Exit(1)
