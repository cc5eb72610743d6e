"""`rlc run`: train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlspec.cli.options import composing, option_of

if TYPE_CHECKING:
    from rlspec.compiler.plan import Plan


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a param of the spec.")
@composing
@click.option("--seed", type=click.IntRange(0), help="The run's seed, instead of the spec's.")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory  [default: runs/<name>-<digest>]")
@click.option("--executor", type=click.Choice(["ray", "local"]), default="ray", show_default=True)
@click.option("--resume", is_flag=True, help="Go on with the run in its directory.")
@click.option("--locked", is_flag=True, help="Only if the spec's lock holds; with what is pinned in it.")
def run(
    file: Path,
    settings: tuple[str, ...],
    variant: str | None,
    overlays: tuple[Path, ...],
    seed: int | None,
    out: Path | None,
    executor: str,
    resume: bool,
    locked: bool,
) -> None:
    """Run FILE, a spec or a plan.json, and write everything into a run directory."""
    plan, resolved = load_plan(file, settings, seed, variant, overlays, locked)
    from rlspec.runtime.launch import launch

    path = out or Path("runs") / plan.short
    from rlspec.cli.progress import reporter
    from rlspec.runtime.refusal import Interrupted

    watcher = reporter()
    click.echo(f"{plan.title}\n{path}")
    try:
        report = launch(plan, resolved, path, executor, watcher, resume=resume, spec=file)
    except Interrupted:
        watcher.close()
        click.echo(f"stopped; go on with: {again(file, settings, seed, out, executor, variant, overlays, locked)}")
        raise click.exceptions.Exit(130) from None
    finally:
        watcher.close()
    click.echo(summary(report))
    click.echo(f"look closer with: rlc show {path}")


def again(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    executor: str,
    variant: str | None = None,
    overlays: tuple[Path, ...] = (),
    locked: bool = False,
) -> str:
    """The command that goes on with this run."""
    words = ["rlc", "run", str(file), *(f"--set {s!r}" for s in settings)]
    words += [f"--variant {variant}"] * (variant is not None) + [option_of(o) for o in overlays]
    words += [f"--seed {seed}"] * (seed is not None) + [f"--out {out}"] * (out is not None)
    words += ["--locked"] * locked
    return " ".join([*words, *([f"--executor {executor}"] if executor != "ray" else []), "--resume"])


def load_plan(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    variant: str | None = None,
    overlays: tuple[Path, ...] = (),
    locked: bool = False,
) -> tuple[Plan, str]:
    """The plan of a spec or of a plan's JSON, and the resolved spec's text.

    Raises:
        SpecError, Refusal: it cannot be read or has errors.
    """
    if file.suffix == ".json":
        from rlspec.compiler.stored import read_plan

        if settings or variant is not None or overlays or locked:
            raise click.UsageError(
                "--set, --variant, --with, --patch and --locked work on a spec; a plan is already resolved"
            )
        plan = read_plan(file)
        if seed is not None:
            plan = plan.model_copy(update={"seed": seed})
        return plan, ""
    from rlspec.cli.specs import sound
    from rlspec.compiler.resolved import resolved_text

    found = sound(file, settings, seed, variant, overlays)
    assert found.plan is not None
    assert found.experiment is not None
    text = resolved_text(found.experiment, found.plan, found.composition.patches)
    if not locked:
        return found.plan, text
    from rlspec.compiler.locks import pinned, pins_of, verify

    pins = pins_of(verify(found.source))
    told = "".join(f"# pinned: {name} = {json.dumps(pin.values)}\n" for name, pin in pins.items())
    return pinned(found.plan, pins), told + text


def summary(report: dict[str, Any]) -> str:
    """What came out: evaluations, where the time went, memory."""
    lines = []
    for line in report["evaluations"]:
        about = line.get("after") or line.get("before")
        place = f"{'after' if 'after' in line else 'before'} {about}" if about else ""
        passes = "  ".join(f"{k} {v:.3f}" for k, v in line.items() if k.startswith("pass^"))
        lines.append(f"{line['stage']} {place}: success {line['success']:.3f}  {passes}")
    total = sum(s for name, s in report["seconds"].items() if not name.startswith("worker.")) or 1.0
    for title, worker in (("time", False), ("of which the first worker", True)):
        spent = {n: s for n, s in report["seconds"].items() if n.startswith("worker.") is worker and s >= 0.05}
        parts = [
            f"{name.removeprefix('worker.')} {s:.1f} s ({s / total:.0%})"
            for name, s in sorted(spent.items(), key=lambda kv: -kv[1])
        ]
        lines.append(f"{title}: {', '.join(parts)}")
    lines.append(f"wall {report['wall_seconds']:.1f} s, peak memory {report['peak_bytes'] / 1e9:.2f} GB")
    return "\n".join(lines)
