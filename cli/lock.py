"""`rlc lock`: write down what specs stand on."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", "checking", is_flag=True, help="Write nothing; status 2 when a lock does not hold.")
def lock(files: tuple[Path, ...], checking: bool) -> None:
    """Write FILE.lock for every FILE: digests of all that its meaning depends on. Pins that are there stay."""
    from rlspec.compiler.locks import lock_of, lock_path, lock_text, read_lock, verify
    from rlspec.dsl.diagnostics import SpecError, render
    from rlspec.dsl.parser import read
    from rlspec.runtime.record.durable import write_file

    refused = False
    for path in files:
        if checking:
            try:
                verify(read(path))
                click.echo(f"{path}: ok")
            except SpecError as error:
                refused = True
                for diagnostic in error.diagnostics:
                    click.echo(render(diagnostic), err=True)
            continue
        new = lock_of(read(path))
        if lock_path(path).exists():
            old = read_lock(path)
            new |= {"pinned": old["pinned"]} if "pinned" in old else {}
        write_file(lock_path(path), lock_text(new).encode())
        counts = (("spec", "files"), ("library", "definitions"), ("plugins", "plugins"), ("data", "data"))
        said = ", ".join(f"{len(new[part])} {word}" for part, word in counts if new[part])
        click.echo(f"{lock_path(path)}: {said}")
    if refused:
        raise click.exceptions.Exit(2)
