"""The test plugin, as if it were installed: its package and the metadata of its distribution on the path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlspec.compiler import plugins
from rlspec.compiler.catalog import catalog

PACKAGE = Path(__file__).parent / "tiny_gym"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder on the path. What the plugin put into the catalog is taken out again."""
    folder = tmp_path / "site"
    shutil.copytree(PACKAGE, folder / "tiny_gym", ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / "tiny_gym-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-gym\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[rlspec.plugins]\ntiny-gym = tiny_gym:plugin.json\n")
    monkeypatch.syspath_prepend(str(folder))
    plugins._announced.cache_clear()
    yield folder
    plugins._announced.cache_clear()
    for kind, names in list(catalog().items()):
        for name in [n for n in names if n.startswith("tiny_gym.")]:
            del names[name]
        if not names:
            del catalog()[kind]
    for module in [m for m in sys.modules if m.partition(".")[0] == "tiny_gym"]:
        del sys.modules[module]
