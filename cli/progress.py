"""How a run is watched: a progress bar with the current figures on a terminal, quiet lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

SHOWN = ("loss", "held_out", "success", "pass^1", "pass^4", "reward", "dead_groups", "turns", "entropy")


def figures(line: Mapping[str, Any]) -> str:
    """The few figures of a line of metrics that a watcher wants."""
    return "  ".join(f"{name} {line[name]:.3f}" for name in SHOWN if isinstance(line.get(name), float | int))


class Lines:
    """For files, pipes and CI: at most a line every few seconds per stage, and every evaluation."""

    def __init__(self, every: float = 10.0) -> None:
        self.every, self._last, self._total = every, 0.0, ""

    def begin(self, what: str, total: int | None) -> None:
        self._last = 0.0
        self._total = f"/{total}" if total else ""
        click.echo(f"{what}: begins")

    def line(self, metrics: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if metrics.get("kind") != "evaluation" and now - self._last < self.every:
            return
        self._last = now
        total = "" if metrics.get("kind") == "evaluation" else self._total
        click.echo(f"{metrics['stage']} {metrics['step']}{total}  {figures(metrics)}")

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def close(self) -> None:
        pass


class Bars:
    """For a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.console = Console()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
        )
        self.progress.start()
        self._task: Any = None

    def begin(self, what: str, total: int | None) -> None:
        self._finish()
        self._task = self.progress.add_task(what, total=total, figures="")

    def _finish(self) -> None:
        if self._task is not None:
            task = self.progress.tasks[self._task]
            self.progress.update(self._task, total=task.completed or 1, completed=task.completed or 1)

    def line(self, metrics: Mapping[str, Any]) -> None:
        if self._task is not None:
            done = int(metrics["step"]) + (metrics.get("phase") is None)
            evaluation = metrics.get("kind") == "evaluation"
            self.progress.update(self._task, completed=1 if evaluation else done, figures=figures(metrics))

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def close(self) -> None:
        self._finish()
        self.progress.stop()


def reporter() -> Lines | Bars:
    """What fits the standard output."""
    return Bars() if sys.stdout.isatty() else Lines()
