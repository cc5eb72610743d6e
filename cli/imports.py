"""`rlc import`: logged conversations become a log that `rlc audit`, `rlc passk` and `rlc rescore` read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
_OUT = click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The log's directory.")
_ENV = click.option("--env", default="desk", show_default=True, help="Label of the environment in measures.")


@click.group("import")
def import_() -> None:
    """Turn logged conversations into trajectories. They have no tokens: nobody logged what was sampled."""


@import_.command("tau-bench")
@_FILES
@_OUT
@click.option("--tasks", type=click.Path(path_type=Path), help="The tasks  [default: tasks.json beside the file]")
@_ENV
def tau_bench(files: tuple[Path, ...], out: Path, tasks: Path | None, env: str) -> None:
    """Results of tau-bench: FILES of JSON or JSON lines, gzipped or not."""
    from rlspec.runtime.logs import tau_bench as source

    _write(out, source.read(files, tasks, env))


@import_.command("openai")
@_FILES
@_OUT
@click.option("--writes", multiple=True, metavar="TOOL", help="A tool that changes the state; can be repeated.")
@_ENV
def openai(files: tuple[Path, ...], out: Path, writes: tuple[str, ...], env: str) -> None:
    """Objects with `messages`, and where known `task`, `reward` (0 or 1) and `gold` calls."""
    from rlspec.runtime.logs import openai as source

    _write(out, source.read(files, env, frozenset(writes)))


def _write(out: Path, found: Any) -> None:
    from rlspec.runtime.logs.log import write

    write(out, found.about, found.tasks, found.trajectories)
    turns = sum(t.ledger.turns for t in found.trajectories)
    click.echo(f"{out}: {len(found.trajectories)} conversations of {len(found.tasks)} tasks, {turns} turns, no tokens")
    for name, text in (
        ("failed", "ended in a failure of the machinery and count nowhere"),
        ("calls_not_executed", "further calls of a message, which the benchmark does not execute, were left out"),
        ("calls_made_turns", "further calls of a message became turns of their own"),
    ):
        if found.about.get(name):
            click.echo(f"{found.about[name]} {text}")
