"""`rlc fix`: specs of older editions, brought to the present one."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", "checking", is_flag=True, help="Write nothing; status 1 when a file would change.")
def fix(files: tuple[Path, ...], checking: bool) -> None:
    """Bring FILES to the present edition of the language; comments and everything else stay.

    Each result is read back and checked. What has no counterpart is left as it stands and reported, with status 2.
    """
    from rlspec.cli.fmt import replace_text
    from rlspec.compiler.check import check_whole
    from rlspec.compiler.editions import brought_forward
    from rlspec.dsl.diagnostics import Source, SpecError, render
    from rlspec.dsl.parser import read

    refused = changed = False
    for path in files:
        try:
            source = read(path)
            forward = brought_forward(source)
        except SpecError as error:
            refused = True
            for diagnostic in error.diagnostics:
                click.echo(render(diagnostic) + "\n", err=True)
            continue
        if forward.text == source.text:
            click.echo(f"{path}: nothing to do")
            continue
        changed = True
        for line, about in forward.done:
            click.echo(f"{path}:{line}: {about}")
        for line, about in forward.kept:
            click.echo(f"{path}:{line}: left alone, a comment stands in it: {about}", err=True)
        if not checking:
            replace_text(path, forward.text)
        fixed = Source(str(path), forward.text)
        left = [d for d in check_whole(fixed).diagnostics if d.severity == "error"]
        for diagnostic in left:
            click.echo(render(diagnostic, fixed) + "\n", err=True)
        refused |= bool(left)
        said = "would change" if checking else "written"
        click.echo(f"{path}: {said}" + (f"; {len(left)} left to do by hand" if left else ""))
    if refused:
        raise click.exceptions.Exit(2)
    if checking and changed:
        raise click.exceptions.Exit(1)
