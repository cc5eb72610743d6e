"""After an error the parser goes on: each fault once, the rest of the file kept, always an end."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.dsl.diagnostics import Source, render
from rlspec.dsl.layout import MAX_BRACKETS
from rlspec.dsl.parser import MAX_ERRORS, parse
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import scan
from rlspec.dsl.tree import Item

SKETCHES = Path(__file__).with_name("sketches.rlspec").read_text("utf-8")
KINDS = ("delete", "duplicate", "swap", "bracket", "quote")


def items_in(items: tuple[Item, ...]) -> int:
    return sum(1 + items_in(item.body or ()) for item in items)


ALL_ITEMS = items_in(parse(Source("sketches", SKETCHES))[0].items)


def mutated(text: str, rng: random.Random, kind: str) -> tuple[str, int]:
    """The text with one fault, and the (0-based) line of it."""
    tokens = scan(text, load()).tokens[:-1]
    if kind == "bracket":
        token = rng.choice([t for t in tokens if t.text in ("{", "}", "(", ")", "[", "]")])
        return text[: token.start] + text[token.stop :], token.line
    if kind == "quote":
        token = rng.choice([t for t in tokens if t.kind == "TEXT"])
        at = rng.choice([token.start, token.stop - 1])
        return text[:at] + text[at + 1 :], token.line
    at = rng.randrange(len(tokens) - 1)
    token, after = tokens[at], tokens[at + 1]
    if kind == "delete":
        return text[: token.start] + text[token.stop :], token.line
    if kind == "duplicate":
        return text[: token.stop] + " " + text[token.start :], token.line
    between = text[token.stop : after.start]
    return text[: token.start] + after.text + between + token.text + text[after.stop :], token.line


def test_one_fault_gives_one_diagnostic_near_it_and_costs_few_items() -> None:
    rng = random.Random(7)
    counts, near, kept = [], 0, []
    for number in range(125):
        text, line = mutated(SKETCHES, rng, KINDS[number % len(KINDS)])
        file, diagnostics = parse(Source("mutated", text))
        if diagnostics:
            counts.append(len(diagnostics))
            kept.append(items_in(file.items) / ALL_ITEMS)
            assert diagnostics[0].span is not None
            found = Source("mutated", text).position(diagnostics[0].span.start)[0] - 1
            near += abs(found - line) <= 1
    faults = len(counts)
    assert faults > 100
    assert sum(count == 1 for count in counts) / faults >= 0.97
    assert max(counts) <= 3
    assert near / faults >= 0.95
    assert sum(kept) / faults >= 0.95


def test_several_faults_are_all_reported_at_once() -> None:
    rng = random.Random(11)
    lines = SKETCHES.split("\n")
    equal = rounds = 25
    for _ in range(rounds):
        planted: dict[int, str] = {}
        while len(planted) < 3:
            text, line = mutated(SKETCHES, rng, rng.choice(KINDS))
            changed = text.split("\n")
            alone = parse(Source("mutated", text))[1]
            apart = all(abs(line - other) > 1 for other in planted)
            if apart and len(alone) == 1 and len(changed) == len(lines):
                planted[line] = changed[line]
        text = "\n".join(planted.get(number, line) for number, line in enumerate(lines))
        diagnostics = parse(Source("mutated", text))[1]
        assert len(diagnostics) <= len(planted) + 1
        equal -= len(diagnostics) != len(planted)
    assert equal / rounds >= 0.9


def test_three_errors_in_one_block_leave_the_rest_of_it() -> None:
    text = (
        "experiment e {\n  a = 1\n  b = = 2\n  stage t : : grpo {\n    lr = 3\n    n = 4\n  }\n"
        "  c = f(x ovr turn)\n  d = 5\n}\n"
    )
    file, diagnostics = parse(Source("three", text))
    assert [Source("three", text).position(d.span.start)[0] for d in diagnostics if d.span] == [3, 4, 8]
    assert [item.head.path[0].value for item in file.items[0].body or ()] == ["a", "b", "stage", "c", "d"]


def test_an_invented_value_never_reaches_the_tree() -> None:
    file, diagnostics = parse(Source("test", "a = 1\nb = f(, x)\nc = g(x y)\nd = 2\n"))
    assert len(diagnostics) == 2
    assert [item.head.path[0].value for item in file.items] == ["a", "d"]


def test_the_items_before_a_cut_are_kept() -> None:
    cut = SKETCHES[: SKETCHES.index("signal verdict")]
    file, diagnostics = parse(Source("cut", cut))
    assert [d.code for d in diagnostics] == ["RLC0006"]
    assert len(file.items[1].body or ()) > 8


BLOCKS = """rlspec = 1
experiment e {
  title = "t"
  env desk : shop {
    difficulty = 0
    kl { coefficient = 1  estimator = k3 }
  }
  stage train : grpo {
    steps = 5steps
    betas = [1, 2]
  }
}
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # a line with a head and its `{` is lost: said where the first item of the block stands
        ([("  env desk : shop {\n", "")], [("RLC0006", 4)]),
        ([("experiment e {\n", "")], [("RLC0006", 2)]),
        # another bracket stands for one
        ([("env desk : shop {", "env desk : shop (")], [("RLC0006", 4)]),
        ([("kl {", "kl [")], [("RLC0006", 6)]),
        ([("[1, 2]", "[1, 2}")], [("RLC0013", 10)]),
        ([("[1, 2]", "f{1, 2)")], [("RLC0013", 10)]),
        ([("[1, 2]", "\n        by{a,\n          b = 1, c = -0.1,\n          d = 2)")], [("RLC0013", 11)]),
        ([("k3 }", "k3 )")], [("RLC0013", 6)]),
        ([("  }\n}", "  ]\n}")], [("RLC0013", 11)]),
        # a brace where nothing can begin
        ([("env desk : shop {", "env desk : shop { {")], [("RLC0006", 4)]),
        ([("[1, 2]", "a. {b")], [("RLC0013", 10)]),
        # braces that match because two mistakes cancel
        ([("env desk : shop {", "env desk : shop"), ("  }\n}", "}")], [("RLC0006", 4), ("RLC0006", 10)]),
        ([("env desk : shop {", "env desk : shop {{"), ("  }\n}", "}")], [("RLC0006", 4), ("RLC0006", 10)]),
        ([("kl {", "kl"), ("[1, 2]", "[1, 2] {")], [("RLC0007", 6), ("RLC0013", 10)]),
        ([('title = "t"', "a = f(x"), ("[1, 2]", "[1, 2])")], [("RLC0013", 3), ("RLC0013", 10)]),
        # a lost head does not hide a mistake in the line after the next
        ([("experiment e {\n", ""), ("k3 }", "k3"), ("5steps", "")], [("RLC0006", 2), ("RLC0013", 5), ("RLC0005", 8)]),
        # a text that is not closed takes the `{` of its line with it
        ([("env desk : shop {", 'env "desk : shop {')], [("RLC0004", 4)]),
        # lines in the wrong order are one mistake
        ([('title = "t"', "      1 +\n  a =\n      b")], [("RLC0005", 3)]),
    ],
)
def test_brackets_are_told_where_the_indentation_says(
    changes: list[tuple[str, str]], expected: list[tuple[str, int]]
) -> None:
    text = BLOCKS
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    source = Source("blocks", text)
    assert [(d.code, source.position(d.span.start)[0]) for d in parse(source)[1] if d.span] == expected


HELD = """rlspec = 1
experiment e {
%s
  seed = 3
}
"""


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        # a set's brace is lost or wrong inside of parentheses that go on over lines
        (
            "def f(r : real@turn) : real@traj =\n    clip(\n      2 * (\n        mean(r over turn where r in (0, 1})\n"
            "      ), 0, 1)\n",
            ["RLC0013"],
        ),
        (
            "def f(\n  r : real, n : {all, some = all\n) : real =\n    sum(r)\n\ndef g(x : real) : real = x",
            ["RLC0013"],
        ),
        # a brace that opens nothing
        ("def f(r : real@traj) : real@traj{ =\n    r + 1\n\ndef g(x : real) : real = x\n", ["RLC0013"]),
        ("def f(r : real@traj) :{ real@traj =\n    r + 1\n\ndef g(x : real) : real = x\n", ["RLC0013"]),
        (HELD % "  stage train :{ grpo {\n    steps = 5\n    lr = 1\n  }", ["RLC0013"]),
        # the name of a block is lost or misplaced; its brace is not wrong
        (HELD % "  patch.each.stage.grpo {\n    steps = 7\n  }\n  .each.stage.sft {\n    steps = 5\n  }", ["RLC0005"]),
        (HELD % "  patch.each.stagesft. {\n    steps = 5\n  }", ["RLC0005"]),
        (HELD % "  patch.each.stage.{ sft\n    steps = 5\n  }", ["RLC0005"]),
        (HELD % "  stage train : grpo {\n    steps = 5 }\n  { admit rate = 1 }", ["RLC0005"]),
        (HELD % "  stage train : grpo { )\n    steps = 5\n    lr = 1\n  }", ["RLC0013"]),
        # a head and its value in the wrong order
        (HELD % "      by(tier, gold = 1,\n  reward r : real@turn =\n         err = f(2), dup = 3)", ["RLC0013"]),
        ("rlspec = 1\n    exp(2)\ndef f(x : real) : real =\n", ["RLC0005"]),
        (HELD % "  variant v {\n    note =\n  }\n        \"of more than one line\"", ["RLC0005"]),
        # two mistakes whose braces cancel
        (HELD % "  a {\n    b {\n      n = 1\n  }\n  variant v (\n    n = 2\n  }", ["RLC0006", "RLC0006"]),
        ("experiment e extends base \n  n = 1\n  stage a : sft loss = 2 }\n  k = 2\n}\n", ["RLC0006", "RLC0006"]),
    ],
)  # fmt: skip
def test_a_mistake_with_brackets_is_said_once(text: str, codes: list[str]) -> None:
    assert [d.code for d in parse(Source("held", text))[1]] == codes


def test_what_follows_a_lost_head_is_read() -> None:
    file, _ = parse(Source("blocks", BLOCKS.replace("  env desk : shop {\n", "")))
    stage = (file.items[1].body or ())[-1]
    assert [i.head.path[0].value for i in stage.body or ()] == ["steps", "betas"]


def test_matching_brackets_of_a_sound_file_are_never_held_against_its_indentation() -> None:
    wild = BLOCKS.replace("\n    ", "\n").replace("\n  }", "\n      }")
    assert not parse(Source("wild", wild))[1]


# -------------------------------------------------------------------------------------- never, whatever comes


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
def test_any_mutation_of_a_sound_file_is_parsed_and_reported(rng: random.Random, kinds: list[str]) -> None:
    text = SKETCHES
    for kind in kinds:
        text, _ = mutated(text, rng, kind)
    file, diagnostics = parse(Source("mutated", text))
    assert len(diagnostics) <= 4 * len(kinds)
    for diagnostic in diagnostics:
        assert render(diagnostic)
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.stop <= len(text)
    assert items_in(file.items) <= ALL_ITEMS + len(kinds)


PIECES = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "=",
    ":",
    ",",
    ".",
    "@",
    "+",
    "-",
    "^",
    "==",
    "if",
    "then",
    "else",
    "over",
    "where",
]
PIECES += [
    "not",
    "in",
    "on",
    "extends",
    "align",
    "x",
    "def",
    "1.5s",
    '"t"',
    '"',
    "'",
    "#",
    "\n",
    " ",
    "\0",
    "é",
    "“",
    "&&",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=80).map(" ".join) | st.text(max_size=200))
def test_garbage_gives_diagnostics_and_nothing_else(text: str) -> None:
    file, diagnostics = parse(Source("garbage", text))
    assert len(diagnostics) <= MAX_ERRORS
    assert all(render(d) for d in diagnostics)
    assert file.items or diagnostics or not scan(text, load()).tokens[:-1]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000))
def test_binary_garbage_gives_diagnostics_and_nothing_else(data: bytes) -> None:
    _, diagnostics = parse(Source("garbage", data.decode("latin-1")))
    assert len(diagnostics) <= MAX_ERRORS


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 20_000,
        "x = " + "[)" * 20_000,
        "x = " + "-" * 20_000 + "1",
        "x = " + "not " * 20_000 + "a",
        "x = " + "a ^ " * 20_000 + "a",
        "x = " + "if a then b else " * 5_000 + "c",
        "x = " + "1 + " * 20_000 + "1",
        "x = a" + ".b" * 20_000,
        "x = a" + "()" * 20_000,
        "param p : a" + ".b" * 20_000 + " = 1",
        "a { " * 20_000,
        "a { " * 20_000 + "}" * 20_000,
        "}" * 20_000,
        ") a b c" * 10_000,
        "x ) " + "a " * 20_000,
        "“" * 20_000,
        '"\n' * 20_000,
        "$ " * 20_000,
        "= \n" * 20_000,
        '"' + ")" * 20_000 + "x",
        "a = {{ " * 20_000,
    ],
    ids=lambda text: text[:12] + text[-4:],
)
def test_depth_and_length_are_refused_in_time_and_without_recursion(text: str) -> None:
    began = time.process_time()
    file, diagnostics = parse(Source("bomb", text))
    assert 1 <= len(diagnostics) <= MAX_ERRORS
    assert repr(file)
    assert hash(file) == hash(file)
    assert time.process_time() - began < 10


def test_what_is_as_deep_as_allowed_is_parsed() -> None:
    for text in (
        "x = " + "(" * MAX_BRACKETS + "1" + ")" * MAX_BRACKETS,
        "x = " + "f(" * MAX_BRACKETS + "1" + ")" * MAX_BRACKETS,
        "x = " + "1 + " * 140 + "1",
        "a { " * MAX_BRACKETS + "}" * MAX_BRACKETS,
    ):
        file, diagnostics = parse(Source("deep", text))
        assert not diagnostics
        assert file.items


def test_at_most_so_many_errors_are_listed_and_the_last_says_so() -> None:
    text = "".join(f"x{n} = $ 1\n" for n in range(3 * MAX_ERRORS))
    _, diagnostics = parse(Source("many", text))
    assert len(diagnostics) == MAX_ERRORS
    assert diagnostics[-1].notes == (f"{2 * MAX_ERRORS} more errors are not listed",)


def test_a_merge_conflict_is_one_mistake_and_our_side_is_read() -> None:
    text = "a = 1\n<<<<<<< HEAD\nb = 2\n||||||| base\nb = 0\n=======\nb = 3\n>>>>>>> other\nc = 4\n"
    file, found = parse(Source("conflict", text))
    assert [(d.code, d.span and d.span.start) for d in found] == [("RLC0014", 6)]
    assert [text[i.span.start : i.span.stop] for i in file.items] == ["a = 1", "b = 2", "c = 4"]


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> other", "<<<<<<< a\nb = 2\n<<<<<<< b"])
def test_a_mark_that_a_merge_left_behind_is_named(mark: str) -> None:
    file, found = parse(Source("conflict", f"a = 1\n{mark}\r\nc = 4 = 5\n"))
    marks = ["RLC0014"] * max(mark.count("<<<<<<<"), 1)
    assert [d.code for d in found] == [*marks, "RLC0005"]
    assert file.items[0].head.path[0].value == "a"
