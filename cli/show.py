"""`rlc show`: what a run learned, and its conversations turn by turn."""

from __future__ import annotations

import json
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from rlspec.runtime.record.directory import RunDirectory

# What a policy writes must not steer the terminal: control characters, direction marks, half surrogates.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOURS = {"user": "cyan", "agent": "green", "tool": "yellow"}
_FILE_WIDTH = 160  # columns when nobody's terminal says


@click.command("show")
@click.argument("run")
@click.argument("trajectory", required=False)
@click.option("--stage", help="Metrics and trajectories of this stage only.")
@click.option("--step", type=click.IntRange(min=0), help="The stage's trajectories of this step.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for other programs.")
def show(run: str, trajectory: str | None, stage: str | None, step: int | None, as_json: bool) -> None:
    """What RUN (a run directory, or its name under runs/) learned.

    Prints the metrics (first, middle, last), the learning curve, evaluations before and after, and a good and a bad
    conversation of the last step. With TRAJECTORY (a key such as train/12/5/3) prints that conversation, every turn
    with its signals, reward and advantage.
    """
    from rlspec.runtime.record import report
    from rlspec.runtime.record.directory import RunDirectory
    from rlspec.runtime.refusal import Refusal

    recorded = RunDirectory.open(_directory(run), None, resume=False)
    if trajectory is not None:
        if stage is not None and trajectory.partition("/")[0] != stage:
            raise Refusal("RLC0705", f"{trajectory} is no trajectory of stage {stage}", "leave --stage out")
        found, place = report.find(recorded, trajectory, step)
        view = report.describe(found, report.formulas(recorded)) | {"file": list(place)}
        if as_json:
            click.echo(json.dumps(view, indent=1))
        else:
            _print_trajectory(_console(), view)
        return
    overview = _overview(recorded, stage, step)
    if as_json:
        click.echo(json.dumps(_without_rows(overview), indent=1))
    else:
        _print_overview(_console(), overview)


def _directory(run: str) -> Path:
    """The run's directory. Raises Refusal RLC0705 with near names when there is none."""
    from rlspec.runtime.refusal import Refusal

    for path in (Path(run), Path("runs") / run):
        if path.is_dir():
            return path
    there = [p.name for p in Path("runs").iterdir() if p.is_dir()] if Path("runs").is_dir() else []
    near = get_close_matches(Path(run).name, there, n=3, cutoff=0.3)
    cure = f"there are {', '.join(near)}" if near else "`rlc run` makes them, in runs/"
    raise Refusal("RLC0705", f"there is no run {run}", cure)


def _overview(run: RunDirectory, stage: str | None, step: int | None) -> dict[str, Any]:
    """Everything that is printed about a run, as data."""
    from rlspec.runtime.record import report
    from rlspec.runtime.refusal import Refusal

    lines, kept, known = run.metrics.read(), run.steps(), report.formulas(run)
    stages = list(dict.fromkeys([str(line.get("stage")) for line in lines] + [name for name, _ in kept]))
    if stage is not None and stage not in stages:
        cure = f"its stages so far are {', '.join(stages)}" if stages else "it has recorded nothing yet"
        raise Refusal("RLC0705", f"{run.path} has no stage {stage}", cure)
    learning = report.training_stages(lines)
    chosen = stage or (learning[-1] if learning else stages[-1] if stages else None)
    steps, rows = report.metrics_table(lines, chosen) if chosen is not None else ([], [])
    if step is not None:
        at = [place for place in kept if place[1] == step and place[0] == chosen]
        if not at:
            raise Refusal("RLC0705", f"{run.path} keeps no trajectories of step {step} of stage {chosen}")
    else:
        at = [place for place in kept if place[0] == chosen] or ([] if stage else kept)
    last = at[-1] if at else None
    shown = run.read_trajectories(*last) if last is not None else []
    return {
        "run": str(run.path),
        "digest": run.plan_digest,
        "finished": run.report() is not None,
        "differences": run.differences(),
        "stage": chosen,
        "steps": steps,
        "rows": rows,
        "curve": report.curve(rows),
        "results": run.results(),
        "evaluations": [e for e in report.evaluations(lines) if stage in (None, e["stage"]) or stage in learning],
        "kept": {name: [s for other, s in kept if other == name] for name in dict.fromkeys(name for name, _ in kept)},
        "at": last,
        "list": [_brief(t, report.worth(t, known)) for t in shown] if step is not None else [],
        "shown": [(label, report.describe(t, known)) for label, t in report.good_and_bad(shown, known)],
    }


def _brief(trajectory: Any, worth: float | None) -> dict[str, Any]:
    return {
        "key": trajectory.key,
        "task": trajectory.task,
        "finish": trajectory.finish,
        "turns": trajectory.ledger.turns,
        "tokens": len(trajectory.ledger),
        "got": worth,
    }


def _without_rows(overview: dict[str, Any]) -> dict[str, Any]:
    """The overview for JSON: rows become lists by metric."""
    curve = overview["curve"]
    metrics = {row.name: list(row.values) for row in overview["rows"]}
    return {k: v for k, v in overview.items() if k != "rows"} | {
        "metrics": metrics,
        "curve": None if curve is None else curve.name,
    }


# ------------------------------------------------------------------------------------------------------ printing


def _console() -> Console:
    """A console that never fails on a character; wide and without decoration when it is no terminal."""
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _FILE_WIDTH, highlight=False)


def _table(console: Console, *columns: str) -> Any:
    """A table: the first column at the left, figures at the right."""
    from rich import box
    from rich.table import Table

    plain = not console.is_terminal
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, header_style="" if plain else "bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def _print_overview(console: Console, found: dict[str, Any]) -> None:
    from rlspec.runtime.record.curve import plot, sparkline

    plain = not console.is_terminal
    state = "finished" if found["finished"] else "not finished; go on with --resume"
    _say(console, f"{found['run']}  {found['digest']}  ({state})", "bold")
    for difference in found["differences"]:
        _say(console, f"since it was started: {difference}; numbers may differ in their last bits", "yellow")
    if found["evaluations"]:
        _print_evaluations(console, found["evaluations"])
    for name, result in found["results"].items():
        if result.get("kind") == "irc":
            _print_calibration(console, name, result)
    steps, rows = found["steps"], found["rows"]
    if rows:
        picks = sorted({0, (len(steps) - 1) // 2, len(steps) - 1})
        _say(console, f"\n{found['stage']}: {len(steps)} {'step' if len(steps) == 1 else 'steps'}", "bold")
        table = _table(console, "metric", *(f"step {steps[i]}" for i in picks), *([] if plain else [""]))
        for row in rows:
            trend = [] if plain else [sparkline([float("nan") if v is None else v for v in row.values])]
            table.add_row(_visible(row.name), *(_figure(row.values[i]) for i in picks), *trend)
        console.print(table)
    curve = found["curve"]
    if curve is not None and len(curve.finite) > 1:
        _say(console, f"\n{curve.name} over {found['stage']}", "bold")
        for line in plot(curve.finite, width=min(64, console.width - 12), plain=plain):
            _say(console, line)
    if found["kept"]:
        _say(console, "\ntrajectories", "bold")
        for stage, kept in found["kept"].items():
            _say(console, f"{stage}: {_ranges(kept)}")
    else:
        _say(console, "\nno trajectories are kept yet")
    if found["list"]:
        table = _table(console, "trajectory", "task", "turns", "tokens", "got", "finish")
        for t in found["list"]:
            table.add_row(
                _visible(t["key"]), _visible(t["task"]), *map(_figure, (t["turns"], t["tokens"], t["got"])), t["finish"]
            )
        console.print(table)
    for label, view in found["shown"]:
        stage, step = found["at"]
        _say(console, f"\n{label} ({stage}, step {step})", "bold")
        _print_trajectory(console, view)


def _print_evaluations(console: Console, evaluations: list[dict[str, Any]]) -> None:
    """Success and pass^k, one line an evaluation, with the change from the first of its stage to the last."""
    ks = sorted({n for e in evaluations for n in e if n.startswith("pass^")}, key=lambda n: (len(n), n))
    names = [name for name in ("success", *ks, "reward") if any(name in e for e in evaluations)]
    table = _table(console, "evaluation", "step", *names)
    _say(console, "\nevaluations", "bold")
    for stage in dict.fromkeys(e["stage"] for e in evaluations):
        own = [e for e in evaluations if e["stage"] == stage]
        for e in own:
            label = _visible(f"{stage} {e['when']}".strip())
            table.add_row(label, _figure(e["step"]), *(_figure(e.get(name)) for name in names))
        if len(own) > 1:
            table.add_row("  change", "", *(_change(own[0].get(name), own[-1].get(name)) for name in names))
    console.print(table)


def _print_calibration(console: Console, stage: str, result: dict[str, Any]) -> None:
    """What a calibration found: the evidence of its last round, and the weights that it ended with."""
    from rlspec.cli.evidence import evidence_lines

    report = result["report"]
    last, count = report["rounds"][-1], len(report["rounds"])
    rounds = "1 round" if count == 1 else f"{count} rounds"
    _say(console, f"\n{stage}: {rounds}, {last['trajectories']} trajectories; {report['ended']}", "bold")
    for line in evidence_lines(last["rows"], last["weights"], last["realised"], last["mismatches"]):
        _say(console, _visible(line))


def _change(first: float | None, last: float | None) -> str:
    return "" if first is None or last is None else f"{last - first:+.4g}"


def _print_trajectory(console: Console, view: dict[str, Any]) -> None:
    """One conversation, turn by turn."""
    _say(
        console,
        f"{view['key']}  task {view['task']}  {view['turns']} turns, {view['tokens']} tokens"
        f" ({view['agent_tokens']} the agent's)  ended: {view['finish']}",
        "bold",
    )
    if view["failure"] is not None:
        _say(console, f"lost by the machinery, counts nowhere: {view['failure']}", "red")
    for message in view["messages"]:
        role = message["role"]
        head = f"{message['turn']:>3} agent" if role == "agent" else f"    {role}"
        said = [message["text"]] if message["text"] else []
        if "call" in message:
            arguments = json.dumps(message["call"]["arguments"], ensure_ascii=False)
            said.append(f"-> {message['call']['name']}({arguments})")
        if "malformed" in message:
            said.append(f"-> a call that cannot be read: {message['malformed']}")
        if role == "tool" and "status" in message:
            head += f" [{message['status']}{', wrote' if message.get('wrote') else ''}]"
        _say(console, f"{head}: {' '.join(said)}", _COLOURS[role])
        notes = [f"{name} {_figure(value)}" for part in ("signals", "scores") for name, value in _items(message, part)]
        if "logprob" in message:
            notes.append(
                f"{message['tokens']} tokens of weights {message['version']}, mean log p {message['logprob']:.3g}"
            )
        if notes:
            _say(console, f"      {'; '.join(notes)}", "dim")
    for name, value in view["signals"].items():
        _say(console, f"    signal {name} = {_figure(value)}")
    if "reward" in view:
        reward, advantage = view["reward"], view["advantage"]
        _say(console, f"    reward {reward['name']} = {_figure(reward['value'])}", "bold")
        for term in reward["terms"]:
            _say(console, f"        {_figure(term['value']):>9}  {term['text']}")
        _say(console, f"    advantage {advantage['name']} = {_figure(advantage['value'])}", "bold")
    for name, value in view["scores"].items():
        _say(console, f"    {name} = {_figure(value)}")


def _items(message: dict[str, Any], part: str) -> list[tuple[str, Any]]:
    return list(message.get(part, {}).items())


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a text as it is: no markup, nothing that the terminal obeys; whole lines when it is no terminal."""
    from rich.text import Text

    console.print(Text(_visible(text), style=style), soft_wrap=not console.is_terminal)


def _visible(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _figure(value: Any) -> str:
    """A value in few characters."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e6 else f"{value:.4g}"
        case list():
            return "[" + ", ".join(map(_figure, value)) + "]"
    return str(value)


def _ranges(steps: list[int]) -> str:
    """[0, 1, 2, 5] -> "steps 0-2, 5"."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join(parts)}"
