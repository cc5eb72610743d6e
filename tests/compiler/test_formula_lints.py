"""Lints of formulas that do not do what they seem to."""

from __future__ import annotations

from pathlib import Path

import pytest

from checking import checked, replaced

RECOVERY = (Path(__file__).parents[1] / "recovery.rlspec").read_text()


def lints(text: str) -> list[str]:
    return [d.code for d in checked(text).diagnostics if d.code in ("RLC0404", "RLC0530", "RLC0531", "RLC0532")]


def advantage(text: str) -> str:
    return replaced(RECOVERY, ("A : real@traj = std.grpo(R)", f"A : {text}"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("real@token = std.gae(R, 0 * policy.logprob, gamma = 1, lambda = 1)", ["RLC0530", "RLC0531"]),
        ("real@token = std.ppo(R, 0 * policy.logprob)", ["RLC0531"]),
        ("real@traj = std.grpo(R) + std.grpo(w_fmt)", ["RLC0404"]),
        ("real@turn = std.grpo(R) + zscore(num(traj) + 0 * index(turn) over (traj, turn))", []),
        ("real@traj = std.reinforce_pp(R)", ["RLC0531"]),
        ("real@turn = std.gtpo_aligned(verdict, R, 0.9, 0.3)", ["RLC0532"]),
        ("real@turn = std.gtpo_aligned(verdict, R, 1, 0.3)", []),
        ('real@turn = std.gtpo_aligned(verdict, R, reported(0.9, "table 1"), 0.3)', []),
        ("real@turn = std.mt_grpo(verdict, R)", []),
    ],
)
def test_formulas_that_do_not_do_what_they_seem_to(text: str, code: list[str]) -> None:
    found = lints(advantage(text))
    assert sorted(set(found)) == sorted(set(code))


def test_a_discount_whose_source_is_told_is_meant() -> None:
    text = replaced(advantage("real@turn = std.gtpo(verdict, R, gamma, 0.3)"),
                    ("  advantage", '  param gamma : real in [0, 1] = reported(0.9, "GTPO")\n  advantage'))  # fmt: skip
    assert "RLC0532" not in lints(text)
    assert "RLC0532" in lints(text.replace('reported(0.9, "GTPO")', "0.9"))
