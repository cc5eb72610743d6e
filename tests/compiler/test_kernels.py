"""Generated kernels against the plain evaluator, on random ragged batches.

The generated text is plain Python, so most of these tests run it as it is: hundreds of programs in the time
that numba would take for one. That the compiled text does the same is asked of the standard programs,
together, at the end.
"""

from __future__ import annotations

import ast
import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.evaluator import evaluate
from rlspec.compiler.kernels import source
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.program import Input, Program, Step
from rlspec.compiler.sketch import Sketch, element, gae, index, normalise, num, program, reduce, scan, signal
from rlspec.runtime.record.ragged import RaggedBatch

OUTCOME, VERDICT, R = signal("outcome", "traj"), signal("verdict", "turn"), signal("r", "turn")
REWARD_TOKEN, VALUE_TOKEN = signal("reward", "token"), signal("value", "token")


def tarl_reward() -> Sketch:
    known = (VERDICT == 0.0) | (VERDICT == 1.0)
    mean = reduce("sum", VERDICT, "turn", where=known) / num("turn")
    return 10.0 * OUTCOME - 5.0 * reduce("any", VERDICT == -1.0, "turn") + element("clip", mean, -5.0, 5.0)


def gtpo(gamma: float, lam: float) -> Sketch:
    share = gamma ** (num("turn") - index("turn")) * OUTCOME
    turns = normalise("zscore", scan("suffix_sum", R, "turn", gamma) + share, "traj", "turn")
    return turns + lam * normalise("zscore", OUTCOME, "traj")


def token_gae() -> Sketch:
    return gae(REWARD_TOKEN, VALUE_TOKEN, "token", 0.99, 0.95)


TARL = tarl_reward()
SKETCHES: dict[str, Sketch] = {
    "grpo": normalise("zscore", OUTCOME, "traj"),
    "grpo_ddof0": normalise("zscore", OUTCOME, "traj", ddof=0, epsilon=0.0, singleton="raw"),
    "dr_grpo": normalise("center", OUTCOME, "traj", zero_variance=-0.5),
    "rloo": OUTCOME - (reduce("sum", OUTCOME, "traj") - OUTCOME) / (num("traj") - 1.0),
    "gtpo": gtpo(0.9, 0.3),
    "tarl": normalise("zscore", TARL, "traj"),
    "tarl_reward": TARL,
    "aligned": normalise("zscore", R, "traj", align="turn"),
    "aligned_zero": normalise("center", R, "traj", align="turn", missing="zero", singleton="raw"),
    "aligned_rank": normalise("rank", R - OUTCOME, "traj", align="turn", missing="zero"),
    "pooled": normalise("zscore", VERDICT, "group", "traj", "turn", singleton="raw", zero_variance=2.0),
    "rank": normalise("rank", TARL, "traj"),
    "rank_turns": normalise("rank", OUTCOME, "traj", "turn"),
    "token_gae": normalise("zscore", token_gae(), "group", "traj", "token", epsilon=1e-8),
    "turn_gae": gae(R, VERDICT, "turn", 0.9, 0.8),
    "credit": normalise("center", gtpo(0.5, 0.0), "group", "traj", "turn") * (REWARD_TOKEN > 0.0),
    "longest": reduce("max", num("turn"), "group", "traj"),
    "shares": VERDICT / reduce("mean", VERDICT, "turn", where=VERDICT > 0.0, empty=1.0),
    "forward": scan("prefix_sum", REWARD_TOKEN - reduce("mean", REWARD_TOKEN, "token"), "token", 0.5),
    "rank_of_rank": normalise("rank", normalise("rank", R, "turn"), "traj", "turn"),
    "same_branches": element("select", R, num("traj"), num("traj")),
    "constant": element("add", 1.0, 2.0),
    "signal": R + 0.0,
}
STANDARD: dict[str, Program] = {name: program(**{name: sketch}) for name, sketch in SKETCHES.items()}


# -------------------------------------------------------------------------------------------- random material


def ragged(rng: np.random.Generator, groups: int, trajs: int, turns: int, tokens: int) -> list[np.ndarray]:
    """Offsets with up to so many members per parent, none included."""
    offsets, parents = [], groups
    for most in (trajs, turns, tokens):
        offsets.append(np.concatenate(([0], np.cumsum(rng.integers(0, most + 1, parents)))).astype(np.int64))
        parents = int(offsets[-1][-1])
    return offsets


@st.composite
def batches(draw: st.DrawFn, wanted: Program) -> RaggedBatch:
    """A ragged batch with the signals of a program: few values, so that ties and dead pools are common, or
    many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    offsets = ragged(rng, *(draw(st.integers(0, 4)) for _ in range(4)))
    batch = RaggedBatch(*offsets)
    for i in wanted.inputs:
        size = batch.size(BY_LABEL[i.level])
        values = draw(st.sampled_from(("few", "constant", "many")))
        few = rng.choice([-1.0, 0.0, 1.0, 0.3, 1 / 3], size)
        many = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4)
        batch.signals[i.name] = {"few": few, "constant": np.full(size, 1 / 3), "many": many}[values]
    return batch


UNARY = ("neg", "abs", "sign", "not")
BINARY = ("add", "sub", "mul", "div", "min2", "max2", "eq", "ne", "lt", "le", "gt", "ge", "and", "or")
KINDS = ("unary", "binary", "smooth", "select", "clip", *["reduce", "normalise"] * 3, "scan", "gae")
AXES = {Level.GROUP: "group", Level.TRAJ: "traj", Level.TURN: "turn", Level.TOKEN: "token"}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A random program over signals of all levels: every operation, at every level where it can be."""
    pool: list[tuple[Sketch, Level]] = [(signal(f"{v.label}_signal", v.label), v) for v in list(Level)[1:]]
    pool += [(index(a), BY_LABEL[a]) for a in ("turn", "token")]
    pool += [(num(a), Level(BY_LABEL[a] - 1)) for a in ("group", "traj", "turn", "token")]
    pool.append((element("add", draw(st.sampled_from((0.0, 0.3, 2.0))), 0.0), Level.CONST))

    def pick(finest: Level = Level.TOKEN) -> tuple[Sketch, Level]:
        found = [p for p in pool if p[1] <= finest]
        return found[draw(st.integers(0, len(found) - 1))]

    for _ in range(draw(st.integers(1, 7))):
        pool.append(draw_step(draw, pick))
    named = draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=3, unique=True))
    return program(**{f"out_{n}": pool[at][0] for n, at in enumerate({*named, len(pool) - 1})})


def draw_step(draw: st.DrawFn, pick) -> tuple[Sketch, Level]:
    kind = draw(st.sampled_from(KINDS))
    if kind == "unary":
        x, level = pick()
        return element(draw(st.sampled_from(UNARY)), x), level
    if kind == "smooth":  # functions that Python's own arithmetic can compute without an exception
        (x, a), (y, b) = pick(), pick()
        tame = element("clip", y, -2.0, 2.0)
        made = draw(st.sampled_from((
            (element("exp", tame), b), (element("log", element("abs", x) + 1.0), a),
            (element("sqrt", element("abs", x)), a), ((element("abs", x) + 0.5) ** tame, max(a, b)),
        )))  # fmt: skip
        return made
    if kind in ("binary", "select", "clip"):
        (x, a), (y, b), (z, c) = pick(), pick(), pick()
        if kind == "binary":
            return element(draw(st.sampled_from(BINARY)), x, y), max(a, b)
        return element(kind, x, y, z), max(a, b, c)
    member = draw(st.sampled_from(list(AXES)))
    x, y = pick(member)[0], pick(member)[0]
    if kind == "scan":
        discount = pick(member)[0] if draw(st.booleans()) else element("add", 0.9, 0.0)
        fn = draw(st.sampled_from(("suffix_sum", "prefix_sum")))
        return scan(fn, x, AXES[member], element("clip", discount, -1.0, 1.0)), member
    if kind == "gae":
        return gae(x, y, AXES[member], 0.9, element("clip", pick(member)[0], 0.0, 1.0)), member
    coarsest = draw(st.sampled_from([v for v in AXES if v <= member]))
    axes = [AXES[v] for v in AXES if coarsest <= v <= member]
    if kind == "reduce":
        fn = draw(st.sampled_from(("sum", "mean", "min", "max", "any", "all", "count", "first", "last")))
        empty = draw(st.sampled_from((0.0, 1.0, -7.0)))
        where = y if draw(st.booleans()) else None
        return reduce(fn, x, *axes, where=where, empty=empty), Level(coarsest - 1)
    align = ""
    if member < Level.TOKEN and draw(st.booleans()):
        member = Level(member + 1)
        align, x = AXES[member], pick(member)[0]
    made = normalise(
        draw(st.sampled_from(("zscore", "center", "rank"))), x, *axes, align=align,
        ddof=draw(st.sampled_from((0, 1))), epsilon=draw(st.sampled_from((0.0, 1e-6, 0.1))),
        singleton=draw(st.sampled_from(("zero", "raw"))), zero_variance=draw(st.sampled_from((0.0, 0.5))),
        missing=draw(st.sampled_from(("absent", "zero"))),
    )  # fmt: skip
    return made, member


# ---------------------------------------------------------------------------------------------- the two agree


def results_for(wanted: Program, batch: RaggedBatch) -> dict[str, np.ndarray]:
    """Output arrays, filled with what no kernel should leave there."""
    levels = {name: BY_LABEL[wanted.steps[at].level] for name, at in wanted.outputs.items()}
    return {name: np.full(batch.size(level), 1e200) for name, level in levels.items()}


def as_python(wanted: Program, batch: RaggedBatch) -> dict[str, np.ndarray]:
    """Run the generated text without compiling it."""
    scope: dict[str, Any] = {}
    exec(source(wanted), scope)
    results = results_for(wanted, batch)
    offsets = (batch.group_offsets, batch.turn_offsets, batch.token_offsets)
    scope["kernel"](*offsets, *(batch.signals[i.name] for i in wanted.inputs), *results.values())
    return results


def assert_same(found: dict[str, np.ndarray], batch: RaggedBatch, wanted: Program) -> None:
    """Equal to 1e-9 of the result's scale."""
    for name, expected in evaluate(wanted, batch).items():
        finite = [abs(x) for x in expected if math.isfinite(x)]
        np.testing.assert_allclose(
            found[name], expected, rtol=1e-9, atol=1e-9 * max([1.0, *finite]), err_msg=source(wanted)
        )


@pytest.mark.parametrize("name", STANDARD)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_standard_programs_equal_the_evaluator(name, data):
    batch = data.draw(batches(STANDARD[name]))
    with np.errstate(all="ignore"):
        assert_same(as_python(STANDARD[name], batch), batch, STANDARD[name])


@settings(max_examples=200, deadline=None, report_multiple_bugs=False)
@given(data=st.data())
def test_random_programs_equal_the_evaluator(data):
    wanted = data.draw(programs())
    batch = data.draw(batches(wanted))
    with np.errstate(all="ignore"):
        assert_same(as_python(wanted, batch), batch, wanted)


@cache
def compiled(name: str) -> Callable[..., None]:
    scope: dict[str, Any] = {}
    exec(source(STANDARD[name]), scope)
    for part in [p for p in scope.values() if isinstance(p, FunctionType)]:
        scope[part.__name__] = numba.njit(error_model="numpy")(part)
    return scope["kernel"]


@pytest.mark.parametrize("name", ["gtpo", "tarl", "aligned_rank", "token_gae", "credit"])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_compiled_kernels_equal_the_evaluator(name, data):
    wanted = STANDARD[name]
    batch = data.draw(batches(wanted))
    results = results_for(wanted, batch)
    signals = [batch.signals[i.name] for i in wanted.inputs]
    compiled(name)(batch.group_offsets, batch.turn_offsets, batch.token_offsets, *signals, *results.values())
    assert_same(results, batch, wanted)


# -------------------------------------------------------------------------------------------- dead means dead


def groups_of(values: list[list[float]]) -> RaggedBatch:
    group_offsets = np.cumsum([0, *map(len, values)])
    empty = np.zeros(group_offsets[-1] + 1, dtype=np.int64)
    flat = np.array([v for group in values for v in group])
    return RaggedBatch(group_offsets, empty, np.zeros(1, dtype=np.int64), {"outcome": flat})


def test_eight_rewards_of_three_tenths_give_exactly_zero():
    found = as_python(STANDARD["grpo"], groups_of([[0.3] * 8]))["grpo"]
    assert found.tolist() == [0.0] * 8


def test_128_groups_of_thirds_give_exactly_zero():
    groups = [[k / 3] * 8 for k in range(1, 129)]
    for name in ("grpo", "grpo_ddof0"):
        assert not np.any(as_python(STANDARD[name], groups_of(groups))[name])


def test_one_rounding_error_apart_is_alive():
    batch = groups_of([[0.3, 0.3, 0.1 + 0.2, 0.3]])
    found = as_python(STANDARD["grpo_ddof0"], batch)["grpo_ddof0"]
    assert found[2] > 1.0


@pytest.mark.parametrize("pool", [(), ("group",)])
def test_not_a_number_is_never_dead_and_signs_of_zero_do_not_differ(pool):
    wanted = program(out=normalise("zscore", OUTCOME, *pool, "traj"))
    for values in itertools.product((0.0, -0.0, 1.0, np.nan, np.inf), repeat=3):
        with np.errstate(invalid="ignore"):
            found = as_python(wanted, groups_of([list(values)]))["out"]
        equal = all(v == values[0] for v in values)  # which one that is not a number never is, not even to itself
        assert (found.tolist() == [0.0] * 3) == equal, values
        assert np.isnan(found).all() == (np.isnan(values).any() or (np.isinf(values).any() and not equal)), values


def test_the_order_of_turns_does_not_bring_a_dead_group_to_life():
    """Sums are rounded once, so trajectories with the same turns in another order have the same reward."""
    turns = [0.1, 1e8, -1e8, 0.2, 0.3, 7.7]
    wanted = program(out=normalise("zscore", reduce("sum", R, "turn"), "traj", epsilon=0.0))
    orders = [turns, turns[::-1], sorted(turns), turns[3:] + turns[:3]]
    batch = RaggedBatch(
        np.array([0, 4]), np.arange(0, 25, 6), np.zeros(25, dtype=np.int64), {"r": np.array(orders).ravel()}
    )
    assert as_python(wanted, batch)["out"].tolist() == [0.0] * 4


def test_a_step_far_from_zero_is_whitened_to_the_last_digits():
    """Plain sums would lose the mean: it is a thousand million times what the members differ by."""
    rng = np.random.default_rng(0)
    rewards = 1e9 + rng.random(512).round(6)
    wanted = program(out=normalise("zscore", OUTCOME, "group", "traj", epsilon=0.0))
    batch = groups_of(rewards.reshape(64, 8).tolist())
    exact = rewards - 1e9
    shifted = (exact - exact.mean()) / exact.std(ddof=1)
    assert as_python(wanted, batch)["out"] == pytest.approx(shifted, abs=1e-6)  # the rewards themselves have 1e-7
    assert_same(as_python(wanted, batch), batch, wanted)


def test_whole_numbers_are_added_plainly_and_fractions_with_what_rounding_loses():
    turns, fractions = signal("v", "turn", "int"), signal("f", "turn")
    whole = source(program(out=reduce("sum", turns, "turn", where=(turns == 0.0) | (turns == 1.0))))
    assert "plus(" in whole
    assert "lost" not in whole
    assert "lost" in source(program(out=reduce("sum", fractions * turns, "turn")))


@pytest.mark.parametrize(("successes", "won", "lost"), [(1, 2.475, -0.354), (4, 0.935, -0.935)])
def test_group_norm_has_the_known_values(successes, won, lost):
    batch = groups_of([[1.0] * successes + [0.0] * (8 - successes)])
    found = as_python(STANDARD["grpo"], batch)["grpo"]
    assert found == pytest.approx([won] * successes + [lost] * (8 - successes), abs=1e-3)


# --------------------------------------------------------------------------------------------------- the text


def test_the_text_names_signals_and_results_and_states_the_formula():
    text = source(program(advantage=normalise("zscore", OUTCOME, "traj")))
    assert '"""advantage = zscore(outcome over traj, ddof = 1, epsilon = 1e-06)"""' in text
    assert "for traj in forward(group_offsets[group], group_offsets[group + 1]):" in text
    assert "advantage[traj] = 0.0 if outcome_dead else (outcome[traj] - outcome_mean) / outcome_scale" in text
    assert "np.empty" not in text


def test_what_can_stay_a_scalar_is_not_stored():
    for name in ("grpo", "gtpo", "tarl_reward", "rloo", "turn_gae", "token_gae", "longest", "shares", "forward"):
        assert "np.empty" not in source(STANDARD[name]), name
    assert source(STANDARD["credit"]).count("np.empty") == 2


def test_whitened_gae_needs_three_loops_over_the_tokens_the_first_backwards():
    text = source(STANDARD["token_gae"])
    assert text.count("for token in") == 3
    assert text.count(", -1):") == 1
    assert "for turn in" not in text


def test_lines_are_short_and_the_text_is_plain_python():
    for name, wanted in STANDARD.items():
        text = source(wanted)
        ast.parse(text)
        assert max(map(len, text.splitlines())) <= 128, name


def test_names_that_python_or_the_kernel_use_are_put_aside():
    steps = tuple(Step(op="input", level="traj", attrs={"name": n}) for n in ("traj", "lambda", "user.mood", "x"))
    both = Step(op="add", args=(0, 1), level="traj")
    wanted = Program(
        inputs=tuple(Input(name=s.attrs["name"], level="traj") for s in steps),
        steps=(*steps, both),
        outputs={"x": 4, "range": 2, "x y": 4},
    )
    batch = groups_of([[1.0, 2.0]])
    batch.signals.update({name: np.array([1.0, 2.0]) for name in ("traj", "lambda", "user.mood", "x")})
    found = as_python(wanted, batch)
    assert found["x"].tolist() == found["x y"].tolist() == [2.0, 4.0]
    assert found["range"].tolist() == [1.0, 2.0]


def test_generating_text_needs_neither_numba_nor_numpy():
    code = (
        "import sys; from rlspec.compiler.kernels import source; from rlspec.compiler.sketch import *\n"
        "source(program(a=normalise('rank', signal('r', 'traj'), 'traj')))\n"
        "print(sorted({'numba', 'numpy', 'torch', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
