"""Where a page goes: a file, whole or not at all, or standard output."""

from __future__ import annotations

from pathlib import Path

import click


def deliver(text: str, output: Path | None) -> None:
    """Write a page, or print it.

    Raises:
        Refusal: RLC0702, the system does not let it be written.
    """
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    from rlspec.runtime.record.durable import write_file

    write_file(output, text.encode())
