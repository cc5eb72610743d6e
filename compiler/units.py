"""Units that measure the same thing: a field that counts GiB takes `80GB`, one that counts seconds `30min`.

Units that count things (turns, tokens, steps, tasks) belong to no family: 30 turns are not 30 tokens.
"""

from __future__ import annotations

from functools import cache

from rlspec.dsl.annotations import Any

FAMILIES: dict[str, dict[str, float]] = {
    "memory": {
        "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    "time": {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0},
    "money": {"USD": 1.0},
}  # fmt: skip


COUNTED = {"group": "tasks", "traj": "trajs", "turn": "agent_turns", "token": "tokens"}
"""What `num` and `index` of an axis count. A turn is a message of the agent: what papers call turns may be something
else (tool calls and replies of the user, steps of an orchestrator), so `30turns` and `30agent_turns` do not mix."""

RATIOS = ("%", "pp")


COMMON = frozenset({*COUNTED.values(), "turns", "calls", "steps", *RATIOS, *(u for f in FAMILIES.values() for u in f)})


def is_known(unit: str) -> bool:
    """Whether there is such a unit. Almost all that are written are among the common ones, and the catalog need not be
    read for them."""
    return unit in COMMON or unit in known()


@cache
def known() -> frozenset[str]:
    """Every unit that a field takes, or that measures a thing that some field counts."""
    from rlspec.compiler.catalog import catalog

    found = set(COMMON)
    for components in catalog().values():
        for schema in components.values():
            found |= _fields(schema)
    return frozenset(found)


def _fields(schema: Any) -> set[str]:
    from rlspec.compiler.catalog.base import Unit
    from rlspec.compiler.components import struct_of

    found = set()
    for info in schema.model_fields.values():
        found |= {m.name for m in info.metadata if isinstance(m, Unit)}
        inner = struct_of(info.annotation)
        found |= _fields(inner) if inner is not None else set()
    return found


def scale_between(unit: str, wanted: str) -> float | None:
    """What a number in `unit` is multiplied with to be in `wanted`; None when they measure different things."""
    if unit == wanted:
        return 1.0
    for family in FAMILIES.values():
        if unit in family and wanted in family:
            return family[unit] / family[wanted]
    return None
