"""The grammar is LALR(1) without conflicts, and everything that hangs on its tables is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.dsl.expectations import EXPECTED
from rlspec.dsl.reductions import REDUCTIONS
from rlspec.dsl.tables import END, STARTS, Tables, build


@pytest.fixture(scope="module")
def tables() -> Tables:
    return build()


def test_no_conflict_and_no_collision_under_strict(tables: Tables) -> None:
    pytest.importorskip("interegular", reason="lark's strict mode needs it")
    assert build(strict=True) == tables


def test_the_tables_do_not_depend_on_the_order_of_sets(tables: Tables) -> None:
    assert build() == tables


def test_each_named_production_has_one_reduction_and_each_reduction_a_production(tables: Tables) -> None:
    assert {name for _, _, name in tables.rules} - {""} == set(REDUCTIONS)


def _error_states(tables: Tables) -> set[int]:
    """Where the automaton can be when a token comes: after a shift, at a start, or where recovery left it."""
    terminals = {END, *tables.patterns, *tables.signs.values(), *tables.keywords.values()}
    terminals |= set(tables.contextual.values())
    shifted = {to for row in tables.actions for kind, to in row.items() if kind in terminals and to >= 0}
    pushed = {to for row in tables.gotos for name, to in row.items() if name in ("items", "head")}
    return shifted | pushed | set(tables.starts.values())


def test_every_error_state_has_a_message_of_its_own_and_no_message_is_left_over(tables: Tables) -> None:
    keys = set()
    for state in _error_states(tables):
        kernel = tables.kernels[state]
        start = next((name for name, at in tables.starts.items() if at == state), "")
        keys.add(kernel[0] if kernel else "" if start == "file" else start)
    assert keys == set(EXPECTED)


def test_every_phrase_can_be_filled_in() -> None:
    for phrase in EXPECTED.values():
        assert phrase.replace("{end}", "").format(before="x").strip()


def test_kinds_are_not_words_of_the_grammar(tables: Tables) -> None:
    reserved = "if then else or and not in over where align extends true false"
    assert set(tables.keywords) == set(reserved.split())
    assert set(tables.contextual) == {"on"}


def test_there_is_a_start_for_files_expressions_and_types(tables: Tables) -> None:
    assert set(tables.starts) == set(STARTS) == {"file", "lone_expression", "lone_type"}


def test_larks_own_parser_takes_the_sketches_too(request: pytest.FixtureRequest) -> None:
    from lark import Lark

    from rlspec.dsl.tables import GRAMMAR

    lark = Lark(Path(GRAMMAR).read_text("utf-8"), parser="lalr", lexer="contextual", start=list(STARTS))
    text = request.path.with_name("sketches.rlspec").read_text("utf-8")
    assert lark.parse(text, start="file")
