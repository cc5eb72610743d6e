"""Modules from one file: the same as Python would find, only while their sources are what they were."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlspec.cli import bundle

ROOT = Path(__file__).parents[2]
START = ROOT / "bin" / "rlc-start"
WATCHED = ("rlspec.", "re", "site", "__editable", "typing", "pathlib", "json", "contextlib")
# Says where the modules of a check came from, after it: name and loader, one a line.
SEEN = """
import os, sys
def told(status):
    names = [n for n, m in list(sys.modules.items()) if n.startswith(%r)]
    loaders = [type(getattr(sys.modules[n], "__loader__", None)).__name__ for n in names]
    os.write(2, "".join(f"{n} {l}\\n" for n, l in zip(names, loaders)).encode())
    leave(status)
leave, os._exit = os._exit, told
sys.argv = sys.argv[1:]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {"__name__": "__main__", "__file__": sys.argv[0]})
"""


class Rlc:
    """Runs `rlc` with byte code and a cache of its own; after each run, `loaders` says where its modules came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
        self.env |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "RLSPEC_CACHE": str(folder / "cache")}
        self.loaders: dict[str, str] = {}

    def __call__(self, *words: str) -> tuple[int, str, str]:
        shutil.rmtree(self.folder / "cache", ignore_errors=True)  # answers are not what is tested here
        command = [sys.executable, "-S", "-c", SEEN % (WATCHED,), str(START), *words]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120)
        lines = done.stderr.splitlines()
        seen = [line.split() for line in lines if line.startswith(WATCHED)]
        self.loaders = {name: loader for name, loader, *_ in seen}
        return done.returncode, done.stdout, "\n".join(line for line in lines if line.split() not in seen)

    @property
    def bundles(self) -> list[Path]:
        """The bundles that runs have written."""
        return sorted((self.folder / "bytecode").rglob("*.bundle"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Rlc:
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "a.rlspec").write_text((ROOT / "tests" / "sample.rlspec").read_text("utf-8"), "utf-8")
    return Rlc(folder)


@pytest.fixture
def rlc(shared: Rlc) -> Iterator[Rlc]:
    """Byte code is there, as after an installation, but no bundle yet."""
    for place in shared.bundles:
        place.unlink()
    before = dict(shared.env)
    yield shared
    shared.env = before


def from_bundle(rlc: Rlc) -> set[str]:
    return {name for name, loader in rlc.loaders.items() if loader == "Loader"}


def test_the_second_time_modules_come_from_the_bundle(rlc: Rlc) -> None:
    first = rlc("check", "a.rlspec")
    assert first[0] == 0
    assert not from_bundle(rlc)
    assert [path.name.rpartition("check")[1] for path in rlc.bundles] == ["check"]
    written = rlc.bundles[0].stat().st_ino
    assert rlc("check", "a.rlspec") == first
    assert rlc.bundles[0].stat().st_ino == written  # it has all that is needed
    first_of_all = {"rlspec.cli.answers", "rlspec.cli.bundle"}
    own = {name for name in rlc.loaders if name.startswith("rlspec.")} - first_of_all
    assert "rlspec.compiler.check" in own
    assert own <= from_bundle(rlc) | {"rlspec.cli.main"}
    assert "site" not in rlc.loaders or not any(name.startswith("__editable") for name in rlc.loaders)


def test_a_check_does_not_wait_for_what_it_does_not_need(rlc: Rlc) -> None:
    place = rlc.folder / "a.rlspec"
    rlc("check", str(place))
    assert "re" in rlc.loaders  # to compile patterns of ours, which are kept from now on
    place.write_text(place.read_text("utf-8") + "# another\n", "utf-8")
    assert rlc("check", str(place))[0] == 0
    assert not {"re", "typing", "pathlib", "json", "contextlib"} & rlc.loaders.keys()


def test_a_damaged_bundle_is_none_and_is_written_again(rlc: Rlc) -> None:
    first = rlc("check", "a.rlspec")
    (place,) = rlc.bundles
    sound = place.read_bytes()
    index, last = sound.index(b"\n") + 100, len(sound) - 1000
    harmed = {
        "empty": b"",
        "cut": sound[: len(sound) // 2],
        "of another Python": sound.replace(sys.version.split()[0].encode(), b"3.0", 1),
        "a wrong index": sound[:index] + bytes([sound[index] ^ 0xFF]) + sound[index + 1 :],
        "a wrong module": sound[:last] + bytes([sound[last] ^ 0xFF]) + sound[last + 1 :],
    }
    for harm, data in harmed.items():
        place.write_bytes(data)
        assert rlc("check", "a.rlspec") == first, harm
        assert place.read_bytes() == sound, harm
    rlc("check", "a.rlspec")
    assert "rlspec.compiler.check" in from_bundle(rlc)


# What is written instead of what, in the specs of two papers: mistakes of several stages of a check.
EDITS = [
    ("tarl", "variant sparse {", "variant sparse {\n    patch.stage.train.lrr = 1e-3"),
    ("tarl", "53.9%", "53.0%"),
    ("mua_rl", "stage ", "stage stage "),
]


def test_without_a_bundle_and_with_one_a_check_says_the_same(rlc: Rlc) -> None:
    spec = rlc.folder / "b.rlspec"
    for paper, old, new in EDITS:
        text = (ROOT / "specs" / "papers" / f"{paper}.rlspec").read_text("utf-8")
        assert old in text, old
        spec.write_text(text.replace(old, new, 1), "utf-8")
        warm = rlc("check", "b.rlspec")
        assert rlc("check", "b.rlspec") == warm
        assert from_bundle(rlc)
        rlc.env["PYTHONPATH"] = str(rlc.folder)  # is searched first, so there is no bundle
        assert rlc("check", "b.rlspec") == warm
        assert not from_bundle(rlc)
        del rlc.env["PYTHONPATH"]


def test_runs_at_the_same_time_do_not_disturb_each_other(rlc: Rlc) -> None:
    command = [sys.executable, "-S", str(START), "check", "a.rlspec"]
    running = [
        subprocess.Popen(command, cwd=rlc.folder, env=rlc.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(3)
    ]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert len(said) == 1
    assert len(rlc.bundles) == 1
    assert rlc("check", "a.rlspec")[0] == 0
    assert "rlspec.compiler.check" in from_bundle(rlc)


def test_a_source_that_changed_is_imported_anew(tmp_path: Path) -> None:
    """By the finder itself: the checkout's own sources are not ours to change."""
    source, cached = tmp_path / "bundled_for_test.py", tmp_path / "bundled_for_test.pyc"
    source.write_text("VALUE = 1\n", "utf-8")
    py_compile.compile(
        str(source), str(cached), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
    )
    kept = bundle._byte_code(str(source), str(cached))
    assert kept is not None
    finder = bundle.Bundle(str(tmp_path / "none"), {}, None)
    finder.index = {"bundled_for_test": (str(source), "", kept[0], kept[1], 0, len(kept[2]), bundle.crc32(kept[2]))}
    code = tmp_path / "code"
    code.write_bytes(kept[2])
    finder.file = os.open(code, os.O_RDONLY)
    spec = finder.find_spec("bundled_for_test")
    assert spec is not None
    assert isinstance(spec.loader, bundle.Loader)
    source.write_text("VALUE = 22\n", "utf-8")
    assert finder.find_spec("bundled_for_test") is None
    assert bundle._byte_code(str(source), str(cached)) is None
    source.unlink()
    os.close(finder.file)
    assert finder.find_spec("bundled_for_test") is None


def test_what_is_in_site_packages_is_found_when_it_is_needed(rlc: Rlc) -> None:
    status, out, _ = rlc("check", "a.rlspec", "--format", "sarif")
    assert (status, '"version": "2.1.0"' in out) == (0, True)
    assert "site" in rlc.loaders
    assert rlc("fmt", "--check", "a.rlspec")[0] == 0


def test_a_path_of_the_user_is_searched_first(rlc: Rlc) -> None:
    rlc("check", "a.rlspec")
    rlc.env["PYTHONPATH"] = str(rlc.folder)
    assert rlc("check", "a.rlspec")[0] == 0
    assert not from_bundle(rlc)


def test_nothing_is_written_where_byte_code_is_not(rlc: Rlc) -> None:
    rlc.env["PYTHONDONTWRITEBYTECODE"] = "1"
    assert rlc("check", "a.rlspec")[0] == 0
    assert rlc.bundles == []
