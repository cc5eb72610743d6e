"""The scorer role: what is credited, in which step, with which tables, and by whose formulas."""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
import pytest

from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.graph.scorer_role import ScorerRole
from rlspec.runtime.learning.loss import Denominators
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.registry import runnable

TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _uncompiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels run as the Python that they are: compiling takes longer than the tests."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    monkeypatch.setenv("RLSPEC_CACHE", str(tmp_path))


def plan_of(name: str, *changes: tuple[str, str]) -> Plan:
    text = (TESTS / f"{name}.rlspec").read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    found = check(Source(name, text))
    assert found.plan is not None, found.errors
    return found.plan


def talk(group: int, outcome: int, sizes: list[int], stage: str = "train", **measures: list[object]) -> Trajectory:
    """A trajectory of turns with so many agent tokens each, and what was measured of it."""
    ledger = Ledger()
    ledger.append("user", [1, 2])
    for size in sizes:
        ledger.append("agent", [7] * size, [-0.5] * size)
        ledger.append("tool", [3])
    found: dict[str, object] = {"desk.verified": outcome, "turns.score": [0] * len(sizes)}
    found |= {name.replace("_", ".", 1): value for name, value in measures.items()}
    return Trajectory(f"{stage}/0/{group}/0", "desk", "t", group, ledger, [], found)


def test_schedules_follow_the_step_of_the_stage() -> None:
    role = ScorerRole(plan_of("recovery"), 0)
    for step, fmt, corr in ((0, 3, 2), (20, 2.5, 2.5), (40, 2, 3), (59, 2, 3)):
        scored = role.score([[talk(0, 1, [1]), talk(0, 0, [1, 1])]], step)
        assert [s["R"] for s in scored.scores] == pytest.approx([(fmt + corr + 1) / 3, (fmt + 1 / 2) / 3])


def test_recovery_groups_are_scored_by_their_own_formulas_and_apart() -> None:
    own = ("  credit", "  reward R : real@traj on fission = 7 * outcome\n  credit")
    role = ScorerRole(plan_of("recovery", own), 0)
    usual = [talk(0, 1, [1]), talk(0, 0, [1])]
    again = [talk(1, 1, [1], "fission"), talk(1, 1, [1], "fission"), talk(1, 0, [1], "fission")]
    scored = role.score([[*usual, *again]], 0)
    assert [s["R"] for s in scored.scores] == pytest.approx([2, 4 / 3, 7, 7, 0])
    alone = role.score([again], 0)
    assert [s["A"] for s in scored.scores[2:]] == [s["A"] for s in alone.scores]
    assert [row.group for row in scored.rows] == [0, 0, 1, 1, 1]


def test_a_table_is_bound_once_it_is_known_and_the_newest_counts() -> None:
    role = ScorerRole(plan_of("calibrated"), 0)
    talks = [talk(0, 1, [1, 1], tiers_tier=["gold", "err"]), talk(0, 0, [1], tiers_tier=["msg"])]
    with pytest.raises(Refusal, match=r"calibrate\.weight` is not known yet"):
        role.score([talks])
    role.bind({"calibrate.weight": [1, 0.5, 0, -0.1, 0, -0.1, -0.2]})
    assert [s["r"] for s in role.score([talks]).scores] == [[1, -0.1], [0]]
    role.bind({"calibrate.weight": [0.5, 0.5, 0, -0.1, 0.25, -0.1, -0.2]})
    assert [s["r"] for s in role.score([talks]).scores] == [[0.5, -0.1], [0.25]]


TOP = "agent_tokens(A, where = top(policy.entropy over (group, traj, turn, token), share = 40%))"


def test_tokens_that_are_not_credited_are_not_learned_from_and_not_counted() -> None:
    role = ScorerRole(plan_of("recovery", ("agent_tokens(A)", TOP)), 0)
    talks = [
        talk(0, 1, [2, 1], policy_entropy=[0.9, 0.1, 0.8]),
        talk(0, 0, [2], policy_entropy=[0.2, 0.3]),
    ]
    scored = role.score([talks])
    (row,) = scored.rows  # the other one has no token left
    assert row.mask_T.tolist() == [False, False, True, False, False, True, False]
    advantage = scored.scores[0]["A"]
    assert advantage > 0
    assert row.advantages_T[row.mask_T] == pytest.approx([advantage] * 2)
    assert not np.any(row.advantages_T[~row.mask_T])
    assert Denominators.of(scored.rows) == Denominators(tokens=2, trajectories=1)
    assert scored.metrics["credited"] == pytest.approx(2 / 5)
    assert scored.scores[0]["credit.where"] == [1, 0, 1]


def test_groups_without_a_difference_may_be_left_out_altogether() -> None:
    mixed = "agent_tokens(A, where = std.mixed(outcome))"
    role = ScorerRole(plan_of("recovery", ("agent_tokens(A)", mixed)), 0)
    talks = [talk(g, outcome, [1, 2]) for g, outcomes in enumerate(([1, 1], [1, 0], [0, 0])) for outcome in outcomes]
    scored = role.score([talks])
    assert [row.group for row in scored.rows] == [1, 1]
    assert scored.metrics["credited"] == pytest.approx(1 / 3)
    dead = role.score([[talk(0, 1, [1]), talk(0, 1, [1])]])
    assert dead.rows == []


def test_every_token_counts_without_a_condition() -> None:
    scored = ScorerRole(plan_of("recovery"), 0).score([[talk(0, 1, [2, 1]), talk(0, 0, [2])]])
    assert [row.learned for row in scored.rows] == [3, 2]
    assert "credited" not in scored.metrics


def test_a_stage_without_a_runtime_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("recovery")
    monkeypatch.setattr(type(plan.stages[-1].component()), "RUNS", False)
    with pytest.raises(Refusal, match="stage `resample` can be checked and compiled"):
        runnable(plan)
