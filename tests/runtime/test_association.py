"""The evidence table: correlations against numpy, no evidence told as such, signs of what is realised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.runtime.association import correlation, mismatches, realised, table, weights

KINDS = ("gold", "read", "msg", "dup")


def test_a_table_by_hand():
    labels = [["msg", "gold", "gold"], ["msg", "read"], ["msg", "gold", "read"], ["msg"]]
    rows = {row.choice: row for row in table(labels, [1, 0, 1, 0], KINDS)}
    gold = rows["gold"]
    assert (gold.share, gold.turns, gold.with_it, gold.without, gold.rho) == (0.5, 3, 1.0, 0.0, pytest.approx(1.0))
    assert rows["read"].rho == pytest.approx(0.0)
    assert rows["read"].evidence
    for name, share in (("msg", 1.0), ("dup", 0.0)):
        assert (rows[name].share, rows[name].rho, rows[name].evidence) == (share, 0.0, False)
    assert rows["msg"].without is None
    assert rows["dup"].with_it is None


def test_constant_outcomes_are_no_evidence():
    assert not any(row.evidence for row in table([["gold"], ["read"]], [1, 1], KINDS))
    assert table([], [], ("gold",))[0].share == 0.0


def test_a_weight_needs_a_correlation_beyond_the_threshold():
    rows = table([["gold"], ["gold"], ["read"], ["gold", "read"]], [1, 1, 0, 0], KINDS)
    found = weights(rows, 0.1, 2.0)
    assert found["gold"] == pytest.approx(2 * 0.57735, abs=1e-4)
    assert found["read"] == pytest.approx(-2.0)
    assert found["msg"] == 0.0
    assert weights(rows, 0.99, 2.0)["gold"] == 0.0


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=20))
def test_correlation_is_numpys(pairs):
    x, y = [p[0] for p in pairs], [p[1] for p in pairs]
    found = correlation(x, y)
    if len(pairs) < 2 or min(x) == max(x) or min(y) == max(y):
        assert found is None
        return
    if np.std(x) > 1e-3 and np.std(y) > 1e-3:
        assert found == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-6)
    assert found is None or -1 <= found <= 1


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_two_yes_or_no_columns_give_the_phi_coefficient(pairs):
    n = {(a, b): sum(p == (a, b) for p in pairs) for a in (False, True) for b in (False, True)}
    product = np.prod([float(n[a, True] + n[a, False]) for a in (False, True)]) * np.prod(
        [float(n[True, b] + n[False, b]) for b in (False, True)]
    )
    (row,) = table([["gold"] if a else [] for a, _ in pairs], [float(b) for _, b in pairs], ("gold",))
    assert row.evidence == (product > 0)
    if product > 0:
        phi = (n[True, True] * n[False, False] - n[True, False] * n[False, True]) / np.sqrt(product)
        assert row.rho == pytest.approx(phi, abs=1e-12)


def test_signs_of_what_is_realised():
    means = realised([["gold", "read"], ["gold", "dup"]], [[1.0, 0.2], [-3.0, 0.0]], KINDS)
    assert means == {"gold": -1.0, "read": 0.2, "dup": 0.0, "msg": None}
    assert mismatches({"gold": 1.0, "read": 0.3, "dup": -0.2, "msg": -0.1}, means) == ["gold", "dup"]
    assert mismatches({"gold": 0.0, "read": -0.3}, means) == ["read"]
