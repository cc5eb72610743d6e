"""The evaluator against numbers that are known from elsewhere or worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from rlspec.compiler.evaluator import divide, evaluate, power
from rlspec.compiler.levels import Level
from rlspec.compiler.pools import Pool, pool_of
from rlspec.compiler.program import Input, Program, Step
from rlspec.compiler.sketch import Sketch, element, gae, index, normalise, num, program, reduce, scan, signal


@dataclass
class Batch:
    """Plain lists: two groups of two trajectories with 2, 1, 0 and 3 turns, unless said otherwise."""

    group_offsets: list[int] = field(default_factory=lambda: [0, 2, 4])
    turn_offsets: list[int] = field(default_factory=lambda: [0, 2, 3, 3, 6])
    token_offsets: list[int] = field(default_factory=lambda: [0, 1, 3, 3, 4, 6, 7])
    signals: dict[str, list[float]] = field(default_factory=dict)


def one_group(values: list[float]) -> Batch:
    n = len(values)
    return Batch([0, n], [0] * (n + 1), [0], {"reward": values})


def result(sketch: Sketch, batch: Batch) -> list[float]:
    return evaluate(program(out=sketch), batch)["out"]


REWARD = signal("reward", "traj")
TURN = signal("turn_reward", "turn")
TOKEN = signal("token_reward", "token")
EXACT = {"epsilon": 0.0}


@pytest.mark.parametrize(
    ("n", "successes", "ddof", "won", "lost"),
    [
        (8, 1, 1, 2.475, -0.354),
        (8, 4, 1, 0.935, -0.935),
        (8, 4, 0, 1.0, -1.0),
        (4, 2, 1, 0.866, -0.866),
        (4, 2, 0, 1.0, -1.0),
    ],
)
def test_group_norm_of_successes_has_the_known_values(n, successes, ddof, won, lost):
    batch = one_group([1.0] * successes + [0.0] * (n - successes))
    found = result(normalise("zscore", REWARD, "traj", ddof=ddof, **EXACT), batch)
    assert found == pytest.approx([won] * successes + [lost] * (n - successes), abs=5e-4)


@pytest.mark.parametrize("value", [0.3, 1 / 3, 0.1 + 0.2, 1e300, -7e-300, math.inf])
def test_equal_rewards_give_exactly_zero(value):
    for fn in ("zscore", "center", "rank"):
        assert result(normalise(fn, REWARD, "traj"), one_group([value] * 8)) == [0.0] * 8


def test_zero_variance_and_singletons_follow_their_rules():
    dead = normalise("zscore", REWARD, "traj", zero_variance=-1.0)
    assert result(dead, one_group([0.3, 0.3])) == [-1.0, -1.0]
    assert result(dead, one_group([0.3])) == [0.0]
    raw = normalise("zscore", REWARD, "traj", singleton="raw")
    assert result(raw, one_group([0.3])) == [0.3]


def test_not_a_number_spreads_over_its_pool_only():
    batch = Batch(signals={"reward": [math.nan, 1.0, 0.0, 1.0]})
    for fn in ("zscore", "center", "rank"):
        found = result(normalise(fn, REWARD, "traj"), batch)
        assert [math.isnan(x) for x in found] == [True, True, False, False]


def test_leave_one_out_is_the_reward_minus_the_others_mean():
    n = num("traj")
    loo = REWARD - (reduce("sum", REWARD, "traj") - REWARD) / (n - 1.0)
    assert result(loo, one_group([1.0, 0.0, 0.5, 0.5])) == pytest.approx([2 / 3, -2 / 3, 0.0, 0.0])


def test_rank_shares_ties_and_spans_minus_one_to_one():
    found = result(normalise("rank", REWARD, "traj"), one_group([5.0, 1.0, 3.0, 3.0, -2.0]))
    assert found == [1.0, -0.5, 0.25, 0.25, -1.0]


def test_reducers_leave_out_members_and_say_what_nothing_is():
    batch = Batch(signals={"turn_reward": [1.0, -1.0, 4.0, 2.0, 0.0, -3.0]})
    expected = {
        "sum": [1.0, 4.0, 0.0, 2.0],
        "mean": [1.0, 4.0, 9.0, 1.0],
        "min": [1.0, 4.0, 9.0, 0.0],
        "max": [1.0, 4.0, 9.0, 2.0],
        "first": [1.0, 4.0, 9.0, 2.0],
        "last": [1.0, 4.0, 9.0, 0.0],
    }
    kept = element("ge", TURN, 0.0)
    for fn, values in expected.items():
        empty = None if fn == "sum" else 9.0
        assert result(reduce(fn, TURN, "turn", where=kept, empty=empty), batch) == values
    assert result(reduce("any", TURN == 0.0, "turn"), batch) == [0.0, 0.0, 0.0, 1.0]
    assert result(reduce("all", TURN > 0.0, "turn"), batch) == [0.0, 1.0, 1.0, 0.0]
    assert result(reduce("count", TURN > 0.0, "turn"), batch) == [1.0, 1.0, 0.0, 1.0]


def test_pooled_axes_meet_over_several_levels():
    batch = Batch(signals={"turn_reward": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    assert result(reduce("sum", TURN, "traj", "turn"), batch) == [6.0, 15.0]
    assert result(reduce("sum", TURN, "group", "traj", "turn"), batch) == [21.0]
    assert result(normalise("center", TURN, "group", "traj", "turn"), batch) == [
        -2.5,
        -1.5,
        -0.5,
        0.5,
        1.5,
        2.5,
    ]
    assert pool_of(("group", "traj", "token")) == Pool(Level.STEP, Level.TOKEN)


def test_coarse_values_lift_to_every_member():
    batch = Batch(signals={"reward": [1.0, 2.0, 3.0, 4.0], "token_reward": [0.0] * 7})
    assert result(TOKEN + REWARD, batch) == [1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0]
    assert result(reduce("sum", REWARD, "turn"), batch) == [2.0, 2.0, 0.0, 12.0]


def test_index_and_num_count_from_zero_within_the_parent():
    batch = Batch()
    assert result(index("turn"), batch) == [0.0, 1.0, 0.0, 0.0, 1.0, 2.0]
    assert result(index("token"), batch) == [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert result(num("token"), batch) == [1.0, 2.0, 0.0, 1.0, 2.0, 1.0]
    assert result(num("turn"), batch) == [2.0, 1.0, 0.0, 3.0]
    assert result(num("traj"), batch) == [2.0, 2.0]
    assert result(num("group"), batch) == [2.0]


def test_scans_run_within_their_parent():
    batch = Batch(signals={"turn_reward": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]})
    assert result(scan("suffix_sum", TURN, "turn", 0.5), batch) == [1.5, 1.0, 1.0, 1.75, 1.5, 1.0]
    assert result(scan("prefix_sum", TURN, "turn", 0.5), batch) == [1.0, 1.5, 1.0, 1.0, 1.5, 1.75]


def test_token_gae_runs_through_the_turns_of_a_trajectory():
    batch = Batch(signals={"token_reward": [0.0] * 6 + [1.0], "value": [0.5] * 7})
    found = result(gae(TOKEN, signal("value", "token"), "token", 1.0, 0.5), batch)
    assert found == [-0.125, -0.25, -0.5, 0.0625, 0.125, 0.25, 0.5]


def test_turn_gae_with_lambda_one_is_return_minus_value():
    value = signal("value", "turn")
    batch = Batch(signals={"turn_reward": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "value": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    same = scan("suffix_sum", TURN, "turn", 0.9) - value
    found = result(gae(TURN, value, "turn", 0.9, 1.0), batch)
    assert found == pytest.approx(result(same, batch))


def test_aligned_turns_meet_only_turns_of_their_index():
    batch = Batch([0, 3], [0, 2, 3, 5], [0] * 6, {"turn_reward": [1.0, 10.0, 2.0, 3.0, 14.0]})
    absent = result(normalise("center", TURN, "traj", align="turn"), batch)
    assert absent == [-1.0, -2.0, 0.0, 1.0, 2.0]
    zero = result(normalise("center", TURN, "traj", align="turn", missing="zero"), batch)
    assert zero == [-1.0, 2.0, 0.0, 1.0, 6.0]


def test_a_turn_that_nobody_else_has_is_a_singleton_unless_the_missing_count():
    batch = Batch([0, 2], [0, 2, 3], [0] * 4, {"turn_reward": [1.0, 5.0, 3.0]})
    raw = normalise("center", TURN, "traj", align="turn", singleton="raw")
    assert result(raw, batch) == [-1.0, 5.0, 1.0]
    assert result(normalise("center", TURN, "traj", align="turn", missing="zero"), batch) == [-1.0, 2.5, 1.0]


def test_arithmetic_has_no_exceptions():
    assert divide(0.0, 0.0) == 0.0
    assert divide(-2.0, 0.0) == divide(-2.0, -0.0) == -math.inf
    assert power(0.0, -1.0) == power(10.0, 400.0) == math.inf
    assert math.isnan(power(-2.0, 0.5))
    batch = one_group([0.0, -1.0, 1000.0, 1.0])
    assert result(element("log", REWARD), batch)[0] == -math.inf
    assert result(element("exp", REWARD), batch)[2] == math.inf
    assert math.isnan(result(element("sqrt", REWARD), batch)[1])
    assert result(element("clip", REWARD, -0.5, 5.0), batch) == [0.0, -0.5, 5.0, 1.0]
    assert result(element("sign", REWARD), batch) == [0.0, -1.0, 1.0, 1.0]


def test_an_empty_batch_has_empty_results():
    batch = Batch([0], [0], [0], {"reward": [], "turn_reward": []})
    assert result(normalise("zscore", REWARD, "traj"), batch) == []
    assert result(normalise("zscore", TURN, "traj", align="turn"), batch) == []
    assert result(reduce("mean", REWARD, "group", "traj"), batch) == [0.0]


def test_a_missing_signal_and_one_of_another_length_are_named():
    with pytest.raises(ValueError, match="brings no signal 'reward'"):
        result(REWARD, Batch())
    with pytest.raises(ValueError, match="'reward' has 1 values for 4 members"):
        result(REWARD, Batch(signals={"reward": [1.0]}))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Step(op="neg", args=(1,), level="traj"), "before it"),
        (Step(op="neg", args=(0,), level="turn"), "make it traj"),
        (Step(op="fold", args=(0,), level="traj"), "unknown operation"),
        (Step(op="add", args=(0,), level="traj"), "got 1 arguments"),
        (Step(op="reduce", args=(0,), level="step", attrs={"fn": "sum", "axes": ["group"]}), "cannot take"),
        (
            Step(op="reduce", args=(0,), level="group", attrs={"fn": "mean", "axes": ["traj"]}),
            "needs `empty`",
        ),
        (Step(op="reduce", args=(0,), level="group", attrs={"fn": "sum", "axes": ["trajs"]}), "unknown axis"),
        (Step(op="scan", args=(0, 0), level="traj", attrs={"fn": "suffix_sum"}), "'axis' is missing"),
    ],
)
def test_a_malformed_step_is_refused_by_its_position(step, message):
    inputs = (Input(name="r", level="traj"),)
    first = Step(op="input", level="traj", attrs={"name": "r"})
    with pytest.raises(ValueError, match=rf"step 1 .*{message}"):
        evaluate(Program(inputs=inputs, steps=(first, step), outputs={"out": 1}), Batch(signals={"r": [0.0] * 4}))
