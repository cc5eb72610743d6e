"""Units that measure the same thing: a field that counts GiB takes `80GB`, one that counts seconds `30min`.

Units that count things (turns, tokens, steps, tasks) belong to no family: 30 turns are not 30 tokens.
"""

from __future__ import annotations

FAMILIES: dict[str, dict[str, float]] = {
    "memory": {
        "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    "time": {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0},
    "money": {"USD": 1.0},
}  # fmt: skip


def scale_between(unit: str, wanted: str) -> float | None:
    """What a number in `unit` is multiplied with to be in `wanted`; None when they measure different things."""
    if unit == wanted:
        return 1.0
    for family in FAMILIES.values():
        if unit in family and wanted in family:
            return family[unit] / family[wanted]
    return None
