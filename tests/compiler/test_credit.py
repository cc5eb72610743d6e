"""Which tokens are credited, and what policy and stages measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import checked, codes, plan_of, replaced
from rlspec.cli.compile import overview
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side, graph_digest
from rlspec.compiler.matrix import summary
from rlspec.compiler.resolved import resolved_text
from rlspec.compiler.stored import read_plan

CALIBRATED = (Path(__file__).parents[1] / "calibrated.rlspec").read_text()
RECOVERY = (Path(__file__).parents[1] / "recovery.rlspec").read_text()


TOP = "credit = agent_tokens(A, where = top(policy.entropy over (group, traj, turn, token), share = 20%))"


def test_credit_may_be_restricted() -> None:
    plan = plan_of(replaced(RECOVERY, ("credit = agent_tokens(A)", TOP)))
    assert plan.credit.where == "credit.where"
    for entry in plan.sources:
        assert entry.program.steps[entry.program.outputs["credit.where"]].level == "token"
        assert "policy.entropy" in [s.measure for s in entry.signals]
    assert "credit to tokens where top(policy.entropy over (group, traj, turn, token), share = 0.2)" in overview(plan)


def test_a_condition_may_be_coarser_than_tokens_and_keeps_its_signals_in_use() -> None:
    dapo = "credit = agent_tokens(A, where = any(outcome == 1 over traj) and any(outcome == 0 over traj))"
    plan = plan_of(replaced(RECOVERY, ("credit = agent_tokens(A)", dapo)))
    program_ = plan.sources[0].program
    assert program_.steps[program_.outputs["credit.where"]].level == "group"
    turns = replaced(RECOVERY, ("credit = agent_tokens(A)", "credit = agent_tokens(A, where = verdict >= 0)"))
    assert "RLC0503" not in codes(turns)


@pytest.mark.parametrize(
    "credit",
    [
        "agent_tokens(A, where = outcome)",
        "agent_tokens(A, outcome == 1)",
        "agent_tokens()",
        "agent_tokens(A, when = 1)",
    ],
)
def test_a_wrong_credit_is_refused(credit: str) -> None:
    found = checked(replaced(RECOVERY, ("agent_tokens(A)", credit))).errors
    assert found[0].code in ("RLC0201", "RLC0205")


def test_what_is_restricted_is_an_edit_of_the_credit() -> None:
    plain, restricted = plan_of(RECOVERY), plan_of(replaced(RECOVERY, ("credit = agent_tokens(A)", TOP)))
    smaller = plan_of(replaced(RECOVERY, ("credit = agent_tokens(A)", TOP.replace("20%", "10%"))))
    for a, b in ((plain, restricted), (restricted, plain), (restricted, smaller)):
        found = difference(Side("a", a), Side("b", b))
        assert found.verified
        assert {e.role for e in found.edits} == {"credit"}
    assert len({p.digest for p in (plain, restricted, smaller)}) == 3
    (row,) = [r for r in summary([Side("a", plain), Side("b", smaller)]) if r.what == "credit"]
    where = "where top(policy.entropy over (group, traj, turn, token), share = 0.1)"
    assert row.cells == (("every token of the agent",), (where,))


@pytest.mark.parametrize("text", [CALIBRATED, RECOVERY, replaced(RECOVERY, ("credit = agent_tokens(A)", TOP))])
def test_the_resolved_spec_is_the_same_experiment(text: str, tmp_path) -> None:
    found = checked(text)
    assert found.plan is not None
    assert found.experiment is not None
    again = plan_of(resolved_text(found.experiment, found.plan))
    assert again.digest == found.plan.digest
    stored = tmp_path / "plan.json"
    stored.write_text(found.plan.model_dump_json())
    assert read_plan(stored).digest == found.plan.digest


def test_plans_without_the_new_constructs_keep_their_digests() -> None:
    plan = plan_of(replaced(RECOVERY, ("  stage fission : resample { within = train }\n", "")))
    body = plan.model_dump(mode="json")
    for part in (body["credit"], *body["sources"]):
        part.pop("where", None)
        part.pop("stage", None)
    assert type(plan).model_validate(body).digest == plan.digest
    assert graph_digest(type(plan).model_validate(body)) == graph_digest(plan)


def test_a_stage_that_measures_is_read_by_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grpo, "MEASURES", {"value": "real@token"})
    text = replaced(
        RECOVERY,
        ("advantage A : real@traj = std.grpo(R)",
         "advantage A : real@token = std.gae(0 * train.value + R, train.value, gamma = 1, lambda = 0.95)"),
    )  # fmt: skip
    plan = plan_of(text)
    assert ("train_value", "train.value", "token") in [(s.name, s.measure, s.level) for s in plan.sources[0].signals]
    two = replaced(text, ("  stage fission", "  stage more : grpo { steps = 9steps }\n  stage fission"))
    assert "RLC0504" in [d.code for d in checked(two).errors]
