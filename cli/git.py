"""`rlc git`: what git shows of specs. `install` sets up this repository, `show` is what git then calls."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def git() -> None:
    """Teach git to show specs by what they mean."""


@git.command()
@click.option("--remove", is_flag=True, help="Take out what `install` put in, and nothing else.")
@click.option("--merge/--no-merge", default=True, help="Also the merge driver, where this rlc has `rlc merge`.")
def install(remove: bool, merge: bool) -> None:
    """Set up diff and merge of specs in the repository around the current folder; can be repeated.

    The attributes are a line in `.gitattributes`, to be committed. What they name is in the repository's own
    configuration, which git never takes from a clone: everybody runs this once.
    """
    from rlspec.cli.main import COMMANDS
    from rlspec.editor import drivers

    try:
        folder = drivers.root(Path.cwd())
        merging = merge and "merge" in COMMANDS
        done = drivers.remove(folder) if remove else drivers.install(folder, merging)
    except drivers.GitFailed as error:
        raise click.ClickException(str(error)) from error
    for line in done or ["nothing to do"]:
        click.echo(line)


@git.command()
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    """Print FILE as git compares it: every value resolved, one a line. Of a file with errors, its own text.

    git calls this for both sides of a diff. It always succeeds on a file that can be read, because a diff must show old
    versions too, also those that this version of the language refuses.
    """
    from rlspec.editor.drivers import compared

    click.echo(compared(file), nl=False)
