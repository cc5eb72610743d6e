"""Printing and parsing are inverse, but for spans."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.dsl import printer
from rlspec.dsl.diagnostics import Source
from rlspec.dsl.parser import parse, parse_expression, parse_type
from rlspec.dsl.printer import text_of
from rlspec.dsl.tables import load
from rlspec.dsl.tokens import number_parts
from rlspec.dsl.tree import (
    Argument,
    Binary,
    Boolean,
    Call,
    Conditional,
    Expression,
    Index,
    ListOf,
    Member,
    Name,
    Number,
    SetOf,
    Span,
    Text,
    TypeExpr,
    Unary,
)

NOWHERE = Span(0, 0)


def bare(node: Any) -> Any:
    """A tree without its spans."""
    if isinstance(node, tuple):
        return tuple(bare(part) for part in node)
    if not hasattr(node, "span"):
        return node
    parts = {f.name: bare(getattr(node, f.name)) for f in fields(node)}
    return replace(node, **(parts | {"span": NOWHERE}))


def number(text: str) -> Number:
    value, integral, unit = number_parts(text)
    return Number(value, unit, integral, text, NOWHERE)


words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(lambda w: w not in load().keywords)
names = words.map(lambda word: Name(word, NOWHERE))
numbers = st.one_of(
    st.integers(0, 10**9).map(str),
    st.floats(0, 1e9, allow_subnormal=False).map(lambda x: f"{x:.3f}"),
    st.sampled_from(["16agent_turns", "32_768tokens", "57.4%", "6.1pp", "1e-3", "4E+2s"]),
).map(number)
texts = st.text(st.characters(codec="utf-8")).map(lambda value: Text(value, NOWHERE))
leaves = st.one_of(names, numbers, texts, st.booleans().map(lambda value: Boolean(value, NOWHERE)))
OPERATORS = ("or", "and", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "^")


def arguments(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Argument]:
    named = st.builds(Argument, inner, names, st.just(()), st.none(), st.none(), st.just(NOWHERE))
    reduced = st.builds(
        Argument,
        inner,
        st.none(),
        st.lists(names, min_size=1, max_size=3).map(tuple),
        st.none() | names,
        st.none() | inner,
        st.just(NOWHERE),
    )
    plain = inner.map(lambda value: Argument(value, None, (), None, None, NOWHERE))
    return plain | named | reduced


def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    here = st.just(NOWHERE)
    several = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner, here),
        st.builds(Unary, st.sampled_from(["-", "not"]), inner, here),
        st.builds(Conditional, inner, inner, inner, here),
        st.builds(Member, inner, names, here),
        st.builds(Index, inner, inner, here),
        st.builds(Call, inner, st.lists(arguments(inner), max_size=3).map(tuple), here),
        st.builds(ListOf, several, here),
        st.builds(SetOf, several, here),
    )


expressions = st.recursive(leaves, larger, max_leaves=20)


@settings(max_examples=150, deadline=None)
@given(expressions)
def test_a_printed_expression_parses_to_itself(tree: Expression) -> None:
    text = text_of(tree)
    found, diagnostics = parse_expression(Source("test", text))
    assert not diagnostics
    assert bare(found) == tree
    assert text_of(found) == text  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(
    names | st.builds(Member, names, names, st.just(NOWHERE)) | st.lists(names).map(lambda n: SetOf(tuple(n), NOWHERE)),
    st.none() | names,
    st.none() | st.lists(expressions, max_size=2).map(lambda e: ListOf(tuple(e), NOWHERE)),
)
def test_a_printed_type_parses_to_itself(base: Expression, level: Name | None, bounds: ListOf | None) -> None:
    tree = TypeExpr(base, level, bounds, NOWHERE)
    found, diagnostics = parse_type(Source("test", text_of(tree)))
    assert not diagnostics
    assert bare(found) == tree


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))+(b*c)", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("-(a^b)", "-a ^ b"),
        ("(-a)^b", "(-a) ^ b"),
        ("f( x over (turn) where(a) )", "f(x over turn where a)"),
        ("(if a then b else c)+1", "(if a then b else c) + 1"),
        ("[1,2,]", "[1, 2]"),
    ],
)
def test_parentheses_stand_only_where_they_are_needed(text: str, canonical: str) -> None:
    found, _ = parse_expression(Source("test", text))
    assert found is not None
    assert text_of(found) == canonical


def test_a_head_is_printed_as_it_is_read() -> None:
    head = 'def f "x"(a : real@turn, b : real in [0, 1] = 0.9) : real@turn extends g.h on retail'
    (item,) = parse(Source("test", head + " = 1"))[0].items
    assert text_of(item.head) == head


def test_texts_are_kept_by_the_node_and_never_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printer, "MOST_TEXTS", 3)
    for number in range(10):
        source = f"a{number} + f(b{number} * {number})"
        node, problems = parse_expression(Source("x", source))
        assert node is not None
        assert not problems
        assert [text_of(node), text_of(node)] == [source, source]
        assert len(printer._texts) <= 3
