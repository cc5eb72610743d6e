"""How a metric goes while a comparison trains: `python bench/papers/curve.py fission`.

One row per arm: the evaluation's success before training, at the steps at which it took place inside, and after; each
the mean over the seeds that have ended in all arms. `--metric error_recovery` takes another key of metrics.jsonl,
`--stage train --every 10` means over ten steps of training each. `--spread` adds half of the 95 % interval to a mean,
`--against ARM` shows what each arm has more than that one, seed by seed; `--arms` leaves the others out.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from arms import HERE, ROOT, paper
from table import Done, reading, rows, spread


def points(done: Done, stage: str, metric: str, every: int) -> dict[int, float]:
    """The metric by step of training; where the stage trains, the mean of each `every` steps, at their last one."""
    trained = sum(line["stage"] == "train" for line in done.lines)
    found: dict[int, list[float]] = defaultdict(list)
    for line in done.lines:
        value = reading(line, metric)
        if line["stage"] != stage or value is None:
            continue
        if line.get("kind") == "evaluation":
            found[0 if "before" in line else int(line.get("at_step", trained))].append(value)
        else:
            found[(int(line["step"]) // every + 1) * every].append(value)
    return {step: fmean(values) for step, values in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the curves of one comparison."""
    parser = argparse.ArgumentParser(description="How a metric goes while a comparison trains.")
    parser.add_argument("paper")
    parser.add_argument("--metric", default="success")
    parser.add_argument("--stage", default="", help="another than the comparison's evaluation")
    parser.add_argument("--every", type=int, default=10, help="steps of a training stage in one figure")
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="only these")
    parser.add_argument("--spread", action="store_true", help="with half of the 95 %% interval")
    parser.add_argument("--against", metavar="ARM", help="the difference from this arm, seed by seed")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "papers")
    given = parser.parse_args(arguments)
    of = paper(HERE / f"{given.paper}.toml")
    found = [row for row in rows(of, given.out) if not given.arms or row.arm.label in given.arms]
    strange = {*(given.arms or ()), *([given.against] if given.against else ())} - {row.arm.label for row in found}
    if strange:
        parser.error(f"no arm {', '.join(sorted(strange))}")
    stage, ended = given.stage or of.evaluation, set.intersection(*(set(row.done) for row in found))
    curves = {
        row.arm.label: [points(row.done[seed], stage, given.metric, given.every) for seed in sorted(ended)]
        for row in found
    }
    if given.against:
        base = curves[given.against]
        curves = {
            label: [{s: v - to[s] for s, v in curve.items() if s in to} for curve, to in zip(own, base, strict=True)]
            for label, own in curves.items()
            if label != given.against
        }
    steps = sorted({step for own in curves.values() for curve in own for step in curve})
    print("| arm | seeds | " + " | ".join(map(str, steps)) + " |")
    print("|---|---:|" + "---:|" * len(steps))
    for row in found:
        if row.arm.label not in curves:
            continue
        own = curves[row.arm.label]
        means = [[curve[step] for curve in own if step in curve] for step in steps]
        shown = [v if given.spread or len(v) == 0 else [fmean(v)] for v in means]
        cells = [spread(values, signed=bool(given.against)) for values in shown]
        print(f"| {row.arm.title} | {len(own)} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
