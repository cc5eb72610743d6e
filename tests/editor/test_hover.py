"""Hover: types, levels, ranges, the catalog, provenance."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rlspec.editor.colours import SORTS
from rlspec.editor.document import Document
from rlspec.editor.facts import Facts
from rlspec.editor.highlight import hints, painted
from rlspec.editor.hover import hover

Marked = Callable[[str], tuple[Document, int]]


def said(text: str, place: str, within: int = 1) -> str:
    document = Document(text)
    found = hover(document, text.index(place) + within, Facts(document))
    return found.markdown if found else ""


@pytest.mark.parametrize(
    ("place", "within", "wanted"),
    [
        ("R : real@traj", 0, "derived: `real@traj in [-0.1, 1.1]`"),
        ("verdict == -1", 0, "int@turn in {-1, 0, 1}"),
        ("verdict == -1", 8, "derived: `bool@turn"),
        ("any(verdict", 1, "derived: `bool@traj"),
        ("* indicator", 0, "derived: `real@traj in {0, 0.1}`"),
        ("std.grpo", 6, "def std.grpo(R : real@traj)"),
        ("std.grpo", 1, "def std.grpo(R : real@traj)"),
        ("max_turns = 16", 2, "unit `agent_turns`"),
        ("16agent_turns", 2, "max_turns : int [agent_turns]"),
        ("shop {", 1, "Measures:"),
        ("over turn)", 6, "one value per message"),
        ("traj in [-0.1", 1, "one value per trajectory"),
        ("stage coldstart", 1, "one stage of the run"),
        ("serves = ", 1, "envs that it belongs to"),
    ],
)
def test_hover_says(sample: str, place: str, within: int, wanted: str) -> None:
    assert wanted in said(sample, place, within)


def test_hover_shows_provenance(head: str) -> None:
    text = head + '  stage s : grpo { group = chosen(8, "fits two cores") }\n}\n'
    assert "*chosen* `8`: fits two cores" in said(text, "group = ")
    assert "*assumed* `0.2`: not published" in said(text, "weight : real")


def test_hover_says_nothing_between_words(sample: str) -> None:
    assert said(sample, "\n\n", 1) == ""


def test_hints_show_the_ranges_that_the_text_does_not(sample: str) -> None:
    text = sample.replace(
        "  advantage A", "  let twice = 2 * outcome\n  reward Q : real@traj = 3 * outcome\n  advantage A"
    )
    document = Document(text)
    found = {h.text.strip() for h in hints(document, Facts(document), 0, len(text))}
    assert found == {": int@traj in {0, 2}", "in {0, 3}"}


def test_every_token_is_painted_once_and_in_order(sample: str) -> None:
    found = painted(Document(sample))
    assert all(a.stop <= b.start for a, b in pairwise(found))
    assert {p.sort for p in found} <= set(SORTS)


@pytest.mark.parametrize(
    ("place", "sort"),
    [("policy agent", "keyword"), ("tiny", "class"), ("width", "property"), ("outcome :", "variable"),
     ("indicator", "function"), ("traj in", "type"), ("# One scalar", "comment"), ("384tokens", "number"),
     ("over turn", "keyword"), ("held_out  tasks", "enumMember")],
)  # fmt: skip
def test_tokens_are_painted_by_meaning(sample: str, place: str, sort: str) -> None:
    start = sample.index(place)
    assert next(p for p in painted(Document(sample)) if p.start == start).sort == sort


SPECS = sorted((Path(__file__).parents[2] / "specs").glob("**/*.rlspec"))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.name)
def test_every_declaration_of_every_spec_can_be_asked_about(path: Path) -> None:
    document = Document(path.read_text(encoding="utf-8"), str(path))
    facts = Facts(document)
    for declaration in document.symbols.declarations:
        found = hover(document, declaration.span.start, facts)
        assert found is not None, declaration.name
        assert declaration.name in found.markdown
    assert document.trouble == ""
