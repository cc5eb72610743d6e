"""`rlc serve`: an environment's tools over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@composing
@click.option("--env", "label", metavar="LABEL", help="Which environment, where the spec has several.")
@click.option("--port", type=click.IntRange(0, 65535), help="Serve HTTP there (0: any free port), not stdio.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--export", "folder", type=click.Path(path_type=Path), help="Write tasks and schemas there instead.")
@click.option("--count", type=click.IntRange(1), default=200, show_default=True, help="Tasks of each split to write.")
def serve(
    file: Path,
    variant: str | None,
    overlays: tuple[Path, ...],
    label: str | None,
    port: int | None,
    host: str,
    folder: Path | None,
    count: int,
) -> None:
    """Serve the tools of an environment of FILE, a spec, to an MCP client: a session each, over standard input and
    output or over HTTP."""
    from rlspec.cli.specs import sound
    from rlspec.runtime.worlds.mcp import serving

    plan = sound(file, variant=variant, overlays=overlays, quiet=True).plan
    assert plan is not None
    world, env = serving.served(plan, label)
    if folder is not None:
        click.echo(f"{folder}: {', '.join(serving.export(world, folder, count))}")
    elif port is None:
        serving.over_stdio(world, env)
    else:
        serving.over_http(world, env, host, port, lambda url: click.echo(url))
