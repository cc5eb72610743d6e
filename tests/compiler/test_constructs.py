"""Programs that look values up, follow schedules and choose tokens: kernels, evaluator and binding agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.binding import bind, tables_of, time_of, times
from rlspec.compiler.evaluator import annealed, evaluate
from rlspec.compiler.formula import formula
from rlspec.compiler.kernels import source
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.program import Program
from rlspec.compiler.sketch import anneal, lookup, normalise, program, reduce, signal, top
from rlspec.runtime.record.ragged import RaggedBatch

WEIGHTS = [1.0, 0.5, 0.0, -0.1, 0.0, -0.1, -0.2]
TIER = signal("tier", "turn")


def batch(seed: int, tiers: int = 7) -> RaggedBatch:
    """A few ragged groups with tiers, outcomes, entropies (with ties) and a step."""
    rng = np.random.default_rng(seed)
    offsets, parents = [], int(rng.integers(1, 4))
    for most in (5, 4, 4):
        offsets.append(np.concatenate(([0], np.cumsum(rng.integers(0, most + 1, parents)))).astype(np.int64))
        parents = int(offsets[-1][-1])
    out = RaggedBatch(*offsets)
    size = {level.label: out.size(level) for level in Level}
    out.signals.update(
        tier=rng.integers(0, tiers, size["turn"]).astype(float),
        outcome=rng.integers(0, 2, size["traj"]).astype(float),
        entropy=rng.integers(0, 5, size["token"]) / 4,
        step=np.array([float(rng.integers(0, 120))]),
    )
    return out


def as_python(wanted: Program, given: RaggedBatch) -> dict[str, np.ndarray]:
    scope: dict[str, object] = {}
    exec(source(wanted), scope)
    results = {
        name: np.full(given.size(BY_LABEL[wanted.steps[at].level]), 1e200) for name, at in wanted.outputs.items()
    }
    offsets = (given.group_offsets, given.turn_offsets, given.token_offsets)
    scope["kernel"](*offsets, *(given.signals[i.name] for i in wanted.inputs), *results.values())  # type: ignore[operator]
    return results


OUTCOME, ENTROPY = signal("outcome", "traj"), signal("entropy", "token")
PROGRAMS = {
    "table": program(r=lookup("c.w", TIER, WEIGHTS), total=reduce("sum", lookup("c.w", TIER, WEIGHTS), "turn")),
    "schedule": program(w=anneal(3, 2, 100), x=anneal(0, OUTCOME, 7, "cosine") * TIER),
    "annealed reward": program(A=normalise("zscore", anneal(1, 0, 50) * OUTCOME + lookup("c.w", TIER, WEIGHTS), "traj",
                                           "turn")),
    "top": program(t=top(ENTROPY, "group", "traj", "turn", "token", share=0.2), u=top(TIER, "turn", share=0.5)),
    "top of a coarse value": program(t=top(OUTCOME + 0.0, "traj", "turn", share=0.34)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_kernels_do_what_the_evaluator_does(name: str, seed: int) -> None:
    given_batch = batch(seed)
    with np.errstate(all="ignore"):
        found = as_python(PROGRAMS[name], given_batch)
    for output, expected in evaluate(PROGRAMS[name], given_batch).items():
        np.testing.assert_allclose(found[output], expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(0, 6).map(float), min_size=1, max_size=40), share=st.floats(0.01, 1))
def test_top_takes_the_share_and_what_equals_its_smallest(values: list[float], share: float) -> None:
    one = RaggedBatch(*(np.array(o) for o in ([0, 1], [0, 1], [0, len(values)])), signals={"entropy": np.array(values)})
    found = evaluate(program(t=top(ENTROPY, "group", "traj", "turn", "token", share=share)), one)["t"]
    chosen = [v for v, t in zip(values, found, strict=True) if t]
    left = [v for v, t in zip(values, found, strict=True) if not t]
    wanted = math.ceil(share * len(values) - 1e-9)
    assert len(chosen) >= wanted
    assert len([v for v in chosen if v > min(chosen)]) < wanted
    assert not left or max(left) < min(chosen)


def test_twenty_percent_of_ten_are_two() -> None:
    values = [0.5, 0.1, 0.9, 0.3, 0.2, 0.8, 0.4, 0.0, 0.6, 0.7]
    one = RaggedBatch(*(np.array(o) for o in ([0, 1], [0, 1], [0, 10])), signals={"entropy": np.array(values)})
    found = evaluate(program(t=top(ENTROPY, "group", "traj", "turn", "token", share=0.2)), one)["t"]
    assert [v for v, t in zip(values, found, strict=True) if t] == [0.9, 0.8]


def test_an_open_table_is_no_number() -> None:
    wanted = program(r=lookup("calibrate.weight", TIER, None, 7))
    assert tables_of(wanted) == {"calibrate.weight": 7}
    with pytest.raises(ValueError, match=r"calibrate.weight` is known only after"):
        evaluate(wanted, batch(0))
    with pytest.raises(ValueError, match=r"calibrate.weight` is known only after"):
        source(wanted)


def test_binding_makes_another_program_and_leaves_the_first_one_open() -> None:
    wanted = program(r=lookup("calibrate.weight", TIER, None, 7))
    first, second = (bind(wanted, {"calibrate.weight": [x] * 7, "other.table": [1]}) for x in (1.0, 2.0))
    given_batch = batch(3)
    assert set(evaluate(first, given_batch)["r"]) == {1.0}
    assert set(evaluate(second, given_batch)["r"]) == {2.0}
    assert tables_of(wanted)
    assert not tables_of(first)
    with pytest.raises(ValueError, match="holds 7 values, not 2"):
        bind(wanted, {"calibrate.weight": [1, 2]})


def test_binding_times_go_from_static_to_per_sample() -> None:
    weight = lookup("calibrate.weight", TIER, None, 7)
    wanted = program(
        a=anneal(1, 0, 10), r=weight, both=anneal(1, 0, 10) * weight, o=OUTCOME, mean=reduce("mean", OUTCOME, "group",
                                                                                                "traj"),
    )  # fmt: skip
    found = {name: str(time_of(wanted, name)) for name in wanted.outputs}
    assert found == {
        "a": "per step", "r": "per sample, after calibrate", "both": "per sample, after calibrate", "o": "per sample",
        "mean": "per sample",
    }  # fmt: skip
    assert str(times(program(x=lookup("c.w", signal("k", "turn") * 0 + 1, None, 2)))[-1]) == "per sample, after c"


@pytest.mark.parametrize(("step", "linear", "cosine"), [(0, 3, 3), (25, 2.75, 2.853553), (50, 2.5, 2.5), (100, 2, 2),
                                                        (400, 2, 2)])  # fmt: skip
def test_a_schedule_ends_at_over_and_stays_there(step: int, linear: float, cosine: float) -> None:
    assert annealed(step, 3, 2, {"over": 100, "shape": "linear"}) == pytest.approx(linear)
    assert annealed(step, 3, 2, {"over": 100, "shape": "cosine"}) == pytest.approx(cosine, abs=1e-6)


def test_formulas_print_as_they_are_written() -> None:
    wanted = program(r=lookup("calibrate.weight", TIER, None, 7), t=top(ENTROPY, "group", "traj", "token", share=0.2),
                     w=anneal(3, 2, 40, "cosine"))  # fmt: skip
    assert [formula(wanted, name) for name in wanted.outputs] == [
        "calibrate.weight[tier]",
        "top(entropy over (group, traj, token), share = 0.2)",
        "anneal(3, 2, over = 40steps, shape = cosine)",
    ]
