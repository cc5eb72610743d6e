"""`rlc doc`: a spec as a page for people."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing, overlay


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the page here  [default: standard output]")
@click.option("--format", "form", type=click.Choice(["html", "md"]), help="[default: by the output's name, else html]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
def doc(
    file: Path,
    output: Path | None,
    form: str | None,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
) -> None:
    """FILE as one page: roles, formulas typeset with what they reach, where every number comes from, claims, variants,
    stages, budget and tests. HTML needs no network and no script; Markdown has its formulas in LaTeX."""
    from rlspec.cli.pages import deliver
    from rlspec.cli.specs import pairs
    from rlspec.compiler.check import settings_of
    from rlspec.compiler.showing.drawing import mermaid, svg
    from rlspec.compiler.showing.graph import graph_of
    from rlspec.compiler.showing.page import html_page, markdown_page
    from rlspec.compiler.showing.sheet import sheet
    from rlspec.dsl.parser import read

    page = sheet(read(file), settings_of(pairs(settings)), variant, [overlay(o) for o in overlays])
    if form is None:
        form = "md" if output is not None and output.suffix in (".md", ".markdown") else "html"
    roles = graph_of(page.plan)
    deliver(html_page(page, svg(roles)) if form == "html" else markdown_page(page, mermaid(roles)), output)
