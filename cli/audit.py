"""`rlc audit`: what a log says about rewards for turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlspec.cli.evidence import evidence_lines, number
from rlspec.cli.options import composing

if TYPE_CHECKING:
    from rlspec.runtime.logs.audit import Audit


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--spec", type=click.Path(path_type=Path), help="Score the log by this spec's formulas.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param of the spec.")
@composing
@click.option("--stage", help="Only the conversations of this stage of a run.")
@click.option("--threshold", type=click.FloatRange(0, 1, max_open=True), help="Weaker correlations weigh nothing.")
@click.option("--scale", type=click.FloatRange(0, min_open=True), help="Weight of a correlation of 1.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for other programs.")
def audit(
    log: Path,
    spec: Path | None,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
    stage: str | None,
    threshold: float | None,
    scale: float | None,
    as_json: bool,
) -> None:
    """Which kinds of turn go with success in LOG (a run directory, or one that `rlc import` wrote).

    Prints the evidence table of iterative reward calibration, and what doing nothing earns. With --spec also what its
    formulas make of these conversations: what each kind of turn is paid, which advantage it gets, dead and misaligned
    turns.
    """
    from rlspec.runtime.logs.audit import audit as audited
    from rlspec.runtime.logs.log import Log

    opened = Log.open(log)
    plan = None
    if spec is not None:
        from rlspec.cli.run import load_plan

        plan, _ = load_plan(spec, settings, None, variant, overlays)
    elif settings or variant or overlays:
        raise click.UsageError("--set, --variant and --with change a spec: give --spec")
    found = audited(opened, plan, stage, threshold, scale)
    if as_json:
        click.echo(json.dumps([one.plain() for one in found], indent=1))
        return
    click.echo("\n\n".join(_text(one) for one in found))


def _text(found: Audit) -> str:
    """An audit as lines: counts, the table, and with a spec what its formulas do."""
    floor = found.floor
    turns = found.turns / found.conversations if found.conversations else 0.0
    lines = [
        f"{found.env}: {found.conversations} conversations of {found.tasks} tasks, {turns:.1f} turns each, "
        f"success {found.success:.3f}"
    ]
    if floor.tasks:
        silent = "" if floor.silent is None else f"; {floor.silent} of them ask for no text either"
        share = floor.passed / floor.tasks
        lines.append(
            f"doing nothing ends in the wanted state on {floor.passed} of {floor.tasks} tasks ({share:.3f}){silent}"
        )
    else:
        lines.append("doing nothing: the log does not say which state is wanted")
    body = found.plain()
    lines += [
        "",
        *evidence_lines(body["rows"], found.suggested, found.realised, found.mismatches or (), found.paid),
    ]
    lines.append(f"weight = {found.scale:g} * rho where |rho| > {found.threshold:g}")
    if found.realised is not None:
        lines.append("")
        if found.health is not None:
            lines.append(f"dead turns {found.health.dead:.1%}, misaligned turns {found.health.misaligned:.1%}")
        lines.append(f"correlation of mean reward and outcome {number(found.agreement, '+')}")
    for label, calibration in (found.calibrations or {}).items():
        table = ", ".join(f"{choice} {value:+.3f}" for choice, value in calibration.weights.items())
        lines.append(f"{label}: {table}; {_rounds(len(calibration.rounds))}, {calibration.ended}")
    return "\n".join(lines)


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"
