"""Whatever a file holds and wherever output goes: a diagnostic, status 2, no traceback, nothing half-written."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from rlspec.cli import main

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample.rlspec"
TEXT = SAMPLE.read_text("utf-8")

# command line, where {} is the bad file, {ok} a good one and {ours} another that is good
COMMANDS = {
    "check": ["check", "{}"],
    "check json": ["check", "--format", "json", "{}"],
    "check sarif": ["check", "--format", "sarif", "{}"],
    "check github": ["check", "--format", "github", "{}"],
    "check --fix": ["check", "--fix", "{}"],
    "check --with": ["check", "{ok}", "--with", "{}"],
    "plan": ["plan", "{}"],
    "compile": ["compile", "{}"],
    "eval": ["eval", "{}", "R"],
    "test": ["test", "{}"],
    "why": ["why", "{}", "seed"],
    "fmt": ["fmt", "{}"],
    "fmt --check": ["fmt", "--check", "{}"],
    "diff": ["diff", "{ok}", "{}"],
    "diff from": ["diff", "{}", "{ok}"],
    "compare": ["compare", "{ok}", "{}"],
    "digest": ["digest", "{}"],
    "doc": ["doc", "{}"],
    "graph": ["graph", "{}"],
    "run": ["run", "{}"],
    "merge": ["merge", "{ok}", "{ours}", "{}"],
}

BAD: dict[str, bytes] = {
    "empty": b"",
    "blanks": b" \n\t\n# nothing\n",
    "binary": bytes(range(256)) * 40,
    "not UTF-8": TEXT.encode().replace(b"shop assistant", b"shop \xe9 assistant"),
    "UTF-16": TEXT.encode("utf-16"),
    "zero bytes": TEXT.encode().replace(b"steps = 200steps", b"steps = \x00steps"),
    "5 MB": b"# filler\n" * 600_000,
    "10,000 parentheses": b"rlspec = 1\nexperiment e { seed = " + b"(" * 10_000 + b"1" + b")" * 10_000 + b" }\n",
    "10,000 blocks": b"rlspec = 1\n" + b"a { " * 10_000 + b"}" * 10_000,
    "10,000 signs": b"rlspec = 1\nexperiment e { seed = " + b"-" * 10_000 + b"1 }\n",
    "2,000 conditionals": b"rlspec = 1\nexperiment e { seed = " + b"if true then 1 else " * 2_000 + b"1 }\n",
    "10,000 powers": b"rlspec = 1\nexperiment e { seed = " + b"2 ^ " * 10_000 + b"1 }\n",
    "a long line": b'rlspec = 1\nexperiment e { title = "' + b"a" * 100_000 + b" }\n",
    "a long sum": b"rlspec = 1\nexperiment e { seed = " + b"1 + " * 3_000 + b"1 }\n",
    "not a spec": b"from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n",
    "YAML": b"trainer:\n  lr: 1e-6\n  steps: 100\n  - a\n",
    "JSON": b'{"rlspec": 1, "experiment": {"policy": null}}',
}


def rlc(*words: str) -> tuple[int, str, str]:
    """Status, standard output and standard error, in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["rlc", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = main._status()
            except SystemExit as leave:
                status = leave.code if isinstance(leave.code, int) else 1
    finally:
        sys.argv = before
    return status, out.getvalue(), err.getvalue()


def _good(folder: Path) -> Path:
    (folder / "ours.rlspec").write_text(TEXT.replace("200steps", "300steps"))
    (folder / "ok.rlspec").write_text(TEXT)
    return folder / "ok.rlspec"


def _filled(word: str, bad: Path, folder: Path) -> str:
    return (
        word.replace("{ok}", f"{folder}/ok.rlspec").replace("{ours}", f"{folder}/ours.rlspec").replace("{}", str(bad))
    )


@pytest.mark.parametrize("kind", BAD)
def test_every_command_refuses_a_bad_file(kind: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.rlspec"
    bad.write_bytes(BAD[kind])
    _good(tmp_path)
    for name, command in COMMANDS.items():
        began = time.process_time()
        status, out, err = rlc(*(_filled(w, bad, tmp_path) for w in command))
        assert status == 2, (name, status, out[-300:], err[-300:])
        assert "RLC" in out + err, (name, out[-300:], err[-300:])
        assert time.process_time() - began < 10, name
        assert bad.read_bytes() == BAD[kind], name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.rlspec", "ok.rlspec", "ours.rlspec"]


@pytest.mark.parametrize("what", ["folder", "missing", "below a file"])
def test_every_command_refuses_what_is_no_file(what: str, tmp_path: Path) -> None:
    ok, bad = _good(tmp_path), tmp_path / "bad.rlspec"
    if what == "folder":
        bad.mkdir()
    elif what == "below a file":
        bad = ok / "bad.rlspec"
    for name, command in COMMANDS.items():
        if what == "folder" and command[0] == "fmt":
            continue  # it formats the specs in it
        status, out, err = rlc(*(_filled(w, bad, tmp_path) for w in command))
        assert (status, "RLC07" in out + err) == (2, True), (name, status, out[-300:], err[-300:])


@pytest.mark.parametrize(("before", "after"), [("\n", "\r\n"), ("rlspec = 1", "\ufeffrlspec = 1")], ids=["CRLF", "BOM"])
def test_line_ends_and_byte_order_marks_are_as_good_as_none(before: str, after: str, tmp_path: Path) -> None:
    spec = tmp_path / "x.rlspec"
    spec.write_bytes(TEXT.replace(before, after).encode())
    for words in (["check", str(spec)], ["compile", str(spec)], ["digest", str(spec)], ["test", str(spec)]):
        assert rlc(*words)[0] == 0, rlc(*words)
    assert rlc("diff", str(SAMPLE), str(spec))[0] == 0


def test_thousands_of_mistakes_on_one_long_line_stay_readable(tmp_path: Path) -> None:
    bad = tmp_path / "bad.rlspec"
    bad.write_bytes(b"x = 1 " * 2_000)
    began = time.process_time()
    status, out, err = rlc("check", str(bad))
    assert (status, "more are not shown" in err, len(out + err) < 200_000) == (2, True, True)
    assert max(map(len, err.splitlines())) < 320
    assert time.process_time() - began < 10


# ---------------------------------------------------------------------------------------------------------- output


def started(*words: str, small: int | None = None, **how: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own; `small` limits the size of every file that it may write, as a full disk does."""
    limit: Callable[[], None] | None = None
    if small is not None:
        most = small
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # noqa: E731
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "rlspec.cli.main", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, env=env, preexec_fn=limit, **how)  # type: ignore[call-overload, no-any-return]


WRITING = {
    "compile": ["compile", "{}", "-o", "{out}"],
    "doc": ["doc", "{}", "-o", "{out}"],
    "graph": ["graph", "{}", "-o", "{out}"],
    "fmt": ["fmt", "{}"],
}
PLACES = [(c, p) for c in WRITING for p in ("full", "below a file", "folder") if c != "fmt" or p == "full"]


@pytest.mark.parametrize(("command", "place"), PLACES)
def test_output_that_cannot_be_written_leaves_nothing_behind(command: str, place: str, tmp_path: Path) -> None:
    spec, out = tmp_path / "x.rlspec", tmp_path / "out.html"
    spec.write_text(TEXT.replace("  policy", "      policy"))
    before = spec.read_bytes()
    if place == "below a file":
        out = spec / "out.html"
    elif place == "folder":
        out.mkdir()
    words = [w.replace("{out}", str(out)).replace("{}", str(spec)) for w in WRITING[command]]
    done = started(*words, small=512 if place == "full" else None, stdout=subprocess.PIPE)
    assert (done.returncode, "RLC0702" in done.stderr) == (2, True), (done.returncode, done.stderr[-800:])
    assert spec.read_bytes() == before
    left = {"x.rlspec", out.name} if place == "folder" else {"x.rlspec"}
    assert {p.name for p in tmp_path.iterdir()} == left


@pytest.mark.parametrize("words", [["check", "{}"], ["compile", "{}"], ["explain"], ["--help"]], ids=lambda w: w[0])
def test_a_reader_that_leaves_early_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        done = started(*(w.replace("{}", str(SAMPLE)) for w in words), stdout=out)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["check", "{}"], ["explain", "RLC0301"]], ids=lambda w: w[0])
def test_a_closed_standard_output_gives_no_traceback(words: list[str]) -> None:
    command = [sys.executable, "-m", "rlspec.cli.main", *(w.replace("{}", str(SAMPLE)) for w in words)]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode in (0, 2), "Traceback" in done.stderr) == (True, False), done.stderr[-800:]
