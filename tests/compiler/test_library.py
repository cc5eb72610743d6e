"""The standard library: the numbers that papers publish, and every definition's kernel against the plain evaluator."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from bench_module import bench_module
from rlspec import specs
from rlspec.compiler.check import check
from rlspec.compiler.library import standard
from rlspec.compiler.spectest import evaluated
from rlspec.dsl.diagnostics import Source, SpecError
from rlspec.dsl.parser import parse, read

ROOT = Path(__file__).parents[2]
EXPERIMENTS = {
    name: check(Source(name, (ROOT / "tests" / f"{name}.rlspec").read_text())).experiment
    for name in ("sample", "calibrated", "recovery")
}


def value(text: str, *givens: str, on: str = "sample") -> object:
    """What an expression is on given trajectories, as nested lists."""
    experiment = EXPERIMENTS[on]
    assert experiment is not None
    shown = evaluated(experiment, text, givens, None).partition("\n= ")[2]
    return eval(shown, {"true": True, "false": False})


def reach(text: str, on: str = "sample") -> str:
    experiment = EXPERIMENTS[on]
    assert experiment is not None
    return evaluated(experiment, text, [], None).split("\n")[0]


def successes(count: int, of: int) -> str:
    return f"R={[1] * count + [0] * (of - count)}"


# -------------------------------------------------------------------------------------------------- over trajectories


@pytest.mark.parametrize(
    ("count", "of", "won", "lost"), [(1, 8, 2.475, -0.354), (4, 8, 0.935, -0.935), (2, 4, 0.866, -0.866)]
)
def test_group_relative_advantages_have_the_published_values(count: int, of: int, won: float, lost: float) -> None:
    found = value("std.grpo(R)", successes(count, of))
    assert found == pytest.approx([won] * count + [lost] * (of - count), abs=5e-4)


def test_without_the_division_only_the_mean_is_taken() -> None:
    assert value("std.grpo_center(R)", successes(1, 4)) == [0.75, -0.25, -0.25, -0.25]
    assert value("std.grpo_center(R)", "R=[0.3, 0.3]") == [0, 0]


def test_leaving_one_out_compares_with_the_others() -> None:
    assert value("std.rloo(R)", "R=[1, 0, 0.5, 0.5]") == pytest.approx([2 / 3, -2 / 3, 0, 0])
    assert value("std.rloo(R)", "R=[0.7]") == [0]


def test_reinforce_pp_looks_at_the_whole_step_and_its_tokens_weigh() -> None:
    # one group of a scene is the whole step
    assert value("std.reinforce_pp(R)", successes(1, 2)) == pytest.approx([0.70710678, -0.70710678])
    assert value("std.reinforce_pp_baseline(R)", successes(1, 2)) == pytest.approx([0.70710678, -0.70710678])
    found = value("std.reinforce_pp_tokens(R) + 0 * policy.logprob", "R=[1, 0]",
                  "policy.logprob=[[[-1, -1, -1]], [[-1]]]")  # fmt: skip
    assert found == [[pytest.approx([0.5] * 3)], [pytest.approx([-1.5])]]  # mean 3/4, deviation 1/2 of four tokens


def test_groups_all_right_or_all_wrong_are_not_mixed() -> None:
    for outcomes, mixed in (([1, 1, 1], False), ([0, 0], False), ([1, 0, 1], True)):
        assert value("std.mixed(outcome)", f"outcome={outcomes}") is mixed


def test_overlong_answers_pay_in_a_line() -> None:
    found = [value("std.overlong(x, 16, 4)".replace("x", str(n))) for n in (0, 12, 13, 14, 16, 30)]
    assert found == [0, 0, -0.25, -0.5, -1, -1]


# -------------------------------------------------------------------------------------------------------- over turns

TURNS = "verdict=[[1, 0], [0, -1], [0]]"


def test_discount_then_normalise_differs_from_normalise_then_sum() -> None:
    """MT-GRPO + IRC, 2.1: the heart of the paper."""
    outcomes = "outcome=[1, 0, 0]"
    gtpo = value("std.gtpo_aligned(verdict, outcome, gamma = 0.9, lambda = 0)", TURNS, outcomes)
    mt_grpo = value("std.mt_grpo(verdict, outcome)", TURNS, outcomes)
    # returns at turn 0: 1 + 0.81, 0 - 0.9, 0; at turn 1: 0 + 0.9, -1: mean and deviation by hand
    first = [1.81, -0.9, 0]
    mean, deviation = sum(first) / 3, (sum((x - sum(first) / 3) ** 2 for x in first) / 2) ** 0.5
    root = 0.5**0.5
    assert [t[0] for t in gtpo] == pytest.approx([(x - mean) / deviation for x in first], abs=1e-5)  # type: ignore[attr-defined]
    assert [t[1] for t in gtpo if len(t) > 1] == pytest.approx([root, -root], abs=1e-5)  # type: ignore[attr-defined]
    out = [1.154701, -0.577350, -0.577350]
    turn_0, turn_1 = [1.154701, -0.577350, -0.577350], [root, -root]
    expected = [
        [turn_0[0] + turn_1[0] + out[0], turn_1[0] + out[0]],
        [turn_0[1] + turn_1[1] + out[1], turn_1[1] + out[1]],
        [turn_0[2] + out[2]],
    ]
    assert mt_grpo == [pytest.approx(row, abs=1e-4) for row in expected]


def test_the_hybrid_adds_the_outcome_s_own_advantage() -> None:
    outcomes = "outcome=[1, 0, 0]"
    plain = value("std.gtpo_aligned(verdict, outcome, 0.9, 0)", TURNS, outcomes)
    hybrid = value("std.gtpo_aligned(verdict, outcome, 0.9, 0.3)", TURNS, outcomes)
    own = value("std.grpo(outcome)", outcomes)
    for before, after, advantage in zip(plain, hybrid, own, strict=True):  # type: ignore[call-overload]
        assert after == pytest.approx([x + 0.3 * advantage for x in before], abs=1e-6)


def test_four_rollouts_of_which_two_succeed_have_the_value_of_table_1() -> None:
    """2.2: -0.87 for a failing rollout at N = 4 with two successes, so the deviation is that of a sample."""
    found = value("std.mt_grpo(verdict, outcome)", "outcome=[1, 1, 0, 0]", "verdict=[[0], [0], [0], [0]]")
    assert found == [[pytest.approx(0.866, abs=1e-3)]] * 2 + [[pytest.approx(-0.866, abs=1e-3)]] * 2


def test_equal_outcomes_of_different_lengths_have_different_returns() -> None:
    """2.1, last paragraph: with all turn rewards 0 the short success is preferred."""
    found = value("std.gtpo(verdict, outcome, 0.9, 0)", "outcome=[1, 1]", "verdict=[[0], [0, 0, 0]]")
    assert found[0][0] > found[1][0]  # type: ignore[index]
    assert value("std.gtpo(verdict, outcome, 1, 0)", "outcome=[1, 1]", "verdict=[[0], [0, 0, 0]]") == [[0], [0, 0, 0]]


def test_the_first_published_mt_grpo_pays_what_precedes_the_first_tool_result() -> None:
    called = "verdict != 0"
    given = ("outcome=[1, 0]", "verdict=[[0, 1, 0], [0, 1, 1]]")
    found = value(f"std.mt_grpo_two_segments(verdict, outcome, {called}, 1)", *given)
    own, root = [0.0, 0.0], 0.5**0.5  # both trajectories earned 1 before their first result
    assert found == [
        pytest.approx([root + own[0], root + own[0], root], abs=1e-4),
        pytest.approx([-root + own[1], -root + own[1], -root], abs=1e-4),
    ]
    alone = value(f"std.mt_grpo_two_segments(verdict, outcome, {called}, 1)", "outcome=[1, 0]", "verdict=[[0], [0]]")
    assert alone == [[pytest.approx(root, abs=1e-4)], [pytest.approx(-root, abs=1e-4)]]


def test_discounts_and_weights_may_follow_the_step_or_the_turn() -> None:
    given = (TURNS, "outcome=[1, 0, 0]")
    late = value("std.gtpo(verdict, outcome, 0.9, lambda = anneal(1, 0, over = 10))", *given, "step=10")
    assert late == value("std.gtpo(verdict, outcome, 0.9, lambda = 0)", *given)
    until_an_error = "suffix_sum(verdict over turn, discount = indicator(verdict >= 0))"
    assert value(until_an_error, "verdict=[1, 0, -1, 1]") == [0, -1, -1, 1]
    with pytest.raises(SpecError, match="varies over token"):
        value("suffix_sum(verdict over turn, discount = exp(policy.logprob))", "verdict=[1]")


# ------------------------------------------------------------------------------------------------------- over tokens


def test_a_critic_s_reward_stands_at_the_last_token() -> None:
    tokens = "policy.logprob=[[[-1, -1], [-1]], [[-1, -1]]]"
    assert value("std.at_end(R) + 0 * policy.logprob", "R=[0.5, 1]", tokens) == [[[0, 0], [0.5]], [[0, 1]]]
    assert value("std.at_turn_end(verdict) + 0 * policy.logprob", "verdict=[[1, -1], [0]]", tokens) == [
        [[0, 1], [-1]],
        [[0, 0]],
    ]


def test_ppo_without_a_critic_s_opinion_is_the_whitened_reward() -> None:
    """Values of 0, gamma = lambda = 1: every token's advantage is its trajectory's reward, whitened over all tokens."""
    tokens = "policy.logprob=[[[-1, -1], [-1]], [[-1]]]"
    found = value("std.ppo(R, 0 * policy.logprob, lambda = 1)", "R=[1, 0]", tokens)
    assert found == [[pytest.approx([0.5, 0.5], abs=1e-5), pytest.approx([0.5], abs=1e-5)],
                     [pytest.approx([-1.5], abs=1e-5)]]  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- rewards


def test_tarl_s_rule_and_its_range_as_it_is_written() -> None:
    given = ("outcome=0", "verdict=[1, -1, -1, 0]")
    assert value("std.tarl(outcome, verdict)", *given) == -4.75
    assert value("std.tarl(outcome, verdict, counts = non_negative)", *given) == -4.5
    assert value("std.tarl(outcome, verdict, process_scale = 5)", *given) == -3.75
    assert value("std.tarl(outcome, verdict)", "outcome=1", "verdict=[1, 1]") == 11
    assert reach("std.tarl(outcome, verdict)") == "real@traj in [-5, 11]"
    assert reach("std.tarl(outcome, verdict, process_scale = 5)") == "real@traj in [-5, 15]"
    assert reach("std.tarl(outcome, verdict, process_scale = 20)") == "real@traj in [-5, 15]"


@pytest.mark.parametrize(("scale", "dead"), [(1, True), (5, True), (20, False)])
def test_a_cap_of_tarl_that_cannot_bind_is_reported(scale: int, dead: bool) -> None:
    text = (ROOT / "tests" / "sample.rlspec").read_text()
    reward = text[text.index("  reward R") : text.index("  advantage")]
    call = f"  reward R : real@traj = std.tarl(outcome, verdict, process_scale = {scale})\n\n"
    found = check(Source("s", text.replace(reward, call)))
    assert not found.errors
    assert ("RLC0403" in [d.code for d in found.diagnostics]) is dead


def test_the_two_tables_of_tiers_differ_in_reads_and_writes() -> None:
    tiers = "tier=[gold, soft, read, state, msg, err, dup]"
    dense = value("std.tiers_dense(tier, 0.5)", tiers, on="calibrated")
    calibrated = value("std.tiers_calibrated(tier, 0.5)", tiers, on="calibrated")
    assert dense == [1, 0.75, 0.3, 0.1, 0, -0.1, -0.2]
    assert calibrated == [1, 0.75, 0, -0.1, 0, -0.1, -0.2]
    assert value("std.tiers_dense(tier)", tiers, on="calibrated")[1] == 0.5  # type: ignore[index]
    assert reach("std.tiers_calibrated(tier, 1)", on="calibrated") == "real@turn in {-0.2, -0.1, 0, 1}"


def test_fission_s_reward_reaches_two_at_every_step() -> None:
    assert reach("std.fission(fmt, outcome, 1)", on="recovery") == "real@traj in [0.333333, 2]".replace(
        "0.333333", repr(1 / 3)
    )
    for step, expected in ((0, (3 * 1 + 2 * 0 + 1) / 3), (59, (2 * 1 + 3 * 0 + 1) / 3)):
        found = value("std.fission(fmt, outcome, 1)", f"step={step}", "outcome=0", "verdict=[1]", on="recovery")
        assert found == pytest.approx(expected)
    assert reach("std.fission_corr(num(turn), 3, 0.5)") == "real@traj in {0.25, 0.75}"
    assert value("std.fission_corr(num(turn), 2, 0.8)", "verdict=[1, 0]") == pytest.approx(0.9)


def test_a_length_is_paid_on_a_plateau() -> None:
    found = value("std.plateau(num(turn), 2, 3, 1)", "verdict=[[1], [1, 1], [1, 1, 1], [1, 1, 1, 1, 1]]")
    assert found == pytest.approx([0.60653066, 1, 1, 0.13533528])
    assert reach("std.plateau(num(turn), 2, 3, 1)") == "real@traj in [0, 1]"


def test_a_choice_that_a_definition_does_not_know_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        value("std.tarl(outcome, verdict, counts = non_negativ)")
    (found,) = caught.value.diagnostics
    assert (found.code, found.label) == ("RLC0202", "did you mean `non_negative`?")


# ------------------------------------------------------------------------------------------- kernels of the library


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """`bench/language/evaluator.py`, which asks the same of compiled kernels on many more batches."""
    return bench_module("language/evaluator")


def test_kernels_of_the_whole_library_agree_with_the_evaluator(bench: ModuleType) -> None:
    asked = list(bench.definitions())
    assert [d.name for d in asked] == sorted(standard())
    for definition in asked:
        found = bench.compare(definition, bench.interpreted(definition.program), 20)
        assert found.good, (definition.name, found)
        assert found.members


def test_the_comparison_sees_a_wrong_kernel(bench: ModuleType) -> None:
    definition = next(d for d in bench.definitions() if d.name == "std.grpo")
    honest = bench.interpreted(definition.program)
    for wrong in (lambda r: r + 1e-7, lambda r: r * (1 + 1e-8)):
        found = bench.compare(definition, lambda b, wrong=wrong: {"result": wrong(honest(b)["result"])}, 20)
        assert not found.good


def test_a_definition_that_is_read_alone_is_that_of_its_file() -> None:
    found = {}
    for path in sorted((Path(specs.__path__[0]) / "std").glob("*.rlspec")):
        for item in parse(read(path))[0].items:
            if item.head.path[0].value == "def":
                found[f"std.{item.head.labels[0].value}"] = item
    assert found == dict(standard())  # places included
