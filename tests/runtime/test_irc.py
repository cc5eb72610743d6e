"""Iterative reward calibration on episodes written by hand: evidence, signs, what a mismatch does, when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.check import check
from rlspec.compiler.plan import Plan
from rlspec.dsl.parser import read
from rlspec.runtime.calibration import result_of
from rlspec.runtime.irc import search
from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.record.trajectory import Trajectory
from rlspec.runtime.refusal import Refusal

SPEC = """rlspec = 1
experiment calibrated {
  policy agent : tiny { width = 32  layers = 2 }
  env desk : shop { }
  user customer : agenda { serves = [desk] }
  judge tiers : tiers { on = [desk] }
  signal outcome : int@traj in {0, 1} = env.verified
  signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
  reward r : real@turn = calibrate.weight[tier]
  advantage A : real@turn = std.gtpo(r, OUTCOME, 0.9, 0.3)
  credit = agent_tokens(A)
  stage coldstart : sft { }
  stage calibrate : irc { signal = tier  outcome = outcome  CONFIG }
  stage train : grpo { }
}
"""


@pytest.fixture
def plan_of(tmp_path: Path):
    def made(config: str = "", outcome: str = "outcome") -> Plan:
        path = tmp_path / "spec.rlspec"
        path.write_text(SPEC.replace("CONFIG", config).replace("OUTCOME", outcome))
        found = check(read(path))
        assert found.plan is not None, found.errors
        return found.plan

    return made


def episode(group: int, verified: int, *tiers: str) -> Trajectory:
    ledger = Ledger()
    for _ in tiers:
        ledger.append("agent", [1], [-0.5])
    measures = {"desk.verified": verified, "tiers.tier": list(tiers), "tiers.overlap": [0.0] * len(tiers)}
    return Trajectory(f"calibrate/0/{group}/0", "desk", "t", group, ledger, [], measures)


CLEAN = [
    episode(0, 1, "msg", "gold"),
    episode(0, 0, "msg", "err"),
    episode(0, 1, "msg", "read", "gold"),
    episode(0, 0, "msg", "read"),
]
# `read` goes with success, but most of its turns are in the one failure that reads on and on.
SPAM = [*(episode(0, 1, "read", "gold") for _ in range(3)), episode(0, 0, *["read"] * 12)] + [
    episode(0, 0, "msg") for _ in range(4)
]


def test_weights_are_correlations_and_no_evidence_is_none(plan_of):
    found = search(plan_of("threshold = 0.1  scale = 2"), "calibrate", lambda _: [(0, list(CLEAN))], {})
    assert len(found.rounds) == 1
    assert found.ended.startswith("no sign differs")
    assert found.weights == {
        "gold": pytest.approx(2.0),
        "soft": 0.0,
        "read": 0.0,
        "state": 0.0,
        "msg": 0.0,
        "err": pytest.approx(2 * -0.57735, abs=1e-4),
        "dup": 0.0,
    }
    evidence = {row.choice: row.evidence for row in found.rounds[0].rows}
    assert evidence == {"gold": True, "read": True, "err": True, "msg": False, "soft": False, "state": False,
                        "dup": False}  # fmt: skip
    assert found.rounds[0].realised["gold"] > 0 > found.rounds[0].realised["err"]


@pytest.mark.parametrize(("rule", "factor"), [("drop", 0.0), ("halve", 0.5)])
def test_a_weight_of_the_wrong_sign_is_cut(plan_of, rule: str, factor: float):
    found = search(
        plan_of(f"on_mismatch = {rule}  rounds = 2  scale = 0.1"), "calibrate", lambda _: [(0, list(SPAM))], {}
    )
    first, second = found.rounds
    assert first.mismatches == ["read"]
    assert first.weights["read"] > 0 > first.realised["read"]
    assert second.weights["read"] == pytest.approx(first.weights["read"] * factor)
    assert second.weights["gold"] == first.weights["gold"] == pytest.approx(0.1)
    assert found.weights == second.weights


def test_a_round_that_changes_nothing_is_the_last(plan_of):
    found = search(plan_of("on_mismatch = keep  rounds = 9  scale = 0.1"), "calibrate", lambda _: [(0, list(SPAM))], {})
    assert (len(found.rounds), found.ended) == (2, "a round changed nothing")


def test_new_episodes_may_change_the_evidence(plan_of):
    more = [episode(1, 0, "read") for _ in range(12)] + [episode(1, 1, "gold") for _ in range(4)]
    rounds = {0: [(0, list(SPAM))], 1: [(0, list(SPAM)), (1, more)]}
    found = search(plan_of("on_mismatch = keep  rounds = 2  scale = 0.1"), "calibrate", rounds.__getitem__, {})
    assert [round_.trajectories for round_ in found.rounds] == [8, 24]
    assert found.rounds[1].weights["read"] < 0


def test_it_goes_on_while_reward_and_outcome_disagree(plan_of):
    found = search(plan_of("agreement = 0.99  rounds = 9"), "calibrate", lambda _: [(0, list(CLEAN))], {})
    assert not found.rounds[0].mismatches
    assert 0 < found.rounds[0].agreement < 0.99
    assert found.ended == "a round changed nothing"


def test_no_success_is_no_evidence_at_all(plan_of):
    failures = [episode(0, 0, "msg"), episode(0, 0, "gold", "dup")]
    found = search(plan_of("rounds = 2"), "calibrate", lambda _: [(0, list(failures))], {})
    assert set(found.weights.values()) == {0.0}
    assert not any(row.evidence for row in found.rounds[0].rows)
    assert found.rounds[0].agreement is None


def test_the_outcome_must_reach_the_formulas(plan_of):
    with pytest.raises(Refusal, match="outcome"):
        search(plan_of(outcome="sum(r over turn)"), "calibrate", lambda _: [(0, list(CLEAN))], {})


def test_what_is_written_holds_the_table_and_how_it_came_about(plan_of):
    body = result_of(search(plan_of(), "calibrate", lambda _: [(0, list(CLEAN))], {}))
    assert list(body["results"]["weight"]) == ["gold", "soft", "read", "state", "msg", "err", "dup"]
    assert body["report"]["rounds"][0]["rows"][0]["rho"] == pytest.approx(1.0)


kinds = st.lists(st.sampled_from(["gold", "read", "msg", "err"]), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), kinds), min_size=2, max_size=8), st.sampled_from(["drop", "halve", "keep"])
)
def test_any_episodes_give_weights_within_the_declared_bounds(tmp_path_factory, drawn, rule):
    path = tmp_path_factory.mktemp("spec") / "spec.rlspec"
    path.write_text(SPEC.replace("CONFIG", f"scale = 0.5  on_mismatch = {rule}").replace("OUTCOME", "outcome"))
    plan = check(read(path)).plan
    episodes = [episode(0, verified, *own) for verified, own in drawn]
    found = search(plan, "calibrate", lambda _: [(0, episodes)], {})
    assert all(-0.5 <= value <= 0.5 for value in found.weights.values())
    assert len(found.rounds) <= 3
    if rule == "drop" and found.ended.startswith("no sign"):
        assert not found.rounds[-1].mismatches
