"""The quickstart's figures over several runs: success before and after, where the time goes, memory.

for seed in 0 1 2; do rlc run examples/quickstart.rlspec --seed $seed --out runs/quick-$seed; done
python bench/quickstart.py runs/quick-0 runs/quick-1 runs/quick-2
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

PASSES = ("pass^1", "pass^2", "pass^3", "pass^4")


def spread(values: list[float]) -> str:
    """Mean and standard deviation over runs."""
    return f"{fmean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def main(paths: list[str]) -> None:
    reports: list[dict[str, Any]] = [json.loads((Path(p) / "report.json").read_text()) for p in paths]
    print("| seed | " + " | ".join(f"{p} before | after" for p in PASSES) + " | wall s | peak GB |")
    print("|---|" + "---|" * (2 * len(PASSES) + 2))
    for report in reports:
        before, after = report["evaluations"]
        cells = [f"{before[p]:.3f} | {after[p]:.3f}" for p in PASSES]
        wall, peak = report["wall_seconds"], report["peak_bytes"] / 1e9
        print(f"| {report['seed']} | " + " | ".join(cells) + f" | {wall:.0f} | {peak:.2f} |")
    columns = [spread([r["evaluations"][i][p] for r in reports]) for p in PASSES for i in (0, 1)]
    walls = spread([r["wall_seconds"] for r in reports])
    print("| mean ± sd | " + " | ".join(columns) + f" | {walls} | {max(r['peak_bytes'] for r in reports) / 1e9:.2f} |")
    print()
    names = sorted({name for r in reports for name in r["seconds"]}, key=lambda n: -reports[0]["seconds"].get(n, 0.0))
    print("| phase | seconds | share of the run |")
    print("|---|---:|---:|")
    for name in names:
        seconds = fmean(r["seconds"].get(name, 0.0) for r in reports)
        share = fmean(r["seconds"].get(name, 0.0) / r["wall_seconds"] for r in reports)
        print(f"| {name} | {seconds:.1f} | {share:.0%} |")
    rates = []
    for path in paths:
        lines = [json.loads(line) for line in (Path(path) / "metrics.jsonl").read_text().splitlines()]
        timings = [json.loads(line) for line in (Path(path) / "timings.jsonl").read_text().splitlines()]
        trained = [line for line in lines if "reward" in line and "agent_tokens" in line and line.get("kind") is None]
        generated = sum(line["trajectories"] * line["tokens"] for line in trained)
        stage = trained[0]["stage"]
        seconds = sum(t.get("seconds.worker.generation", 0.0) for t in timings if t["stage"] == stage)
        rates.append(generated / seconds)
    print(f"\ntokens through both engines per second of generation: {spread(rates)}")


if __name__ == "__main__":
    main(sys.argv[1:])
