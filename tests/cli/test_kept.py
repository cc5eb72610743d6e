"""Answers that are given again: the same to the byte, only while nothing has changed, and never from a folder that is
not the user's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from rlspec.cli import answers, kept, main
from rlspec.dsl.tables import cache_folder

ROOT = Path(__file__).parents[2]
START = ROOT / "bin" / "rlc-start"
SAMPLE = ROOT / "tests" / "sample.rlspec"
WRONG = "param k : real in [0, 1] = 0.5\n    signal lost : text@traj = env.db_hash\n    policy"


@pytest.fixture
def start() -> ModuleType:
    return answers


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec with warnings, written long enough ago."""
    path = tmp_path / "a.rlspec"
    path.write_text(SAMPLE.read_text("utf-8").replace("policy", WRONG, 1), "utf-8")
    time.sleep(2 * kept.GRAIN / 1e9)
    return path


class Shell:
    """Runs `rlc` in a folder, with a cache there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Status, standard output and standard error, without what Python says of its imports."""
        found = self.run(*words)
        error = "\n".join(line for line in found.stderr.splitlines() if not line.startswith("import time:"))
        return found.returncode, found.stdout, error

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "RLSPEC_CACHE": str(self.cache)}
        command = [sys.executable, "-X", "importtime", "-S", str(START), *words]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120)

    def imports(self, *words: str) -> set[str]:
        """The modules that a run imports."""
        return set(re.findall(r"^import time:.*\| +([\w.]+)$", self.run(*words).stderr, re.MULTILINE))

    @property
    def entries(self) -> list[Path]:
        return sorted((self.cache / "answers").glob("*"))


@pytest.fixture
def rlc(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_the_answer_is_the_same_the_second_time(rlc: Shell, spec: Path, form: str) -> None:
    first = rlc("check", "a.rlspec", "--format", form)
    assert len(rlc.entries) == 1
    assert "rlspec.dsl" not in rlc.imports("check", "a.rlspec", "--format", form)
    assert rlc("check", "a.rlspec", "--format", form) == first
    assert first[1]
    assert ("warning" in first[2]) == (form == "text")


def test_an_unchanged_file_needs_no_library(rlc: Shell, spec: Path) -> None:
    assert "rlspec.compiler.check" in rlc.imports("check", "a.rlspec")
    loaded = rlc.imports("check", "a.rlspec")
    assert not {m.split(".")[0] for m in loaded} & {
        "rlspec",
        "pydantic",
        "lark",
        "click",
        "re",
        "json",
        "hashlib",
        "site",
    }


def test_what_it_reads_makes_it_new(rlc: Shell, spec: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "o.rlspec"
    overlay.write_text("rlspec = 1\n\noverlay less {\n  patch.stage.train.steps = 7steps\n}\n", "utf-8")
    words = ("check", "a.rlspec", "--with", "o.rlspec")
    time.sleep(2 * kept.GRAIN / 1e9)
    first = rlc(*words)
    assert first[0] == 0
    overlay.write_text("rlspec = 1\n\noverlay less {\n  patch.stage.train.stops = 7steps\n}\n", "utf-8")
    second = rlc(*words)
    assert second[0] == 2
    spec.write_text(spec.read_text("utf-8") + "\nnonsense = 3\n", "utf-8")
    assert "nonsense" in rlc(*words)[2]
    spec.unlink()
    assert "cannot read" in rlc(*words)[2]


def test_the_same_text_written_again_is_the_same(rlc: Shell, spec: Path) -> None:
    first = rlc("check", "a.rlspec")
    spec.write_bytes(spec.read_bytes())
    assert "click" not in rlc.imports("check", "a.rlspec")
    assert rlc("check", "a.rlspec") == first


def test_every_module_and_library_file_is_in_the_entry(rlc: Shell, spec: Path) -> None:
    rlc("check", "a.rlspec")
    lines = rlc.entries[0].read_bytes().partition(b"\n\n")[0].decode().splitlines()
    known = {line.split(" ", 2)[2] for line in lines if line.startswith(("code ", "text "))}
    names = {os.path.realpath(name) for name in known}
    assert {str(path) for path in (ROOT / "specs" / "std").glob("*.rlspec")} <= names
    code = ("compiler/check.py", "dsl/tokens.py", "compiler/catalog/codegym.py", "dsl/grammar.json", "specs/std")
    assert {str(ROOT / p) for p in code} <= names
    assert str(spec) in names
    assert len(rlc.entries) == 1


def test_other_arguments_and_places_are_other_answers(start: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSPEC_CACHE", "/x")
    places = {start.place(words) for words in (["check", "a"], ["check", "b"], ["check", "a", "--format", "json"])}
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    places.add(start.place(["check", "a"]))
    monkeypatch.chdir("/")
    places.add(start.place(["check", "a"]))
    monkeypatch.setattr(os, "isatty", lambda number: number == 1)
    for width in (80, 120):
        monkeypatch.setattr(os, "get_terminal_size", lambda number, width=width: os.terminal_size((width, 24)))
        places.add(start.place(["check", "a"]))
    assert len(places) == 7


@pytest.mark.parametrize("words", [[], ["run", "a"], ["check", "--fix", "a"], ["fmt", "-"], ["check", "/dev/stdin"]])
def test_what_is_never_kept(start: ModuleType, words: list[str]) -> None:
    assert start.place(words) is None


def test_nothing_is_kept_where_the_user_says_so(start: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSPEC_CACHE", "off")
    assert start.place(["check", "a"]) is None
    assert cache_folder() is None


def test_a_run_that_writes_is_not_kept(rlc: Shell, spec: Path) -> None:
    spec.write_text(spec.read_text("utf-8").replace(" = ", "  =  "), "utf-8")
    time.sleep(2 * kept.GRAIN / 1e9)
    assert rlc("fmt", "a.rlspec")[1] == "a.rlspec: formatted\n"
    assert rlc.entries == []
    time.sleep(2 * kept.GRAIN / 1e9)
    assert rlc("fmt", "a.rlspec") == (0, "", "")
    assert len(rlc.entries) == 1


# ------------------------------------------------------------------------------------------------- entries by hand


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """A sound entry for one text that was read."""
    read = tmp_path / "read.txt"
    read.write_text("x", "utf-8")
    time.sleep(2 * kept.GRAIN / 1e9)
    folder = tmp_path / "cache" / "answers"
    run = kept.Run(str(folder / "e"))
    run.hook("open", (str(read), "r", 0))
    run.hook("open", (str(tmp_path / "not-there"), "r", 0))
    run.said += [(1, b"out"), (2, b"err"), (1, b"\n\nmore")]
    kept.keep(run, 2)
    return folder / "e"


def holds(start: ModuleType, entry: Path) -> bool:
    try:
        return start.kept(str(entry)) is not None
    except (OSError, ValueError):
        return False


def test_an_entry_is_read_as_it_was_written(start: ModuleType, entry: Path) -> None:
    assert start.kept(str(entry)) == (2, [(1, b"out"), (2, b"err"), (1, b"\n\nmore")])


def test_a_file_that_appears_or_changes_ends_it(start: ModuleType, entry: Path, tmp_path: Path) -> None:
    assert holds(start, entry)
    (tmp_path / "not-there").touch()
    assert not holds(start, entry)
    (tmp_path / "not-there").unlink()
    (tmp_path / "read.txt").write_text("y", "utf-8")
    assert not holds(start, entry)


def test_code_that_was_touched_ends_it(start: ModuleType, tmp_path: Path) -> None:
    code = tmp_path / "m.py"
    code.touch()
    time.sleep(2 * kept.GRAIN / 1e9)
    run = kept.Run(str(tmp_path / "cache" / "answers" / "e"))
    run.hook("open", (str(code), "rb", 0))
    kept.keep(run, 0)
    assert holds(start, Path(run.place))
    os.utime(code)
    assert not holds(start, Path(run.place))


def test_damage_ends_it(start: ModuleType, entry: Path) -> None:
    sound = entry.read_bytes()
    for at in (*range(0, 100, 7), *range(100, len(sound), len(sound) // 20), len(sound) - 1):
        entry.write_bytes(sound[:at])
        assert not holds(start, entry), at
        entry.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        assert not holds(start, entry), at
    entry.write_bytes(sound)
    assert holds(start, entry)


def test_a_folder_of_somebody_else_is_ignored(
    start: ModuleType, entry: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for one in (entry, entry.parent, entry.parent.parent):
        mode = one.stat().st_mode
        for more in (0o020, 0o002):
            one.chmod(mode | more)
            assert not holds(start, entry), (one, oct(more))
        one.chmod(mode)
    assert holds(start, entry)
    link = tmp_path / "link"
    link.symlink_to(entry.parent.parent)
    assert not holds(start, link / "answers" / "e")
    target = entry.rename(tmp_path / "moved")
    entry.symlink_to(target)
    assert not holds(start, entry)
    entry.unlink()
    target.rename(entry)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not holds(start, entry)


@pytest.mark.parametrize("fault", ["group", "link", "owner", "file"])
def test_nothing_is_put_into_a_folder_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    cache = tmp_path / "cache"
    if fault == "file":
        cache.touch()
    elif fault == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        cache.symlink_to(tmp_path / "real")
    else:
        cache.mkdir(mode=0o700)
        cache.chmod(0o770 if fault == "group" else 0o700)
    if fault == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    kept.keep(kept.Run(str(cache / "answers" / "e")), 0)
    assert [p for p in tmp_path.rglob("*") if p.name == "e" or p.name.startswith("e.")] == []


def test_what_has_an_effect_is_not_kept(tmp_path: Path) -> None:
    for event, arguments in [
        ("subprocess.Popen", ("git", ["git"], None, None)),
        ("socket.connect", (None, ("127.0.0.1", 1))),
        ("open", (str(tmp_path / "out"), "w", os.O_WRONLY | os.O_CREAT)),
        ("open", (str(tmp_path / "out"), None, os.O_RDWR)),
        ("os.rename", (str(tmp_path / "a"), str(tmp_path / "b"), -1, -1)),
        ("os.remove", (str(tmp_path / "a"), -1)),
    ]:
        run = kept.Run(str(tmp_path / "cache" / "answers" / "e"))
        assert run.entry(0) is not None
        run.on = True
        run.hook(event, arguments)
        assert run.entry(0) is None, event


def test_what_is_younger_than_the_run_is_not_kept(tmp_path: Path) -> None:
    run = kept.Run(str(tmp_path / "cache" / "answers" / "e"))
    (tmp_path / "new.txt").write_text("x", "utf-8")
    run.hook("open", (str(tmp_path / "new.txt"), "r", 0))
    assert run.entry(0) is None


def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ENTRIES", 4)
    for number in range(9):
        kept.keep(kept.Run(str(tmp_path / "cache" / "answers" / str(number))), 0)
        assert len(list((tmp_path / "cache" / "answers").iterdir())) <= 4
    assert (tmp_path / "cache" / "answers" / "8").exists()
    monkeypatch.setattr(kept, "MOST", 10)
    shutil.rmtree(tmp_path / "cache")
    kept.keep(kept.Run(str(tmp_path / "cache" / "answers" / "large")), 0)
    assert not (tmp_path / "cache" / "answers" / "large").exists()


def test_a_check_without_options_needs_neither_click_nor_the_tools_that_read_source(rlc: Shell, spec: Path) -> None:
    loaded = rlc.imports("check", "a.rlspec")
    assert not loaded & {"click", "inspect", "dataclasses", "tempfile", "difflib", "importlib.metadata", "uuid"}


@pytest.mark.parametrize("name", ["a.rlspec", "none.rlspec", "wrong.rlspec", "."])
def test_a_check_with_and_without_options_says_the_same(rlc: Shell, spec: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "wrong.rlspec").write_text(SAMPLE.read_text("utf-8").replace("layers = 3", "layerz = 3"), "utf-8")
    assert rlc("check", name) == rlc("check", "--format", "text", name)


@pytest.mark.parametrize("parts", range(6))
def test_a_path_without_pathlib_is_what_pathlib_makes_of_it(parts: int) -> None:
    for letters in product("/.a", repeat=parts):
        name = "".join(letters)
        assert str(main._path(name)) == str(Path(name)), name
