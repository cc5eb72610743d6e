"""A file from its pieces is the file parsed as a whole, whatever was edited; trees survive being plain data."""

from __future__ import annotations

import marshal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.dsl import parser, pieces
from rlspec.dsl.diagnostics import Diagnostic, Source
from rlspec.dsl.packed import packed, unpacked
from rlspec.dsl.tree import File

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / name for name in ("specs/papers/tarl.rlspec", "examples/quickstart.rlspec")]
TEXTS = [path.read_text("utf-8") for path in PATHS]
PUT = [
    "#",
    "{",
    "}",
    "(",
    ")",
    "[",
    '"',
    " ",
    "x",
    "1",
    "=",
    "on ",
    "over ",
    "and ",
    "-",
    ".",
    "\n",
    "\n  y = 2\n",
    "\t",
]


def whole(text: str) -> tuple[File, list[Diagnostic]]:
    """As `parse`, without any memory."""
    items, comments, diagnostics = parser._run(Source("x", text), "file")
    return File(tuple(items or ()), comments), diagnostics


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "KNOWN", {})
    monkeypatch.setattr(pieces, "_placed", {})


@st.composite
def edits(draw: Any, text: str) -> str:
    """One or two small edits of a text, as a person makes them."""
    lines = text.split("\n")
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        line, kind = lines[at], draw(st.sampled_from(["delete", "double", "put", "take", "indent", "number"]))
        column = draw(st.integers(0, len(line)))
        if kind == "delete":
            del lines[at]
        elif kind == "double":
            lines.insert(draw(st.integers(0, len(lines) - 1)), line)
        elif kind == "put":
            lines[at] = line[:column] + draw(st.sampled_from(PUT)) + line[column:]
        elif kind == "take":
            lines[at] = line[:column] + line[column + 1 :]
        elif kind == "indent":
            lines[at] = " " * draw(st.integers(0, 4)) + line.lstrip()
        else:
            lines[at] = line.replace("1", "27")
    return "\n".join(lines)


@pytest.mark.parametrize("text", TEXTS, ids=[path.stem for path in PATHS])
def test_an_edited_file_is_the_same_from_its_pieces(text: str) -> None:
    pieces.learn(text, whole(text)[0])
    used = []

    @settings(max_examples=25, deadline=None)
    @given(edits(text))
    def alike(edited: str) -> None:
        found = pieces.whole(edited, parser._sound)
        if found is not None:
            used.append(edited)
            file, diagnostics = whole(edited)
            assert diagnostics == []
            assert found == file
            pieces.learn(edited, file)

    alike()
    assert pieces.whole(text, parser._sound) == whole(text)[0]
    assert used


def test_what_did_not_change_is_not_parsed_and_stays_the_same_object() -> None:
    text = TEXTS[-1]
    file = whole(text)[0]
    pieces.learn(text, file)
    parsed: list[str] = []

    def parse(part: str) -> Any:
        parsed.append(part)
        return parser._sound(part)

    edited = text.replace("steps = ", "steps =  ", 1)
    found = pieces.whole(edited, parse)
    assert found == whole(edited)[0]
    assert len(parsed) == 1
    before, after = file.items[-1].body, found.items[-1].body if found else None
    assert before
    assert after
    assert before[0] is after[0]


@pytest.mark.parametrize(
    "text",
    [
        "rlspec = 1\nexperiment e {\n  a = 1\n",  # not closed
        "rlspec = 1\nexperiment e { a = 1 }\n",  # on one line
        "rlspec = 1\nexperiment e {\n  a = f(1,\n  b = 2)\n}\n",  # an item over two pieces
        "rlspec = 1\nexperiment e {\n  a = 1\r\n}\n",
        "def f(x : real) : real = x\n",
        "}\n",
        "",
    ],
)
def test_another_shape_is_left_to_the_parser(text: str) -> None:
    file, diagnostics = whole(text)
    if not diagnostics:
        pieces.learn(text, file)
    assert pieces.whole(text, parser._sound) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST", 20)
    for number in range(30):
        text = f"experiment e {{\n  a = {number}\n}}\n"
        pieces.learn(text, whole(text)[0])
        assert pieces.whole(text, parser._sound) == whole(text)[0]
        assert len(pieces.KNOWN) <= 20


@pytest.mark.parametrize("text", TEXTS, ids=[path.stem for path in PATHS])
def test_a_tree_is_the_same_after_it_was_plain_data(text: str) -> None:
    file = whole(text)[0]
    data = marshal.loads(marshal.dumps(packed((file.items, file.comments), 5)))
    assert unpacked(data, 5) == (file.items, file.comments)
    assert unpacked(data, 105) == unpacked(packed((file.items, file.comments)), 100)


def test_an_editor_remembers_and_a_command_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "_pieces", None)
    text = TEXTS[0] + "# once\n"
    assert parser.parse(Source("a", text))[0].items
    assert pieces.KNOWN == {}
    parser.remember()
    text = TEXTS[0] + "\n"
    assert parser.parse(Source("a", text))[0] == whole(text)[0]
    assert pieces.KNOWN
