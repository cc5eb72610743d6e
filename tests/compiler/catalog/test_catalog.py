"""The catalog lists its components without importing them, and is the same as if it did."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from rlspec.compiler import catalog as package
from rlspec.compiler.catalog import Components, catalog
from rlspec.compiler.catalog.base import Component

# In a process of its own: what a check imports of the catalog, and what a name brings.
LISTS = """
import sys
from rlspec.compiler.catalog import catalog
from rlspec.dsl import compiled
catalog()
compiled.KEPT.update(compiled.MADE)
for name in [n for n in sys.modules if n.startswith("rlspec.compiler.catalog")]:
    del sys.modules[name]
from rlspec.compiler.catalog import catalog
known = catalog()
print(sorted(known["env"]), "codegym" in known["env"], len(known["judge"]))
print(sorted(n.rpartition(".")[2] for n in sys.modules if n.startswith("rlspec.compiler.catalog.")))
known["env"]["codegym"], known["resources"].get("machine"), known["resources"].get("nothing")
print(sorted(n.rpartition(".")[2] for n in sys.modules if n.startswith("rlspec.compiler.catalog.")))
"""


def test_what_is_listed_is_what_the_files_have() -> None:
    found: dict[tuple[str, str], type[Component]] = {}
    for path in Path(package.__file__).parent.glob("*.py"):
        for entry in vars(import_module(f"rlspec.compiler.catalog.{path.stem}")).values():
            if isinstance(entry, type) and issubclass(entry, Component) and "NAME" in vars(entry):
                found[entry.KIND, entry.NAME] = entry
    listed = {(kind, name): c for kind, names in catalog().items() for name, c in names.items() if "." not in name}
    assert listed == found


def test_a_module_is_imported_when_a_component_of_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, timeout=60, check=True)
    names, before, after = done.stdout.splitlines()
    assert names.startswith("['bfcl', 'codegym'")
    assert before == "['base']"
    assert "codegym" in after
    assert "machine" in after
    assert "users" not in after


def test_components_are_added_and_removed_like_entries_of_a_dictionary() -> None:
    made = type("Made", (Component,), {"KIND": "env", "NAME": "plug.made", "__annotations__": {}})
    names = Components()
    names["plug.made"] = made
    assert (names["plug.made"], list(names), len(names), "plug.made" in names) == (made, ["plug.made"], 1, True)
    del names["plug.made"]
    assert names.get("plug.made") is None
    with pytest.raises(KeyError):
        names["plug.made"]
