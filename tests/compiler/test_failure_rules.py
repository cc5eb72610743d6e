"""What is to be done about failures: lists of rules in which each can act, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source

SAMPLE = (Path(__file__).parents[1] / "sample.rlspec").read_text(encoding="utf-8")
DESK = "env desk : shop { difficulty = 1  max_turns = 16agent_turns }"


def said(rules: str) -> list[str]:
    text = SAMPLE.replace("serves = [desk]", f"serves = [desk]  on_failure = {rules}")
    assert text != SAMPLE
    return [d.message for d in check(Source("s.rlspec", text)).diagnostics if d.code == "RLC0542"]


@pytest.mark.parametrize(
    ("rules", "idle"),
    [
        ("[drop, retry(3)]", "retry"),
        ("[drop, drop]", "drop"),
        ("[retry(3), retry(2), drop]", "retry"),
        ("[outcome_only, drop]", "drop"),
        ("[drop, outcome_only]", "outcome_only"),
        ("[retry(1), abort_above(10%), drop, abort_above(20%)]", "abort_above"),
    ],
)
def test_a_rule_that_can_never_act_is_named(rules: str, idle: str) -> None:
    (message,) = said(rules)
    assert message.startswith(f"`{idle}`")


@pytest.mark.parametrize(
    "rules",
    [
        "[drop]",
        "drop",
        "[retry(3)]",
        "[retry(3), drop]",
        "[retry(3), drop, abort_above(10%)]",
        "[abort_above(5%), drop]",
    ],
)
def test_rules_that_all_act_are_taken(rules: str) -> None:
    assert said(rules) == []


@pytest.mark.parametrize("split", ["train", "dev"])
def test_tau_bench_s_airline_has_tasks_to_test_on_alone(split: str) -> None:
    def codes(domain: str, more: str = "") -> set[str]:
        text = SAMPLE.replace(DESK, f"env desk : tau_bench {{ domain = {domain}  split = {split}  {more} }}")
        found = check(Source("s.rlspec", text))
        return {d.code for d in found.errors if f"no {split} split" in d.message}

    assert codes("airline") == codes("[retail, airline]") == {"RLC0505"}
    assert codes("retail") == codes("airline", 'source = "ours"') == set()
