"""`rlc rescore`: logged conversations under one or two specs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rlspec.runtime.rescoring import Effect, Score, Tables


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--spec", metavar="SPEC", help="Score under this spec, variant, plan or run  [default: the run's own]")
@click.option("--against", metavar="SPEC", help="And under this one  [default: what the run itself computed]")
@click.option("--stage", help="Trajectories of this stage  [default: a run's last stage that learns]")
@click.option("--table", "tables", multiple=True, metavar="NAME=V,V", help="Values that a stage finds.")
@click.option("--most", type=click.IntRange(0), default=5, show_default=True, help="Trajectories to name.")
@click.option("--format", "form", type=click.Choice(["text", "md", "json", "jsonl"]), default="text", show_default=True)
def rescore(
    log: Path, spec: str | None, against: str | None, stage: str | None, tables: tuple[str, ...], most: int, form: str
) -> None:
    """Score the conversations of LOG again, and say what the difference does.

    LOG is a run directory, a log that `rlc import` wrote, or one file of trajectories. The first side is --spec, the
    second --against. Without --against the first side is what the run recorded, so that a change of the spec is seen
    against what was trained on; an imported log then gets its scores alone. `--format jsonl` prints a line for every
    trajectory.
    """
    from rlspec.cli.effects import as_markdown, as_text
    from rlspec.cli.sides import side
    from rlspec.runtime import rescoring
    from rlspec.runtime.refusal import Refusal

    logged, values = rescoring.read(log, stage), tables_of(tables)
    if spec is None and logged.log.plan is None:
        raise Refusal("RLC0705", f"{log} was imported and has no spec of its own", "give --spec")
    first = rescoring.scored(logged, side(spec).plan if spec is not None else logged.log.plan, values)  # type: ignore[arg-type]
    name = spec or "its own spec"
    if against is not None:
        before, after, names = first, rescoring.scored(logged, side(against).plan, values), (name, against)
    elif logged.log.plan is not None:
        before, after, names = *rescoring.matched(rescoring.recorded(logged), first), ("as recorded", name)
    else:
        before, after, names = first, first, (name, name)
    if form == "jsonl":
        for old, new in zip(before, after, strict=True):
            click.echo(json.dumps(_line(old, new)))
        return
    found, envs = rescoring.effect(before, after, most), rescoring.by_env(before, after)
    if form == "json":
        click.echo(json.dumps(as_json(found, names, envs), indent=1))
    else:
        click.echo((as_text if form == "text" else as_markdown)(found, names, envs))


def tables_of(options: tuple[str, ...]) -> Tables:
    """`calibrate.weight=1,0.5` options as a mapping.

    Raises:
        click.BadParameter: one is written otherwise.
    """
    out = {}
    for option in options:
        name, _, listed = option.partition("=")
        try:
            out[name.strip()] = [float(v) for v in listed.split(",")]
        except ValueError:
            raise click.BadParameter(f"--table takes NAME=value,value, not {option!r}") from None
    return out


def as_json(found: Effect, names: tuple[str, str], envs: dict[str, Effect]) -> dict[str, object]:
    """An effect with the names of its sides."""
    from rlspec.runtime.rescoring import plain

    return {"before": names[0], "after": names[1], **plain(found), "by_env": {k: plain(v) for k, v in envs.items()}}


def _line(old: Score, new: Score) -> dict[str, object]:
    return {
        "key": old.key, "task": old.task, "env": old.env, "group": old.group,
        "reward": [old.reward, new.reward],
        "advantages": [list(old.advantages), list(new.advantages)],
        "terms": [dict(old.terms), dict(new.terms)],
    }  # fmt: skip
