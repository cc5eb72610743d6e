"""`rlc compare`: experiments side by side, by role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rlspec.compiler.matrix import Line


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--fields", "by_field", is_flag=True, help="A row per field and formula that differs.")
@click.option("--all", "everything", is_flag=True, help="With --fields: also those that do not differ.")
@click.option("--format", "form", type=click.Choice(["text", "md", "json", "html"]), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here; not for text.")
def compare(files: tuple[str, ...], by_field: bool, everything: bool, form: str, output: Path | None) -> None:
    """Put FILES side by side, a row per role; whatever `rlc diff` takes."""
    import json

    from rlspec.cli.pages import deliver
    from rlspec.cli.sides import side
    from rlspec.compiler.matrix import fields, summary

    sides = [side(name) for name in files]
    lines = fields(sides, everything) if by_field or everything else summary(sides)
    names = [s.plan.name for s in sides]
    heads = [n if names.count(n) == 1 else s.name for n, s in zip(names, sides, strict=True)]
    if form == "json":
        rows = [{"role": r.role, "what": r.what, "cells": dict(zip(heads, r.cells, strict=True))} for r in lines]
        deliver(json.dumps({"experiments": heads, "rows": rows}, indent=1, ensure_ascii=False), output)
    elif form == "md":
        deliver(_markdown(heads, lines), output)
    elif form == "html":
        from rlspec.compiler.showing.compared import comparison_page

        deliver(comparison_page(heads, lines), output)
    elif output is not None:
        raise click.UsageError("-o takes --format md, json or html")
    else:
        _table(heads, lines)


def _shown(value: Any) -> str:
    """A component as a few lines: its name, then its fields."""
    from rlspec.compiler.showing.words import component_lines

    return "\n".join(component_lines(value))


def _markdown(heads: list[str], lines: list[Line]) -> str:
    out = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for line in lines:
        cells = ["<br>".join(_shown(v).replace("\n", "<br>").replace("|", "\\|") for v in cell) for cell in line.cells]
        out.append(f"| {line.what} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def _table(heads: list[str], lines: list[Line]) -> None:
    import shutil
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    table.add_column("")
    for head in heads:
        table.add_column(head, overflow="fold", ratio=1)
    for line in lines:
        cells = [
            Text("\n".join(_shown(v) for v in cell) or "-", style="dim" if line.same else "") for cell in line.cells
        ]
        table.add_row(line.what, *cells)
    width = shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 60 * len(heads)
    Console(width=width).print(table)
