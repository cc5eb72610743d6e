"""What was compiled before is what would be compiled now."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.dsl import compiled, tables, tokens

NAMES = ["_FOREIGN_SIGN", "_FOREIGN_TEXT", "_DASHES", "_WORD", "_ESCAPE", "_NUMBER"]
TEXTS = st.text("abzAZ019_.-+/*'\"\\{}u eE%«»“”`&|!≤ \n", max_size=40)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own, which keeps nothing of this one."""
    monkeypatch.setattr(compiled, "KEPT", {})
    monkeypatch.setattr(compiled, "MADE", {})


def again() -> None:
    """The next run."""
    compiled.KEPT, compiled.MADE = compiled.MADE, {}


@pytest.mark.usefixtures("fresh")
def test_code_is_the_same_the_next_time() -> None:
    first = compiled.code("a + 1", "<test>", "eval")
    again()
    second = compiled.code("a + 1", "<test>", "eval")
    assert first == second
    assert compiled.MADE == {}
    assert eval(second, {"a": 2}) == 3
    assert compiled.code("a + 2", "<test>", "eval") != first


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_pattern_is_the_pattern(name: str) -> None:
    late = getattr(tokens, name)
    plain = re.compile(late.pattern, late.flags)
    made = compiled._compiled(late.pattern, late.flags)
    again()
    kept = compiled._compiled(late.pattern, late.flags)
    assert compiled.MADE == {}
    assert made == kept == plain
    assert kept.groupindex == plain.groupindex

    @given(TEXTS)
    def alike(text: str) -> None:
        ours, theirs = kept.search(text), plain.search(text)
        assert (ours and (ours.span(), ours.groups())) == (theirs and (theirs.span(), theirs.groups()))

    alike()


@pytest.mark.usefixtures("fresh")
def test_a_pattern_is_compiled_when_it_is_needed() -> None:
    late = compiled.pattern(r"(?P<word>a+)b")
    assert compiled.MADE == {}
    found = late.match("aab")
    assert found is not None
    assert found["word"] == "aa"
    assert len(compiled.MADE) == 1
    assert late.sub("x", "aab") == "x"


def test_where_python_does_it_otherwise_inside_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise TypeError("another number of parts")

    monkeypatch.setattr(compiled, "kept", refuse)
    assert compiled._compiled("a|b", 0).match("b")


@pytest.mark.usefixtures("fresh")
def test_the_tables_are_the_same_the_next_time() -> None:
    first = tables._read_shipped()
    again()
    assert tables._read_shipped() == first
    assert compiled.MADE == {}
