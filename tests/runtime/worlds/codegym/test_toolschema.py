"""The bridges between functions, signatures with docstrings and JSON schemas lose nothing."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.runtime.worlds.codegym.toolschema import (
    BadTool,
    Parameter,
    Tool,
    fits,
    of_function,
    schema_of,
    schema_type,
    signature_of,
    tool_of_schema,
    tool_of_signature,
    type_schema,
)

names = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda s: not __import__("keyword").iskeyword(s))
words = st.lists(st.from_regex(r"[A-Za-z0-9'\"\\,]{1,8}", fullmatch=True), min_size=1, max_size=6).map(" ".join)
types = st.recursive(
    st.sampled_from(["int", "float", "str", "bool", "list", "dict"]),
    lambda inner: (
        inner.map(lambda t: f"list[{t}]")
        | inner.map(lambda t: f"dict[str, {t}]")
        | st.lists(inner, min_size=1, max_size=3).map(lambda ts: f"tuple[{', '.join(ts)}]")
        | inner.map(lambda t: t if " | " in t else f"{t} | None")
    ),
    max_leaves=4,
)
tools = st.builds(
    Tool,
    names,
    words,
    st.lists(st.builds(Parameter, names, types, words | st.just("")), max_size=3, unique_by=lambda p: p.name).map(
        tuple
    ),
    types,
    words | st.just(""),
)


@settings(max_examples=40, deadline=None)
@given(tools)
def test_a_tool_comes_back_from_its_schema_and_from_its_signature(tool: Tool) -> None:
    assert tool_of_schema(schema_of(tool)) == tool
    assert tool_of_signature(signature_of(tool)) == tool


@settings(max_examples=40, deadline=None)
@given(types)
def test_types_come_back_from_their_schemas(annotation: str) -> None:
    assert schema_type(type_schema(annotation)) == annotation


def test_examples_are_not_told() -> None:
    source = '''def f(a: int) -> int:
    """Do it.

    Args:
        a: a number that
            goes on here

    Returns:
        Another one.

    Example:
        >>> f(1)
        42
    """
    return a
'''
    tool = of_function(ast.parse(source).body[0])  # type: ignore[arg-type]
    assert tool == Tool("f", "Do it.", (Parameter("a", "int", "a number that goes on here"),), "int", "Another one.")
    assert "42" not in signature_of(tool)


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: int) -> int: return a",
        "def f(a) -> int:\n    'doc'",
        "def f(a: int):\n    'doc'",
        "def f(a: set[int]) -> int:\n    'doc'",
        "def f(a: int = 1) -> int:\n    'doc'",
        "def f(*a: int) -> int:\n    'doc'",
    ],
)
def test_what_cannot_become_a_tool_says_why(source: str) -> None:
    with pytest.raises(BadTool):
        of_function(ast.parse(source).body[0])  # type: ignore[arg-type]


def test_values_are_held_against_types() -> None:
    assert fits("int", 3)
    assert not fits("int", True)
    assert not fits("int", 3.0)
    assert fits("float", 3)
    assert fits("list[tuple[int, str]] | None", [[1, "a"]])
    assert not fits("list[tuple[int, str]] | None", [[1, "a", 2]])
