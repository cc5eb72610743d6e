"""Every code is explained, and every example does what its explanation says: no more and no less."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlspec.cli.explain import explain
from rlspec.compiler.check import check_whole
from rlspec.dsl.codes import CODES
from rlspec.dsl.diagnostics import SpecError
from rlspec.dsl.explanations import AREAS, FRAME, Example, completed, explanations
from rlspec.dsl.parser import read

ROOT = Path(__file__).parents[2]
BAD = {code: e.bad for code, e in explanations().items() if e.bad is not None}
GOOD = {code: e.good for code, e in explanations().items() if e.good is not None}


def codes(example: Example, folder: Path) -> list[str]:
    path = folder / "example.rlspec"
    path.write_text(completed(example))
    try:
        return [d.code for d in check_whole(read(path)).diagnostics]
    except SpecError as error:
        return [d.code for d in error.diagnostics]


def test_every_code_is_explained_and_nothing_else() -> None:
    assert explanations().keys() == CODES.keys()


def test_there_are_at_least_60_codes() -> None:
    assert len(CODES) >= 60


@pytest.mark.parametrize("code", CODES)
def test_an_explanation_says_more_than_the_register_and_shows_something(code: str) -> None:
    found = explanations()[code]
    assert len(found.text) > 40
    assert (found.bad is None) == bool(found.situation)


@pytest.mark.parametrize(("code", "example"), BAD.items(), ids=BAD.keys())
def test_a_wrong_example_has_exactly_its_code(code: str, example: Example, tmp_path: Path) -> None:
    assert set(codes(example, tmp_path)) == {code}


@pytest.mark.parametrize("example", GOOD.values(), ids=GOOD.keys())
def test_a_right_example_has_nothing_to_say(example: Example, tmp_path: Path) -> None:
    assert codes(example, tmp_path) == []


def test_the_frame_of_the_examples_is_sound(tmp_path: Path) -> None:
    assert codes(Example("", False, ()), tmp_path) == []
    assert len(FRAME.splitlines()) == 12


@cache
def raised() -> frozenset[str]:
    """The codes that stand as an argument of a call in the product's own source: `Diagnostic("RLC…")` and its like."""
    found = set()
    for folder in ("dsl", "compiler", "runtime", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    given = [*node.args, *(k.value for k in node.keywords)]
                    found |= {a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return frozenset(found)


@pytest.mark.parametrize("code", [c for c, e in explanations().items() if e.bad is None])
def test_what_only_a_run_can_show_is_really_raised_somewhere(code: str) -> None:
    assert code in raised()


# ------------------------------------------------------------------------------------------------- rlc explain


@pytest.mark.parametrize("code", ["RLC0301", "rlc0301", "0301"])
def test_explain_shows_text_mistake_and_cure(code: str) -> None:
    shown = CliRunner().invoke(explain, [code]).output
    parts = ("RLC0301: ", "TARL", "Wrong:", "indicator(verdict == -1)", "Right:", "any(verdict == -1 over turn)")
    assert [p for p in parts if p not in shown] == []


def test_explain_without_a_code_lists_all_by_area() -> None:
    shown = CliRunner().invoke(explain, []).output
    assert all(code in shown for code in CODES)
    assert {code[3:5] for code in CODES} <= AREAS.keys()
    assert shown.index("00 syntax") < shown.index("RLC0001") < shown.index("01 names")


def test_explain_prints_a_whole_spec() -> None:
    shown = CliRunner().invoke(explain, ["RLC0301", "--whole"]).output
    assert shown == completed(BAD["RLC0301"])


def test_explain_refuses_what_is_no_code() -> None:
    done = CliRunner().invoke(explain, ["RLC0310"])
    assert (done.exit_code, "there is no RLC0310" in done.output) == (2, True)
