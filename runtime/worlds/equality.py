"""When two calls are the same call: their arguments brought to a canonical form, which can be compared and hashed.

    canonical({"id": "3", "note": None}, DeepEqual()) == canonical({"id": 3}, DeepEqual())
    canonical({"id": 3}, EXACT) != canonical({"id": 3.0}, EXACT)

Equality of canonical forms is reflexive, symmetric and transitive by construction, which a chain of special cases
inside a comparison is not. Forms are nested tuples whose first entry tells their kind, so any two can be ordered.
"""

from __future__ import annotations

import math
import re
from typing import Any

from rlspec.compiler.catalog.tiers import DeepEqual

Form = tuple[Any, ...]

_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_LONGEST = 300  # digits of a number; a float has no more, and longer ones are no quantities
_EMPTY = {"none": ("null",), "empty_text": ("text", ""), "empty_list": ("list",), "empty_object": ("object",)}


def canonical(value: Any, rules: DeepEqual) -> Form:
    """The form of a JSON value under the rules; two values are equal when their forms are.

    Raises:
        TypeError: the value is none that JSON has.
    """
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return _number(value, rules)
    if isinstance(value, str):
        if rules.numeric_strings and len(value) <= _LONGEST and _PLAIN_NUMBER.fullmatch(value):
            return _number(_parsed(value), rules)
        return ("text", value)
    if isinstance(value, dict):
        empty = {_EMPTY[name] for name in rules.missing}
        fields = [(str(name), canonical(inner, rules)) for name, inner in value.items()]
        return ("object", *sorted(entry for entry in fields if entry[1] not in empty))
    if isinstance(value, list | tuple):
        entries = [canonical(inner, rules) for inner in value]
        kinds = {form[0] for form in entries}
        order = rules.object_lists if kinds == {"object"} else rules.scalar_lists
        if order == "any_order" and (kinds == {"object"} or not kinds & {"object", "list"}):
            entries.sort()
        return ("list", *entries)
    raise TypeError(f"{value!r} is no JSON value")


def _number(value: int | float, rules: DeepEqual) -> Form:
    if isinstance(value, int):
        return ("number", value) if rules.int_float else ("int", value)
    if math.isnan(value):
        return ("nan",)  # equal to itself, as a call with it is
    if rules.int_float:
        return ("number", int(value) if value.is_integer() else value)
    return ("float", value + 0.0)  # -0.0 is 0.0


def _parsed(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def shared(call: Form, gold: Form) -> float:
    """|args & args*| / |args*|: the share of the gold call's fields that the call has with equal values, in [0, 1]; 0
    when the gold call has none, or one of the two is no object."""
    if call[0] != "object" or gold[0] != "object" or len(gold) == 1:
        return 0.0
    return len(set(call[1:]) & set(gold[1:])) / (len(gold) - 1)
