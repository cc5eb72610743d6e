"""The catalog: every component that a spec can name, by kind and name."""

from __future__ import annotations

from functools import cache

from rlspec.compiler.catalog.base import Component


@cache
def catalog() -> dict[str, dict[str, type[Component]]]:
    """kind -> name -> schema."""
    from rlspec.compiler.catalog import (
        answers,
        calibration,
        calls,
        codegym,
        critic,
        machine,
        papers,
        policies,
        prices,
        resampling,
        shop,
        stages,
        tiers,
        tool_sides,
        users,
        wording,
    )

    found: dict[str, dict[str, type[Component]]] = {}
    for module in (
        policies, shop, users, papers, answers, stages, machine, tiers, calls, wording, prices, calibration, resampling,
        critic, codegym, tool_sides,
    ):  # fmt: skip
        for entry in vars(module).values():
            if isinstance(entry, type) and issubclass(entry, Component) and "NAME" in vars(entry):
                found.setdefault(entry.KIND, {})[entry.NAME] = entry
    return found


def schema(kind: str, name: str) -> type[Component]:
    """The schema of a component.

    Raises:
        KeyError: there is none of that kind and name.
    """
    return catalog()[kind][name]
