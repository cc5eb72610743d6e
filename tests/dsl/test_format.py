"""The formatter: its style, what it keeps, and that it checks its own work."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_module import bench_module
from rlspec.dsl import format as format_module
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.format import UnfaithfulFormat, formatted, same_tree
from rlspec.dsl.format_spacing import Spacing
from rlspec.dsl.parser import parse, read

ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*ROOT.glob("specs/**/*.rlspec"), *ROOT.glob("examples/**/*.rlspec"), *ROOT.glob("tests/*.rlspec")])


BENCH = bench_module("language/format")


def fmt(text: str) -> str:
    return formatted(Source("test", text))


# ------------------------------------------------------------------------------------------------ properties


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_generated_files_keep_their_meaning_and_comments_and_need_no_second_pass(dice: random.Random) -> None:
    assert BENCH.faults(BENCH.generated(dice)) == []


@pytest.mark.parametrize("seed", range(4))
def test_seeded_files_keep_their_meaning_and_comments_and_need_no_second_pass(seed: int) -> None:
    for index in range(60):
        text = BENCH.generated(random.Random(f"tests/{seed}/{index}"))
        assert BENCH.faults(text) == [], text


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_specs_are_formatted(path: Path) -> None:
    source = read(path)
    assert formatted(source) == source.text


def test_the_charters_sketches_are_laid_out_without_loss() -> None:
    assert BENCH.faults(Path(__file__).with_name("sketches.rlspec").read_text()) == []


# ----------------------------------------------------------------------------------------------------- style


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1", "a = 1"),
        ("a  b:real @ traj in[ 0,1 ]=f( x ,y = - 1 )", "a b : real@traj in [0, 1] = f(x, y = -1)"),
        ("a=-b-  -c*not_d", "a = -b - -c * not_d"),
        ("a=not(b)and c not  in{1,2}", "a = not (b) and c not in {1, 2}"),
        ("a=z(x over(t,u)align t where(b))", "a = z(x over (t, u) align t where (b))"),
        ("a=if b then c . d [ 1 ] else g ( )", "a = if b then c.d[1] else g()"),
        ("def f (x:real,y:int=3):real=x^-y", "def f(x : real, y : int = 3) : real = x ^ -y"),
        ('a "b" extends "c.rlspec" on d{}', 'a "b" extends "c.rlspec" on d { }'),
        ("t:{a,b}@turn=1", "t : {a, b}@turn = 1"),
        ("a{b=1 c{d=2}}", "a { b = 1  c { d = 2 } }"),
        ("a = 1\t\tb = 2", "a = 1  b = 2"),
        ("a = 1 #why  ", "a = 1  #why"),
        ("n = 1_000tokens  m = 57.40%  e = 1E-06", "n = 1_000tokens  m = 57.40%  e = 1E-06"),
        ("a = ((b))", "a = ((b))"),
        ("a = [1,2,]", "a = [1, 2,]"),
        ("a\n.b\n= f\n(x)", "a.b = f(x)"),
        ("a b : c\n{ d = 1 }", "a b : c { d = 1 }"),
        ("a { }", "a { }"),
        ("a {\n\n}", "a { }"),
    ],
)
def test_spacing(text: str, canonical: str) -> None:
    assert fmt(text) == canonical + "\n"


def test_a_block_that_was_broken_anywhere_is_broken_at_its_braces_and_keeps_its_rows() -> None:
    assert fmt("a { b = 1   c = 2\n      d = 3 }  e = 4\n") == "a {\n  b = 1  c = 2\n  d = 3\n}\ne = 4\n"


def test_a_block_that_does_not_fit_on_its_line_is_opened() -> None:
    text = "stage train : grpo { " + "  ".join(f"field_number_{i} = {i}" for i in range(7)) + " }\n"
    lines = fmt(text).splitlines()
    assert lines[0] == "stage train : grpo {"
    assert lines[-1] == "}"
    assert [len(line) <= 120 for line in lines] == [True] * 4
    assert fmt(text) == fmt(fmt(text))


def test_blank_lines_stay_one_at_most_and_none_at_the_ends_of_a_block() -> None:
    assert fmt("\n\n\na = 1\n\n\n\nb {\n\n  c = 1\n\n\n  d = 2\n\n}\n\n\n") == "a = 1\n\nb {\n  c = 1\n\n  d = 2\n}\n"


def test_a_formula_keeps_its_breaks_with_one_indent() -> None:
    text = "reward R =\n  a\n           - b * f(\n x,\n y\n )\n     + c\n"
    assert fmt(text) == "reward R =\n    a\n    - b * f(\n      x,\n      y\n    )\n    + c\n"


def test_blank_lines_within_a_formula_stay_but_not_inside_of_its_brackets_ends() -> None:
    assert fmt("a =\n\n  b\n\n\n  + [\n\n1,\n\n2\n\n]") == "a =\n    b\n\n    + [\n      1,\n\n      2\n    ]\n"


def test_a_formula_that_is_too_long_is_broken_behind_its_sign_and_before_its_terms() -> None:
    term = "weight_of_the_term * indicator(any(verdict == -1 over turn))"
    assert fmt(f"reward reward_one : real@traj = {term} - {term}") == (
        f"reward reward_one : real@traj =\n    {term}\n    - {term}\n"
    )
    short = "0.25 * indicator(outcome == 1)"
    assert fmt(f"reward reward_one : real@traj = {term} - {short}") == (
        f"reward reward_one : real@traj =\n    {term} - {short}\n"
    )


def test_a_list_that_is_too_long_has_one_element_a_line() -> None:
    words = [f'"element number {i}"' for i in range(8)]
    assert fmt(f"sees = [{', '.join(words)}]") == "sees = [\n  " + ",\n  ".join(words) + "\n]\n"


def test_signs_that_were_aligned_on_purpose_stay_aligned_and_no_others() -> None:
    aligned = "domain    = retail\nmax_turns = 3\nlonger_than_these = 4\n\na  = 1\nbb = 2  c = 3\n"
    assert fmt(aligned) == aligned.replace("a  =", "a =")
    assert fmt("a       = 1\nbcd     = 2\n# why\ne       = 3\n") == "a   = 1\nbcd = 2\n# why\ne   = 3\n"
    assert fmt("a  = 1\nb = 2\n") == "a = 1\nb = 2\n"


def test_comments_that_were_aligned_on_purpose_stay_aligned() -> None:
    assert fmt("a = 1      # x\nbcd = 23   # y\ne = 1 # z\n") == "a = 1     # x\nbcd = 23  # y\ne = 1  # z\n"


# -------------------------------------------------------------------------------------------------- comments


def test_comments_stay_where_they_are() -> None:
    text = """\
# first

a {  # behind a brace
  # of its own
  b = 1  # behind an item

  # last
}  # behind the block
x = [  # in a list
  1,  # one
  # between

  2
  # at its end
]
y : z  # behind a head
    { d = 1 }
# end
"""
    assert fmt(text) == text.replace("    { d = 1 }", "    {\n  d = 1\n}")


def test_a_file_of_comments_and_an_empty_one_are_fine() -> None:
    assert fmt("\n  # a\n\n\n#b") == "# a\n\n#b\n"
    assert fmt("") == ""


def test_line_ends_are_those_of_the_first_line() -> None:
    assert fmt("a = 1\r\nb = 2\n") == "a = 1\r\nb = 2\r\n"
    assert fmt("a = 1\nb = 2\r\n") == "a = 1\nb = 2\n"


# -------------------------------------------------------------------------------------------------- refusals


def test_a_file_with_syntax_errors_is_refused_with_all_of_them() -> None:
    with pytest.raises(SpecError) as refused:
        fmt("a = \nb = [1\nc = 3\n")
    assert len(refused.value.diagnostics) == 2


def test_a_result_that_reads_differently_is_never_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    line, more = Spacing.line, itertools.count()
    breakages = {
        "syntax error": lambda text: text + ")",
        "another tree": lambda text: text.replace("b", "c"),
        "other tokens or comments": lambda text: text.replace("1", "(1)"),
        "changes it": lambda text: text + " " * next(more),
    }
    for said, breakage in breakages.items():
        monkeypatch.setattr(Spacing, "line", lambda *a, harm=breakage: harm(line(*a)))
        with pytest.raises(UnfaithfulFormat, match=said):
            fmt("a  =  b + 1")


def test_a_lost_or_moved_comment_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    written = format_module.written
    monkeypatch.setattr(format_module, "written", lambda rows: written(rows).replace("# why", ""))
    with pytest.raises(UnfaithfulFormat, match="comments"):
        fmt("a = 1 # why")
    monkeypatch.setattr(format_module, "written", lambda rows: "# why\n" + written(rows).replace("# why", ""))
    with pytest.raises(UnfaithfulFormat, match="comments"):
        fmt("a = 1 # why")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a = f(x, 1)", "a   =   f(\nx, 1)", True),
        ("a = (b)", "a = b", True),
        ("a = 1.0", "a = 1.00", False),
        ("a = f(x)", "a = f(y)", False),
        ("a = f(x)", "a = f(x, x)", False),
        ("a = b", 'a = "b"', False),
        ("a { b = 1 }", "a { b = 1  b = 1 }", False),
    ],
)
def test_trees_are_the_same_but_for_their_spans(one: str, other: str, same: bool) -> None:
    assert same_tree(parse(Source("one", one))[0], parse(Source("other", other))[0]) is same
