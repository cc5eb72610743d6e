"""`rlc freeze`: pin what a run's stages have found."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--run", "run", type=click.Path(path_type=Path), help="The run whose results are taken.")
def freeze(target: Path, run: Path | None) -> None:
    """Pin the tables in `results/` of a run in the lock of TARGET, a spec, or of a run directory's own resolved spec.

    With `--locked` a later run uses them, and leaves out the stages that found them.
    """
    from rlspec.compiler.check import check
    from rlspec.compiler.locks import frozen, lock_of, lock_path, lock_text, pinned, read_lock, results_in, unproven
    from rlspec.dsl.diagnostics import render
    from rlspec.dsl.parser import read
    from rlspec.runtime.record.durable import write_file

    if run is None and not target.is_dir():
        raise click.UsageError("a spec needs `--run DIR`, the run whose results are pinned")
    spec = target / "resolved.rlspec" if target.is_dir() else target
    pins = results_in(run or target)
    source = read(spec)
    lock = read_lock(spec) if lock_path(spec).exists() else lock_of(source)
    found = check(source)
    if found.plan is not None:
        pinned(found.plan, pins)  # refuses what does not fit before anything is written
    for diagnostic in unproven(run or target):
        click.echo(render(diagnostic), err=True)
    write_file(lock_path(spec), lock_text(frozen(lock, pins)).encode())
    for name, pin in pins.items():
        values = ", ".join(f"{choice} {value:g}" for choice, value in pin.values.items())
        click.echo(f"{name}: {values}")
    click.echo(f"{lock_path(spec)}: use it with --locked")
