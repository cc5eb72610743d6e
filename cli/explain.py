"""`rlc explain`: what a diagnostic code stands for, with an example and its cure."""

from __future__ import annotations

import click


@click.command()
@click.argument("code", required=False)
@click.option("--whole", is_flag=True, help="Print the wrong example as a whole spec, ready for `rlc check`.")
def explain(code: str | None, whole: bool) -> None:
    """Explain a diagnostic CODE, e.g. RLC0301; without one, list them all by area."""
    from rlspec.dsl.codes import CODES

    if code is None:
        _list()
        return
    from rlspec.dsl.diagnostics import near_name
    from rlspec.dsl.explanations import completed, explanations

    wanted = code.upper() if code.upper().startswith("RLC") else f"RLC{code}"
    if wanted not in CODES:
        near = near_name(wanted, CODES)
        raise click.BadParameter(f"there is no {code}" + (f"; did you mean {near}?" if near else ""))
    found = explanations()[wanted]
    if whole:
        if found.bad is None:
            raise click.BadParameter(f"no spec alone gives {wanted}: {found.situation}")
        click.echo(completed(found.bad), nl=False)
        return
    click.echo(f"{wanted}: {CODES[wanted]}\n\n{click.wrap_text(found.text, 100)}")
    for title, text in (
        ("For example", found.situation),
        ("Wrong", found.bad.text if found.bad else ""),
        ("Right", found.good.text if found.good else ""),
    ):
        if text:
            click.echo(f"\n{title}:\n\n" + "\n".join(f"    {line}" for line in text.splitlines()))


def _list() -> None:
    from rlspec.dsl.codes import CODES
    from rlspec.dsl.explanations import AREAS

    for area, words in AREAS.items():
        click.echo(f"{area} {words}")
        for code, text in CODES.items():
            if code[3:5] == area:
                click.echo(f"  {code}  {text}")
