"""`rlc passk`: how often all of k trials of a task succeed, in a log."""

from __future__ import annotations

from pathlib import Path

import click


class _Counts(click.ParamType):
    """Whole numbers from 1, separated by commas."""

    name = "counts"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdigit() and int(part) >= 1 for part in parts):
            self.fail(f"{value!r} is no list of whole numbers from 1, such as 1,2,4", param, ctx)
        return tuple(int(part) for part in parts)


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--k", "ks", type=_Counts(), default="1,2,3,4", show_default=True, help="Numbers of trials.")
@click.option("--stage", help="Only the conversations of this stage of a run.")
def passk(log: Path, ks: tuple[int, ...], stage: str | None) -> None:
    """Print pass^k of LOG (a run directory, or one that `rlc import` wrote): the chance that k trials of one task all
    succeed, over the tasks that have as many trials."""
    from rlspec.runtime.logs.audit import pass_powers
    from rlspec.runtime.logs.log import Log

    for k, (value, tasks) in pass_powers(Log.open(log), ks, stage).items():
        click.echo(f"pass^{k}  {'-' if value is None else f'{value:.3f}'}  {tasks} tasks")
