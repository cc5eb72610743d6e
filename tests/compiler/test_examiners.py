"""Evaluations with a user of their own: who trains, who examines, and what the plan says of it."""

from __future__ import annotations

from pathlib import Path

from rlspec.compiler import check
from rlspec.dsl.diagnostics import Source

MINI = (Path(__file__).parents[1] / "mini.rlspec").read_text()


def checked(*pairs: tuple[str, str]):
    text = MINI
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return check.check(Source("mini.rlspec", text))


LIVE = ("user customer : agenda { serves = [desk] }", "user live : agenda { }  user customer : static { }")


def test_the_user_that_an_evaluation_names_does_not_train():
    plan = checked(LIVE, ("after = [coldstart, train]", "after_training = true  user = live")).plan
    assert plan is not None
    assert [s.user for s in plan.sources] == ["customer"]
    exam = plan.stages[-1]
    assert exam.fields["user"] == "live"
    assert exam.fields["after"] == ["coldstart", "train"]


def test_a_stage_after_training_follows_what_is_there():
    named, general = checked().plan, checked(("after = [coldstart, train]", "after_training = true")).plan
    assert named is not None
    assert general is not None
    assert named.digest == general.digest


def test_an_examiner_serves_something_that_is_measured():
    other = ("env desk : shop {", "env other : shop { }  mix { desk = 100%  other = 0% }  env desk : shop {")
    report = checked(
        other,
        ("user customer", "user live : agenda { serves = [other] }  user customer"),
        ("tasks = 3tasks", "on = [desk]  user = live  tasks = 3tasks"),
    ).diagnostics
    assert "RLC0504" in [d.code for d in report]
