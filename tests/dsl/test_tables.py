"""Where the parse tables come from: beside the grammar, else a cache that is used where it is sound and done
without where it is not."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlspec.dsl import tables


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of our own, and no tables beside the grammar."""
    monkeypatch.setenv("RLSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "SHIPPED", tmp_path / "none.json")
    tables.load.cache_clear()
    yield tmp_path / "cache"
    tables.load.cache_clear()


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each computation of the tables."""
    made: list[int] = []
    build = tables.build

    def counted(strict: bool = False) -> tables.Tables:
        made.append(1)
        return build(strict)

    monkeypatch.setattr(tables, "build", counted)
    return made


def test_the_tables_beside_the_grammar_are_those_of_the_grammar() -> None:
    assert tables._read_shipped() == tables.build()


def test_tables_of_another_grammar_are_not_used(folder: Path, tmp_path: Path, builds: list[int]) -> None:
    body = Path(tables.GRAMMAR).with_name("grammar.json").read_bytes().partition(b"\n")[2]
    (tmp_path / "none.json").write_bytes(b"0" * 64 + b"\n" + body)
    assert again().rules
    assert len(builds) == 1


def again() -> tables.Tables:
    tables.load.cache_clear()
    return tables.load()


def test_the_second_process_reads_what_the_first_made(folder: Path, builds: list[int]) -> None:
    first = again()
    assert again() == first
    assert len(builds) == 1
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"{}", b"garbage\n{}", b"\x80\x04pickle"])
def test_a_damaged_file_is_replaced(folder: Path, builds: list[int], damage: bytes) -> None:
    first = again()
    (file,) = folder.iterdir()
    file.write_bytes(damage)
    assert again() == first
    assert len(builds) == 2
    assert again() == first
    assert len(builds) == 2


def test_a_changed_byte_is_noticed(folder: Path, builds: list[int]) -> None:
    first = again()
    (file,) = folder.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    assert again() == first
    assert len(builds) == 2


def test_what_others_may_write_is_not_trusted(folder: Path, builds: list[int]) -> None:
    again()
    folder.chmod(0o777)
    again()
    assert len(builds) == 2


def test_a_folder_that_cannot_be_made_is_done_without(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: list[int]
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "cache", Path("/proc/none"), tmp_path / "file"):
        monkeypatch.setenv("RLSPEC_CACHE", str(place))
        assert again().rules
    assert len(builds) == 3


def test_a_read_only_folder_is_done_without(folder: Path, builds: list[int]) -> None:
    folder.mkdir()
    folder.chmod(0o500)
    try:
        assert again().rules
    finally:
        folder.chmod(0o700)


def test_the_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLSPEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert tables.cache_folder() == Path("/somewhere/rlspec")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/of/one")
    assert tables.cache_folder() == Path("/home/of/one/.cache/rlspec")


def test_no_draft_is_left_behind(folder: Path) -> None:
    again()
    assert [path.suffix for path in folder.iterdir()] == [".json"]


CHECK = """
import sys
from rlspec.dsl.diagnostics import Source
from rlspec.dsl import automaton, codes, expectations, layout, parser, printer, recovery, reductions, tokens, tree
file, diagnostics = parser.parse(Source("test", "a = f(x over turn)"))
assert len(file.items) == 1 and not diagnostics
print(*sorted(set(sys.modules) & {"torch", "ray", "numba", "numpy", "pydantic", "click", "rich", "lark"}))
"""


def run(code: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_text_layer_imports_nothing_heavy_and_not_even_lark() -> None:
    assert run(CHECK) == []


def test_tree_and_diagnostics_do_not_import_the_parser() -> None:
    code = "import sys, rlspec.dsl.tree, rlspec.dsl.diagnostics; print('rlspec.dsl.tables' in sys.modules)"
    assert run(code) == ["False"]
