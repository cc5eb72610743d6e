"""Claims: arithmetic of printed numbers, with units."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.check import check
from rlspec.compiler.claims import Claims, claims_of
from rlspec.dsl import parser
from rlspec.dsl.diagnostics import Diagnostic, Source, render

SAMPLE = (Path(__file__).parents[2] / "tests" / "sample.rlspec").read_text()


def claims(text: str) -> tuple[Claims, list[Diagnostic], Source]:
    source = Source("claims", f"claims {{\n{text}\n}}")
    file, report = parser.parse(source)
    assert not report, [render(d) for d in report]
    found = claims_of(list(file.items), report)
    return found, report, source


def test_claims_that_add_up() -> None:
    text = """
      sparse = reported(51.3%, "a")  full = reported(57.4%, "b")  calls = 512
      assert gain = full - sparse == 6.1pp
      assert back = sparse + 6.1pp == full
      assert size = calls == 128 * 4
      assert more = full > sparse
      assert half = 2.6 / 6.1 == 0.43
      assert size_of_gain = abs(sparse - full) == 6.1pp
    """
    found, report, _ = claims(text)
    assert report == []
    assert [a.holds for a in found.assertions] == [True] * 6
    assert found.numbers["full"].amount.value == Fraction("57.4")
    assert (found.numbers["full"].origin.kind, found.numbers["full"].origin.note) == ("reported", "b")


def test_the_drop_that_was_printed_three_times_is_wrong() -> None:
    text = 'dense = reported(57.3%, "V5")  sparse = reported(64.6%, "sparse")  assert drop = dense - sparse == -6.5pp'
    found, report, source = claims(text)
    (error,) = report
    shown = render(error, source)
    assert (error.code, error.severity) == ("RLC0801", "error")
    assert "dense - sparse is -7.3pp, not -6.5pp" in shown
    assert "the right value is -7.3pp" in shown
    assert error.notes == ("dense = 57.3%", "sparse = 64.6%")
    assert found.assertions[0].holds is False


MISTAKES = {
    "percent for points": ("a = 3%  b = 2%  assert c = a - b == 1%", "RLC0305"),
    "plain for points": ("a = 3%  b = 2%  assert c = a - b == 1", "RLC0305"),
    "sum of units": ("a = 3tokens  b = 2turns  c = a + b", "RLC0305"),
    "product of units": ("a = 3%  b = 2%  c = a * b", "RLC0305"),
    "quotient of units": ("a = 3%  b = 2turns  c = a / b", "RLC0305"),
    "unknown": ("full = 3%  assert c = ful == 3%", "RLC0101"),
    "twice": ("a = 3%  a = 2%", "RLC0105"),
    "no comparison": ("a = 3%  assert c = a", "RLC0205"),
    "no name": ("a = 3%  assert = a == 3%", "RLC0207"),
    "a block": ("a { b = 3 }", "RLC0207"),
    "a text": ('a = "three"', "RLC0205"),
    "no source": ("a = reported(3%)", "RLC0205"),
    "zero": ("a = 1 / 0", "RLC0401"),
    "too many digits": ("a = " + " * ".join(["1.23456789e-300"] * 9), "RLC0012"),
    "not more": ("a = 3%  b = 2%  assert c = b > a", "RLC0801"),
}


@pytest.mark.parametrize(("text", "code"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_claims(text: str, code: str) -> None:
    _, report, _ = claims(text)
    assert [d.code for d in report] == [code]


def test_claims_of_a_spec_are_checked_with_it() -> None:
    end = SAMPLE.rindex("}")
    text = SAMPLE[:end] + "  claims { a = 57.3%  b = 64.6%  assert drop = a - b == -6.5pp }\n}\n"
    found = check(Source("test.rlspec", text))
    assert [d.code for d in found.errors] == ["RLC0801"]
    assert found.plan is None
    right = check(Source("test.rlspec", text.replace("-6.5pp", "-7.3pp")))
    assert right.plan is not None
    assert right.plan.digest == (check(Source("test.rlspec", SAMPLE)).plan or right.plan).digest
    assert list(right.claims.numbers) == ["a", "b"]


@given(st.integers(0, 999), st.integers(0, 999), st.integers(-999, 999))
def test_an_assertion_holds_exactly_when_it_is_true(a: int, b: int, c: int) -> None:
    sign = "-" if c < 0 else ""
    text = f"a = {a / 10}%  b = {b / 10}%  assert d = a - b == {sign}{abs(c) / 10}pp"
    found, report, _ = claims(text)
    assert found.assertions[0].holds is (a - b == c)
    assert bool(report) is (a - b != c)
