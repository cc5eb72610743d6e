"""Comparing a submitted answer with the reference of its configuration."""

from __future__ import annotations

import json
import math
from typing import Any

from rlspec.runtime.worlds.codegym.problems import Comparator


def same(comparator: Comparator, answer: Any, reference: Any) -> bool:
    """Whether the answer counts. Both are JSON values; whatever the agent submits, nothing is raised."""
    match comparator.kind:
        case "exact":
            return _equal(answer, reference, 0.0)
        case "close":
            return _equal(answer, reference, comparator.tolerance)
        case "text":
            return isinstance(answer, str) and answer.strip().casefold() == str(reference).strip().casefold()
        case "unordered":
            return _multiset(answer) is not None and _multiset(answer) == _multiset(reference)
        case _:
            rows = [
                r for value in (answer, reference) if isinstance(value, list) for r in [list(map(_multiset, value))]
            ]
            if len(rows) != 2 or any(row is None for side in rows for row in side):
                return False
            return sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if a == b or not tolerance:
            return bool(a == b)
        try:
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        except OverflowError:
            return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k], tolerance) for k in a)
    return type(a) is type(b) and a == b


def _multiset(value: Any) -> list[str] | None:
    """The members of a list as sorted text, or None of what is no list. A float of whole value is its whole number."""
    if not isinstance(value, list):
        return None
    return sorted(json.dumps(_plain(v), sort_keys=True) for v in value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value
