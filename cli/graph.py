"""`rlc graph`: the plan as a drawing."""

from __future__ import annotations

from pathlib import Path

import click

from rlspec.cli.options import composing

FORMATS = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot"}


@click.command()
@click.argument("file")
@click.option(
    "--of",
    "view",
    type=click.Choice(["roles", "stages", "formulas"]),
    default="roles",
    show_default=True,
    help="Who works with whom, what follows what, or what is made of what.",
)
@click.option("--format", "form", type=click.Choice(["mermaid", "dot", "svg"]), help="[default: by the output's name]")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param.")
@composing
def graph(
    file: str,
    view: str,
    form: str | None,
    output: Path | None,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
) -> None:
    """Draw FILE, a spec, plan.json or run directory: policy, environments, users and judges, and what flows from the
    signals over reward and advantage to the tokens that are learned from. Without --format and -o it is Mermaid."""
    from rlspec.cli.pages import deliver
    from rlspec.cli.sides import side
    from rlspec.cli.specs import sound
    from rlspec.compiler.showing import drawing
    from rlspec.compiler.showing.graph import VIEWS, graph_of

    if settings or variant is not None or overlays:
        plan = sound(Path(file), settings, None, variant, overlays, quiet=True).plan
        assert plan is not None
    else:
        plan = side(file).plan
    drawn = graph_of(plan, next(v for v in VIEWS if v == view))
    if form is None:
        form = FORMATS.get(output.suffix, "mermaid") if output is not None else "mermaid"
    deliver({"svg": drawing.svg, "mermaid": drawing.mermaid, "dot": drawing.dot}[form](drawn), output)
