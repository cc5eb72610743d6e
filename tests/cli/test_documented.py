"""What the pages show of `rlc` is what it does: commands exist with their options, those that cost little are run, and
what a page prints beneath one is what is printed. `…`, or `...` in a line, stands for any text, a line `...` for any
lines; the numbers of lines in excerpts are not compared, nor columns of blanks at the end of a line."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rlspec.cli.group import rlc
from rlspec.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
RUN = [ROOT / "README.md", *(ROOT / "docs" / f"{n}.md" for n in ("language", "composition", "diff", "plan", "pages"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACEHOLDER = re.compile(r"^[A-Z][A-Z0-9|]*(…|\.\.\.)?$|…|\[|\|")
# Too dear here, or in need of a run that was trained; `rlc run` has tests of its own.
LEFT_OUT = ("run", "freeze", "git", "lsp", "rescore")


@dataclass(frozen=True)
class Shown:
    """A command of a page, `printed` where lines follow it that are its output."""

    page: str
    line: int
    words: list[str]
    printed: str | None


def blocks(text: str) -> list[tuple[int, list[str]]]:
    """Indented and fenced blocks: the number of their first line and their lines without the indentation."""
    found: list[tuple[int, list[str]]] = []
    inside = fenced = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.startswith("```")
        if fence:
            fenced, inside = not fenced, False
        elif fenced or line.startswith("    ") or (inside and not line.strip()):
            if not inside:
                found.append((number, []))
            found[-1][1].append(line if fenced else line[4:])
            inside = True
        else:
            inside = False
    return found


def shown(page: Path) -> list[Shown]:
    found = []
    for start, lines in blocks(page.read_text("utf-8")):
        for at, line in enumerate(lines):
            prompt = line.startswith("$ ")
            command = line.removeprefix("$ ")
            if not re.match(r"rlc [a-z]+\b", command):
                continue
            end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("$ ")), len(lines))
            printed = "\n".join(lines[at + 1 : end]).strip("\n") if prompt else None
            if "  " in command and not prompt:  # a table of commands: what follows is about it
                command = re.split(r" {2,}", command)[0]
            words = shlex.split(command.partition(" | ")[0], comments=True)
            found.append(Shown(page.name, start + at, words[1:], printed))
    return found


SHOWN = [one for page in PAGES for one in shown(page)]
RUNNABLE = [
    one for page in RUN for one in shown(page)
    if one.words[0] not in LEFT_OUT and not any(PLACEHOLDER.search(w) for w in one.words[1:])
    and not any("runs/" in w for w in one.words)
]  # fmt: skip


def plain(text: str) -> str:
    text = re.sub(r"(--> \S+?):\d+:", r"\1:0:", text)
    text = re.sub(r"^ *\d* \|", " |", text, flags=re.MULTILINE)
    text = re.sub(r"^ +-->", " -->", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def is_printed(said: str, printed: str) -> bool:
    """Whether the page's text is a passage of what was printed, whole lines of it."""
    lines = [re.escape(line).replace("…", ".*").replace(r"\.\.\.", ".*") for line in plain(said).splitlines()]
    pattern = "\n".join("(?s:.*)" if line == ".*" else line for line in lines)
    return re.search(rf"(?m)^{pattern}$", plain(printed)) is not None


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    for name in ("specs", "examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    sample = (ROOT / "tests" / "sample.rlspec").read_text()
    (tmp_path / "base.rlspec").write_text(sample)
    (tmp_path / "other.rlspec").write_text(sample.replace("- 0.1 *", "- 0.05 *").replace("lr = 3e-4", "lr = 4e-4"))
    (tmp_path / "child.rlspec").write_text(spec_in("composition.md", "experiment slow extends"))
    shutil.copy(ROOT / "specs" / "papers" / "tarl.rlspec", tmp_path / "tarl.rlspec")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec_in(page: str, mark: str) -> str:
    (found,) = [text for _, lines in blocks((ROOT / "docs" / page).read_text()) if mark in (text := "\n".join(lines))]
    return found


def run(words: list[str]) -> tuple[int, str]:
    done = CliRunner().invoke(rlc, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_the_pages_show_commands() -> None:
    assert len(SHOWN) > 40
    assert len(RUNNABLE) > 10
    assert sum(one.printed is not None for one in RUNNABLE) >= 6


@pytest.mark.parametrize("one", SHOWN, ids=lambda o: f"{o.page}:{o.line}")
def test_every_command_of_a_page_exists_with_its_options(one: Shown) -> None:
    assert one.words[0] in COMMANDS
    context = click.Context(rlc)
    command = rlc.get_command(context, one.words[0])
    words = one.words[1:]
    if isinstance(command, click.Group):
        command = command.get_command(context, words[0])
    assert command is not None
    known = {name for p in command.params for name in [*p.opts, *p.secondary_opts]}
    used = {w.strip("[]").partition("=")[0] for w in words if re.match(r"\[?--?[a-z]", w)}
    assert used <= known


def test_every_command_named_in_a_sentence_exists() -> None:
    named = {n for page in PAGES for n in re.findall(r"`rlc ([a-z]+)\b", page.read_text("utf-8"))}
    assert len(named) > 15
    assert named <= COMMANDS.keys()


def test_what_costs_little_is_as_shown(desk: Path) -> None:
    """In the order of the pages: a lock that is written is there for the next line."""
    wrong = []
    for one in RUNNABLE:
        status, printed = run(one.words)
        expected = 1 if one.words[0] == "diff" else 0
        if status != expected:
            wrong.append(f"{one.page}:{one.line}: status {status}: {printed}")
        elif one.printed and not is_printed(one.printed, printed):
            wrong.append(f"{one.page}:{one.line}: printed is\n{printed}")
    assert not wrong, "\n".join(wrong)


# What goes wrong on a page: its excerpt, and the file that it is about
def excerpts(page: str) -> dict[str, str]:
    path = ROOT / page
    found = {}
    for _, lines in blocks(path.read_text("utf-8")):
        text = "\n".join(lines)
        if text.startswith("error["):
            found[text[6:13]] = text.partition("\n\n")[0].strip("\n")
    return found


def edited(path: Path, source: str, old: str, new: str) -> None:
    text = (ROOT / source).read_text()
    assert old in text
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(old, new))


def test_the_mistake_of_the_first_page(desk: Path) -> None:
    (desk / "examples").unlink()
    source = "examples/first.rlspec"
    edited(desk / source, source, "indicator(any(verdict == -1 over turn))", "indicator(verdict == -1)")
    status, printed = run(["check", source])
    assert status == 2
    assert is_printed(excerpts("README.md")["RLC0301"], printed), printed


def test_the_spec_of_the_first_page_is_the_example() -> None:
    example = (ROOT / "examples" / "first.rlspec").read_text()
    spec = example[example.index("experiment first") :]
    assert "".join(f"    {line}".rstrip() + "\n" for line in spec.splitlines()) in (ROOT / "README.md").read_text()


def test_the_failing_test_of_the_language_page(desk: Path) -> None:
    (desk / "specs").unlink()
    source = "specs/papers/tarl.rlspec"
    edited(desk / source, source, "R == -4.75", "R == -4.5")
    status, printed = run(["test", source])
    assert status == 1
    assert is_printed(excerpts("docs/language.md")["RLC0802"], printed), printed


def test_the_plan_that_does_not_fit(desk: Path) -> None:
    (desk / "desk.rlspec").write_text(spec_in("plan.md", "experiment desk"))
    status, printed = run(["check", "desk.rlspec"])
    assert status == 2
    assert is_printed(excerpts("docs/plan.md")["RLC0529"], printed), printed


def test_the_base_that_moved_under_a_lock(desk: Path) -> None:
    assert run(["lock", "child.rlspec"])[0] == 0
    moved = (desk / "base.rlspec").read_text().replace("group = 8trajs", "group = 4trajs")
    (desk / "base.rlspec").write_text(moved)
    status, printed = run(["check", "--locked", "child.rlspec"])
    assert status == 2
    assert is_printed(excerpts("docs/composition.md")["RLC0713"], printed), printed
