"""The catalog: every component that a spec can name, by kind and name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from functools import cache

from rlspec.compiler.catalog.base import Component
from rlspec.dsl import compiled

MODULES = (
    "policies", "shop", "users", "papers", "answers", "stages", "machine", "tiers", "calls", "wording", "prices",
    "calibration", "resampling", "critic", "codegym", "diagnosticians", "tool_sides",
)  # fmt: skip


class Components(MutableMapping[str, type[Component]]):
    """The components of one kind, by name. A spec names a few, so the module of each is imported when it is asked
    for."""

    def __init__(self) -> None:
        self._known: dict[str, type[Component] | str] = {}  # or its module

    def listed(self, name: str, module: str) -> None:
        """That there is one of this name in a module."""
        self._known[name] = module

    def __getitem__(self, name: str) -> type[Component]:
        found = self._known[name]
        if isinstance(found, str):
            found = next(c for c in _components_in(found) if name == c.NAME and self is catalog()[c.KIND])
            self._known[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __setitem__(self, name: str, component: type[Component]) -> None:
        self._known[name] = component

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@cache
def catalog() -> dict[str, MutableMapping[str, type[Component]]]:
    """kind -> name -> schema."""
    found: dict[str, Components] = {}
    for kind, name, module in compiled.kept(f"catalog {_state()}", _listed):
        found.setdefault(kind, Components()).listed(name, module)
    return {**found}


def _listed() -> list[tuple[str, str, str]]:
    """Kind, name and module of every component."""
    return [(c.KIND, c.NAME, module) for module in MODULES for c in _components_in(module)]


def _components_in(module: str) -> list[type[Component]]:
    name = f"{__name__}.{module}"
    __import__(name)  # `importlib` would bring `warnings` with it
    found = sys.modules[name]
    classes = [e for e in vars(found).values() if isinstance(e, type) and e.__module__ == found.__name__]
    return [c for c in classes if issubclass(c, Component) and "NAME" in vars(c)]


def _state() -> str:
    """What the list depends on: the modules, as they are now."""
    seen = []
    for module in MODULES:
        file = os.path.join(os.path.dirname(__file__), f"{module}.py")
        sys.audit("open", file, "rb", 0)  # whoever keeps answers is to know that they depend on it
        info = os.stat(file)
        seen.append(f"{module} {info.st_mtime_ns} {info.st_size}")
    return ", ".join(seen)


def schema(kind: str, name: str) -> type[Component]:
    """The schema of a component.

    Raises:
        KeyError: there is none of that kind and name.
    """
    return catalog()[kind][name]


def is_new(kind: str) -> bool:
    """Whether only plugins have components of this kind."""
    return kind in catalog() and all("." in name for name in catalog()[kind])
