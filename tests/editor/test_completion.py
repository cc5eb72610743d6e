"""Completion in the middle of typing: what is suggested at a cursor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.catalog import catalog
from rlspec.compiler.functions import FUNCTIONS
from rlspec.compiler.levels import BY_LABEL
from rlspec.compiler.library import standard
from rlspec.editor.completion import complete
from rlspec.editor.document import Document
from rlspec.editor.words import FUNCTION_WORDS

Marked = Callable[[str], tuple[Document, int]]


def labels(found: tuple[Document, int]) -> list[str]:
    return [s.label for s in complete(*found)[1]]


def test_an_empty_file_begins_with_its_edition() -> None:
    assert labels((Document(""), 0))[0] == "rlspec"


CASES = [
    ("  env d : |", sorted(catalog()["env"])),
    ("  reward R : real@|", sorted(BY_LABEL)),
    ("  reward R : |", ["bool", "int", "real", "text"]),
    ("  reward R : real@traj on |", ["desk"]),
    ("  judge j : oracle { on = [|", ["desk"]),
    ("  stage s : grpo { group = 4 }\n  stage t : evaluate { after = [|", ["s"]),
    ("  stage s : sft { stop.|", ["every", "loss", "patience"]),
    ("  stage s : sft { stop { |", ["every", "loss", "patience"]),
    ("  let x = sum(verdict over |", ["group", "token", "traj", "turn"]),
    ("  let x = mean(verdict over (traj, |", ["group", "token", "traj", "turn"]),
    ("  let x = num(|", ["group", "token", "traj", "turn"]),
    ("  let x = any(tier == |", ["gold", "soft"]),
    ("  let x = any(tier in {gold, |", ["gold", "soft"]),
    ("  let x = by(tier, gold = 1.0, |", ["soft"]),
    ("  signal s : int@turn = turns.|", sorted(catalog()["judge"]["oracle"].MEASURES)),
    ("  signal s : int@turn = env.|", sorted(catalog()["env"]["shop"].MEASURES)),
    ("  let x = std.|", sorted(name.removeprefix("std.") for name in standard())),
    ("  let x = policy.|", sorted(catalog()["policy"]["tiny"].MEASURES)),
    ("  let x = stage.|", ["step"]),
    ("  stage c : irc { signal = tier }\n  let x = c.|", ["weight"]),
    ("  stage t : grpo { }\n  stage f : resample { within = t }\n  let x : real@traj on |", ["desk", "f"]),
    ("  let x = anneal(1, 0, shape = |", ["cosine", "linear"]),
    ("  credit = |", ["agent_tokens"]),
    ("  advantage A : real@traj = outcome\n  credit = agent_tokens(|", ["A"]),
    ("  variant v { patch.env.|", ["desk"]),
    ("  variant v { |", ["add", "given", "note", "patch", "remove"]),
    ('  test "t" { |', ["expect", "given"]),
    ("  variant v { remove = [judge|", ["judge.turns"]),
    ('  title = "a |', []),
    ("  # a comment |", []),
    ("  reward |", []),
]


@pytest.mark.parametrize(("typed", "wanted"), CASES, ids=[c[0].strip() for c in CASES])
def test_exactly_what_fits_is_suggested(head: str, marked: Marked, typed: str, wanted: list[str]) -> None:
    assert sorted(labels(marked(head + typed))) == wanted


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("  rew|", "reward"),
        ("  let x = outc|", "outcome"),
        ("  stage s : evaluate { split = |", "test"),
        ("  let x = zscore(outcome over traj, singleton = |", "raw"),
        ("  let x = anneal(1, 0, shape = |", "cosine"),
    ],
)
def test_the_likeliest_comes_first(head: str, marked: Marked, typed: str, first: str) -> None:
    assert labels(marked(head + typed))[0] == first


def test_a_field_that_is_set_is_not_offered_again(head: str, marked: Marked) -> None:
    found = labels(marked(head + "  policy p : tiny { width = 64  |\n}"))
    assert "width" not in found
    assert "layers" in found


def test_a_field_says_its_type_unit_and_default(head: str, marked: Marked) -> None:
    _, found = complete(*marked(head + "  env d : shop { max_|"))
    assert found[0].detail.startswith("max_turns : int [agent_turns]")
    assert found[0].doc


def test_the_parameters_of_a_definition_are_offered(head: str, marked: Marked) -> None:
    assert {"gamma", "lambda"} <= set(labels(marked(head + "  let x = std.gtpo(outcome, outcome, |")))


def test_the_word_at_the_cursor_is_replaced(head: str, marked: Marked) -> None:
    document, offset = marked(head + "  let x = outc|")
    start, _ = complete(document, offset)
    assert document.text[start:offset] == "outc"


def test_names_further_down_in_the_file_are_known(sample: str) -> None:
    offset = sample.index("outcome\n      - 0.1")
    assert "verdict" in labels((Document(sample[:offset] + sample[offset + 7 :]), offset))


def test_every_function_has_a_line_of_its_own() -> None:
    assert set(FUNCTION_WORDS) >= set(FUNCTIONS)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_cut_of_a_file_breaks_completion(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    stop = data.draw(st.integers(0, len(text)))
    rest = data.draw(st.sampled_from(["", text[stop:], text[stop + 5 :], "}}", "\n\n)", '"']))
    complete(Document(text[:stop] + rest), stop)


TEXTS = [
    "rlspec = 1\nexperiment e {\n  env d : shop { difficulty = 1  max_turns = 3 }\n  mix tasks { d = 1 }\n"
    "  reward R : real@traj in [0, 1] on d = clip(by(t, a = 1, b = 2), 0, 1) # x\n  credit = agent_tokens(A)\n}\n",
    "def f(x : real@traj, k : {a, b} = a) : real@traj = if x > 0 then std.grpo(x) else sum(x over (traj, turn))\n",
]
