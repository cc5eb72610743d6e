"""Deep equality of arguments: an equivalence for every choice of rules, and each rule doing what it says, no more."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.tiers import EXACT, DeepEqual
from rlspec.runtime.worlds.equality import canonical, shared

DEFAULT = DeepEqual()

EMPTIES = ("none", "empty_text", "empty_list", "empty_object")
rules = st.builds(
    DeepEqual,
    numeric_strings=st.booleans(),
    int_float=st.booleans(),
    missing=st.lists(st.sampled_from(EMPTIES), unique=True).map(tuple),
    object_lists=st.sampled_from(["any_order", "in_order"]),
    scalar_lists=st.sampled_from(["any_order", "in_order"]),
)
# Few different leaves, so that equal values are drawn often; NaN and infinities are what a policy can write.
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), 1e300, 2**70]),
    st.sampled_from(["", "1", "1.0", "-0", "007", "1e3", "true", "None", "nan", "a", "1" * 5000]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)


@given(values, rules)
def test_every_value_equals_itself(value, chosen):
    assert canonical(value, chosen) == canonical(value, chosen)
    hash(canonical(value, chosen))


@given(values, values, rules)
def test_equality_is_symmetric_and_forms_can_be_ordered(one, other, chosen):
    a, b = canonical(one, chosen), canonical(other, chosen)
    assert (a == b) is (b == a)
    assert (a < b) + (b < a) + (a == b) == 1


@given(values, values)
def test_what_is_exactly_equal_is_equal_under_every_rule(one, other):
    if canonical(one, EXACT) == canonical(other, EXACT):
        assert canonical(one, DEFAULT) == canonical(other, DEFAULT)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), leaves, min_size=1), max_size=4), st.randoms())
def test_lists_of_objects_have_no_order_unless_it_is_asked_for(entries, chance: random.Random):
    shuffled = chance.sample(entries, len(entries))
    assert canonical(entries, DEFAULT) == canonical(shuffled, DEFAULT)
    in_order = DeepEqual(object_lists="in_order")
    forms = [[canonical(entry, in_order) for entry in some] for some in (entries, shuffled)]
    assert (canonical(entries, in_order) == canonical(shuffled, in_order)) == (forms[0] == forms[1])


@given(values, st.sampled_from(["a", "b", "z"]))
def test_a_field_that_is_null_is_a_field_that_is_missing(value, name):
    if isinstance(value, dict) and name not in value:
        assert canonical(value, DEFAULT) == canonical(value | {name: None}, DEFAULT)
        kept = DeepEqual(missing=())
        assert canonical(value, kept) != canonical(value | {name: None}, kept)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("3", 3, True),
        ("3.0", 3, True),
        (3, 3.0, True),
        (-0.0, 0, True),
        (True, 1, False),
        (False, 0, False),
        (True, "true", False),
        ("007", 7, False),
        ("1e3", 1000, False),
        ("+1", 1, False),
        (" 1", 1, False),
        ("A", "a", False),
        (None, "", False),  # a value of its own is not a field: only fields can be missing
        ({"a": None}, {}, True),
        ({"a": ""}, {}, True),
        ({"a": []}, {}, True),
        ({"a": {"b": None}}, {}, True),
        ({"a": 0}, {}, False),
        ({"a": False}, {}, False),
        ([1, None], [1], False),
        ([1, 2], [2, 1], False),
        ([{"n": 1}, {"n": 2}], [{"n": "2"}, {"n": "1"}], True),
        ([{"n": 1}, {"n": 1}], [{"n": 1}], False),
        ([{"n": 1}, 2], [2, {"n": 1}], False),
        ({"p": [{"f": [{"x": 1}, {"x": 2}]}]}, {"p": [{"f": [{"x": 2}, {"x": 1}]}]}, True),
        (float("nan"), float("nan"), True),
        ("9" * 400, "9" * 400, True),
        (2**60, 2**60 + 1, False),
    ],
)
def test_the_rules_one_by_one(one, other, equal):
    assert (canonical(one, DEFAULT) == canonical(other, DEFAULT)) is equal


def test_rules_can_be_turned_off():
    assert canonical("3", DeepEqual(numeric_strings=False)) != canonical(3, DeepEqual(numeric_strings=False))
    assert canonical(3.0, DeepEqual(int_float=False)) != canonical(3, DeepEqual(int_float=False))
    loose = DeepEqual(scalar_lists="any_order")
    assert canonical([2, "a", True, 1], loose) == canonical([True, "1", 2.0, "a"], loose)
    assert canonical([[1], [2]], loose) != canonical([[2], [1]], loose)
    assert canonical({"b": 1, "a": 2}, EXACT) == canonical({"a": 2, "b": 1}, EXACT)


def test_shared_arguments_are_counted_against_the_gold_call():
    gold = {"id": 7, "flights": [{"n": 1}, {"n": 2}], "cabin": "economy", "pay": "c1"}
    call = {"id": "7", "flights": [{"n": 2}, {"n": 1}], "cabin": "business", "extra": 1}
    assert shared(canonical(call, DEFAULT), canonical(gold, DEFAULT)) == 0.5
    assert shared(canonical(gold | {"extra": 1}, DEFAULT), canonical(gold, DEFAULT)) == 1.0
    assert shared(canonical(gold, DEFAULT), canonical({}, DEFAULT)) == 0.0
    assert shared(canonical("text", DEFAULT), canonical(gold, DEFAULT)) == 0.0
