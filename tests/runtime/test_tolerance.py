"""When lost trajectories end a run."""

from __future__ import annotations

import pytest

from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.tolerance import tolerate

SPEC = """rlspec = 1
experiment lost {
  policy agent : tiny { }
  env desk : shop { RULE }
  user customer : agenda { serves = [desk] }
  reward R : real@traj = env.verified
  advantage A : real@traj = std.grpo(R)
  credit = agent_tokens(A)
  stage train : grpo { }
}
"""


def plan_of(rule: str = "") -> Plan:
    plan = check(Source("lost.rlspec", SPEC.replace("RULE", rule))).plan
    assert plan is not None
    return plan


def had(lost: int, of: int) -> list[Trajectory]:
    return [
        Trajectory(str(n), "desk", "t", 0, Ledger(), [], failure="env: gone" if n < lost else None) for n in range(of)
    ]


@pytest.mark.parametrize(
    ("rule", "lost", "ends"),
    [
        ("", 0, False), ("", 7, False), ("", 8, True),
        ("on_failure = [drop, abort_above(0.25)]", 2, False), ("on_failure = [drop, abort_above(0.25)]", 3, True),
        ("on_failure = [abort_above(0)]", 1, True), ("on_failure = [abort_above(0)]", 0, False),
    ],
)  # fmt: skip
def test_all_or_more_than_declared(rule: str, lost: int, ends: bool) -> None:
    if not ends:
        tolerate(plan_of(rule), had(lost, 8), "step 3")
        return
    with pytest.raises(Refusal, match=f"RLC0708: {lost} of 8 trajectories of step 3 failed: env: gone"):
        tolerate(plan_of(rule), had(lost, 8), "step 3")


def test_nothing_had_is_nothing_lost() -> None:
    tolerate(plan_of(), [], "step 0")
