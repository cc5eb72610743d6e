"""The evidence table of kinds of turn, as `rlc audit` and `rlc show` print it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def evidence_lines(
    rows: Sequence[Mapping[str, Any]],
    weights: Mapping[str, float],
    realised: Mapping[str, float | None] | None = None,
    mismatches: Collection[str] = (),
    paid: Mapping[str, float | None] | None = None,
) -> list[str]:
    """A line per kind of turn. `rows` are those of `rlspec.runtime.association`, as plain data; the last three columns
    come with a spec's formulas."""
    table = [["turn", "occurs", "turns", "success", "without", "rho", "weight"]]
    table[0] += ["paid"] * (paid is not None) + ["advantage", "signs"] * (realised is not None)
    for row in rows:
        choice = row["choice"]
        cells = [
            choice,
            f"{row['share']:.3f}",
            str(row["turns"]),
            number(row["with_it"]),
            number(row["without"]),
            f"{row['rho']:+.3f}" if row["evidence"] else "none",
            f"{weights[choice]:+.3f}",
        ]
        if paid is not None:
            cells.append(number(paid[choice], "+"))
        if realised is not None:
            cells += [number(realised[choice], "+"), "differ" if choice in mismatches else ""]
        table.append(cells)
    widths = [max(len(cells[place]) for cells in table) for place in range(len(table[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]
    none = [row["choice"] for row in rows if not row["evidence"]]
    if none:
        lines.append(f"no evidence for {', '.join(none)}: in all conversations or in none, or all ended alike")
    return lines


def number(value: float | None, sign: str = "") -> str:
    """Three places, or a dash for what there is none of."""
    return "-" if value is None else f"{value:{sign}.3f}"
