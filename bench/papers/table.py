"""The table of a comparison, from its runs: `python bench/papers/table.py mua_rl`.

A row per arm, each figure the mean over seeds; where there is a ±, it is half of the 95 % interval of that mean
(Student's t over the seeds). The difference is paired: arm minus baseline of the same seed, over the seeds that both
have; `--against per_turn` takes another baseline. What is "own" is measured on the last ten steps of training, with the
arm's own user. An arm whose run failed, or is missing, says so in its row; nothing is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from arms import HERE, ROOT, Arm, Column, Job, Paper, paper

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at 97.5 % for 1, 2, ... 9 degrees of freedom."""
LAST = 10
"""Lines of a training stage that its figures are means of."""
COMMON = (
    Column("own success", "success", "train", True),
    Column("own dead groups", "~dead_groups", "train", True),
    Column("own dead turns", "dead_turns", "train", True),
    Column("own misaligned turns", "misaligned_turns", "train", True),
    Column("asks first", "*.asked_first", "", True),
    Column("repeats", "*.repeats", ""),
    Column("errors", "*.errors", ""),
    Column("turns", "turns", ""),
)
"""Columns of every table; those without a stage are of the comparison's evaluation."""


def half(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean; None of fewer than two values."""
    if not 2 <= len(values) <= len(T_975) + 1:
        return None
    return T_975[len(values) - 2] * stdev(values) / len(values) ** 0.5


@dataclass(frozen=True, slots=True)
class Done:
    """One run that ended well: its lines of metrics, and what `run.py` wrote of it."""

    lines: list[dict[str, Any]]
    record: dict[str, Any]
    report: dict[str, Any]

    def of(self, stage: str, first: bool = False) -> list[dict[str, Any]]:
        """The last lines of a stage, or its first ones: one of an evaluation, ten of training."""
        own = [line for line in self.lines if line["stage"] == stage]
        count = 1 if any(line.get("kind") == "evaluation" for line in own) else LAST
        return own[:count] if first else own[-count:]

    def value(self, metric: str, stage: str) -> float | None:
        """A metric's mean over a stage's last or first lines; None where it was not measured."""
        first, metric = metric.startswith("first "), metric.removeprefix("first ")
        found = [value for line in self.of(stage, first) if (value := reading(line, metric)) is not None]
        return fmean(found) if found else None

    def episodes(self) -> float:
        """Trajectories that were sampled to learn from or to calibrate with."""
        return sum(
            line["trajectories"]
            for line in self.lines
            if line.get("kind") is None and any(name.rpartition(".")[2] == "reward" for name in line)
        )

    def imitating(self) -> float:
        """The share of its time in which it made and imitated demonstrations: next to nothing where the cold start came
        from the cache, because another arm of its seed had learned it."""
        spent = sum(self.report["seconds"].get(name, 0.0) for name in ("policy", "demonstrate", "imitate"))
        return spent / self.report["wall_seconds"]

    def start(self) -> float | None:
        """What training began with, told apart by the last loss of imitation; None where nothing was imitated."""
        return next((line["loss"] for line in reversed(self.lines) if "demonstration_tokens" in line), None)

    def before(self, stage: str) -> float | None:
        """Success of an evaluation before training, where there is one."""
        found = [line["success"] for line in self.lines if line["stage"] == stage and "before" in line]
        return found[-1] if found else None


def reading(line: dict[str, Any], metric: str) -> float | None:
    """ "*.x" is the first that ends in ".x", "~x" also x itself."""
    if metric.startswith("~"):
        return line.get(metric[1:], reading(line, f"*.{metric[1:]}"))
    if not metric.startswith("*."):
        return line.get(metric)
    return next((value for name, value in line.items() if name.endswith(metric[1:])), None)


@dataclass(frozen=True, slots=True)
class Row:
    """An arm's runs by seed; the seeds that failed and those that have not ended."""

    arm: Arm
    done: dict[int, Done]
    failed: list[int]
    missing: list[int]


def rows(of: Paper, out: Path) -> list[Row]:
    """What there is of every arm."""
    found = []
    for arm in of.arms:
        row = Row(arm, {}, [], [])
        for seed in of.seeds:
            job = Job(of.name, arm, seed, out / of.name / arm.label / str(seed))
            outcome = job.outcome()
            if outcome is None:
                row.missing.append(seed)
            elif outcome["status"] != 0:
                row.failed.append(seed)
            else:
                text = (job.folder / "metrics.jsonl").read_text(encoding="utf-8")
                report = json.loads((job.folder / "report.json").read_text(encoding="utf-8"))
                row.done[seed] = Done([json.loads(line) for line in text.splitlines()], outcome, report)
        found.append(row)
    return found


def share(value: float) -> str:
    return f"{value:.3f}"


def spread(values: Sequence[float], signed: bool = False) -> str:
    """The mean and half of its interval."""
    if not values:
        return "-"
    around = half(values)
    mean = f"{fmean(values):+.3f}" if signed else share(fmean(values))
    return mean if around is None else f"{mean} ± {around:.3f}"


def named(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def starts(of: Paper, found: Sequence[Row]) -> list[tuple[str, list[float]]]:
    """Success before training, by seed, wherever an arm measured it: once for the arms that share a start, which need
    not be named where it is that of the baseline; an arm that begins elsewhere is."""
    groups: list[tuple[str, dict[tuple[int, float | None], float]]] = []
    for row in sorted(found, key=lambda row: row.arm.label != of.baseline):
        known = {
            (seed, done.start()): value
            for seed, done in row.done.items()
            if (value := done.before(of.evaluation)) is not None
        }
        shared = {(seed, done.start()) for seed, done in row.done.items()}
        group = next((own for _, own in groups if own.keys() & shared), None)
        if group is not None:
            group |= known
        elif known:
            groups.append(("" if row.arm.label == of.baseline else f", {row.arm.title}", known))
    return [(of_whom, list(known.values())) for of_whom, known in groups]


def table(of: Paper, found: Sequence[Row]) -> str:
    """The markdown table, and lines about what failed, is missing, or was known before training."""
    base = next(row for row in found if row.arm.label == of.baseline)
    columns = [*COMMON, *of.columns]
    values = {
        (row.arm.label, n): [v for done in row.done.values()
                             if (v := done.value(c.metric, c.stage or of.evaluation)) is not None]
        for row in found for n, c in enumerate(columns)
    }  # fmt: skip
    shown = [n for n in range(len(columns)) if any(values[row.arm.label, n] for row in found)]
    heads = ["arm", "seeds", "held-out success", f"against {of.baseline}", *(columns[n].title for n in shown)]
    heads += ["episodes", "CPU minutes", "of them imitating"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in found:
        success = {seed: done.value("success", of.evaluation) for seed, done in row.done.items()}
        known = {seed: value for seed, value in success.items() if value is not None}
        pairs = [
            value - other
            for seed, value in known.items()
            if seed in base.done and (other := base.done[seed].value("success", of.evaluation)) is not None
        ]
        cells = [row.arm.title, str(len(row.done)) + (f" ({len(row.failed)} failed)" if row.failed else "")]
        cells += [spread(list(known.values())), "" if row is base else spread(pairs, signed=True)]
        for n in shown:
            own = values[row.arm.label, n]
            mean = fmean(own) if own else None
            cells.append("-" if mean is None else f"{mean:.1%}" if columns[n].percent else f"{mean:.2f}")
        cells.append(f"{fmean(d.episodes() for d in row.done.values()):,.0f}" if row.done else "-")
        minutes = [(m := done.record["cpu_seconds"] / 60, m * done.imitating()) for done in row.done.values()]
        cells += [f"{fmean(spent):.1f}" for spent in zip(*minutes, strict=True)] or ["-", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines += [
        f"Before training{of_whom}: {spread(begun)}, over {len(begun)} seeds." for of_whom, begun in starts(of, found)
    ]
    each = {row.arm.label: [done.value("success", of.evaluation) for done in row.done.values()] for row in found}
    lines += [
        f"- {label}: {', '.join('-' if v is None else share(v) for v in own)}" for label, own in each.items() if own
    ]
    lines += [f"- failed: {row.arm.label}, {named(row.failed)}" for row in found if row.failed]
    lines += [f"- not ended: {row.arm.label}, {named(row.missing)}" for row in found if row.missing]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of one comparison."""
    parser = argparse.ArgumentParser(description="The table of a comparison.")
    parser.add_argument("paper")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "papers")
    parser.add_argument("--against", metavar="ARM", help="the arm that the others are compared with")
    given = parser.parse_args(arguments)
    of = paper(HERE / f"{given.paper}.toml")
    labels = [arm.label for arm in of.arms]
    if given.against is not None:
        if given.against not in labels:
            parser.error(f"--against is one of {', '.join(labels)}")
        of = replace(of, baseline=given.against)
    print(table(of, rows(of, given.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
