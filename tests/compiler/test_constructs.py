"""Tables known after a stage, schedules, formulas on recovery groups, measures of the policy, restricted credit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.cli.compile import overview
from rlspec.compiler.binding import bind, tables_of, time_of, times
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.check import Checked, check, run_tests
from rlspec.compiler.diff import difference
from rlspec.compiler.digests import Side, graph_digest
from rlspec.compiler.evaluator import annealed, evaluate
from rlspec.compiler.formula import formula
from rlspec.compiler.kernels import source
from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.matrix import summary
from rlspec.compiler.plan import Plan
from rlspec.compiler.program import Program
from rlspec.compiler.resolved import resolved_text
from rlspec.compiler.sketch import anneal, lookup, normalise, program, reduce, signal, top
from rlspec.compiler.spectest import evaluated
from rlspec.compiler.stored import read_plan
from rlspec.dsl.diagnostics import Source, render
from rlspec.runtime.record.ragged import RaggedBatch

TESTS = Path(__file__).parents[1]
CALIBRATED, RECOVERY = ((TESTS / f"{name}.rlspec").read_text() for name in ("calibrated", "recovery"))

WEIGHTS = [1.0, 0.5, 0.0, -0.1, 0.0, -0.1, -0.2]
TIER = signal("tier", "turn")


def checked(text: str) -> Checked:
    return check(Source("test.rlspec", text))


def plan_of(text: str) -> Plan:
    found = checked(text)
    assert found.plan is not None, [render(d, found.source) for d in found.errors]
    return found.plan


def replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
        text = text.replace(old, new)
    return text


def codes(text: str) -> list[str]:
    return [d.code for d in checked(text).diagnostics]


# ------------------------------------------------------------------------------------------------------- programs


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


# --------------------------------------------------------------------------------------------------------- tables


def test_a_table_is_known_after_its_stage() -> None:
    plan = plan_of(CALIBRATED)
    text = overview(plan)
    assert "calibrate.weight[tier] : known after calibrate" in text
    assert "r : real@turn in [-1, 1]  per sample, after calibrate" in text
    assert ("calibrate/table", "train/scorer", "weights") in [(e.source, e.target, e.what) for e in plan.graph.edges]
    assert [s.policy_from for s in plan.stages] == [None, "coldstart", "coldstart"]
    assert tables_of(plan.sources[0].program) == {"calibrate.weight": 7}


def test_the_table_s_bounds_are_the_stage_s() -> None:
    wider = replaced(CALIBRATED, ("episodes = 64trajs", "scale = 2.5"), ("real@turn in [-1, 1]", "real@turn"))
    assert plan_of(wider).sources[0].ranges["r"] == "real@turn in [-2.5, 2.5]"
    assert "RLC0402" in codes(replaced(CALIBRATED, ("episodes = 64trajs", "scale = 2.5")))


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ([("calibrate.weight[tier]", "calibrate.weight")], "RLC0201", "write `calibrate.weight[tier]`"),
        ([("calibrate.weight[tier]", "calibrate.wieght[tier]")], "RLC0109", "did you mean `weight`?"),
        ([("calibrate.weight[tier]", "calibrat.weight[tier]")], "RLC0101", "did you mean `calibrate`?"),
        ([("calibrate.weight[tier]", "calibrate.weight[outcome]")], "RLC0202", "has a value for each of gold, soft"),
        ([("calibrate.weight[tier]", "tier[tier]")], "RLC0201", "only a table"),
        ([("signal = tier ", "signal = outcome ")], "RLC0505", "which has none"),
        ([("signal = tier ", "signal = tiers ")], "RLC0101", "did you mean `tier`?"),
        ([("signal = tier  outcome = outcome", "signal = tier")], "RLC0203", "`outcome` has no default"),
    ],
)
def test_mistakes_with_tables_are_named(changes: list[tuple[str, str]], code: str, says: str) -> None:
    found = checked(replaced(CALIBRATED, *changes))
    assert code in [d.code for d in found.errors]
    assert any(says in f"{d.message} {d.label}" for d in found.errors)


def test_a_definition_takes_a_table_s_value_and_not_the_table() -> None:
    inside = replaced(CALIBRATED, ("  credit", "  def worth(t : {gold, soft, read, state, msg, err, dup}@turn) : "
                                   "real@turn = calibrate.weight[t]\n  credit"),
                      ("= calibrate.weight[tier]", "= worth(tier)"))  # fmt: skip
    assert "RLC0201" in codes(inside)
    outside = replaced(CALIBRATED, ("  credit", "  def twice(w : real@turn) : real@turn = 2 * w\n  credit"),
                       ("in [-1, 1] = calibrate.weight[tier]", "= twice(calibrate.weight[tier])"))  # fmt: skip
    assert plan_of(outside)


def test_a_table_must_be_found_before_it_is_needed() -> None:
    stage = "  stage calibrate : irc { signal = tier  outcome = outcome  episodes = 64trajs }\n"
    late = replaced(CALIBRATED, (stage, "")).replace("\n}\n", f"\n{stage}}}\n")
    (error,) = checked(late).errors
    assert error.code == "RLC0504"
    assert "comes after `train`" in error.message
    assert late[error.span.start : error.span.stop] == "calibrate.weight"  # type: ignore[union-attr]


def test_one_choice_of_a_table_is_a_number_after_the_stage() -> None:
    text = replaced(CALIBRATED, ("  advantage", "  let g : real = calibrate.weight[gold]\n  advantage"))
    experiment = checked(text).experiment
    assert experiment is not None
    assert evaluated(experiment, "g", [], None) == "real, known after calibrate\ngive calibrate.weight for its value"
    given_weights = "calibrate.weight=[0.7, 0.5, 0, 0, 0, 0, 0]"
    assert evaluated(experiment, "g", [given_weights], None).endswith("= 0.7")


def test_tests_give_tables_by_choice_or_in_order() -> None:
    block = """  test "by choice" {
    given.tier = [gold, err]  given.outcome = 1
    given.calibrate.weight { gold = 1  soft = 0.5  read = 0  state = -0.1  msg = 0  err = -0.1  dup = -0.2 }
    expect rewards = r == [1, -0.1]
  }
  test "in order" {
    given.tier = [[soft], [dup, msg]]  given.outcome = [1, 0]  given.calibrate.weight = [1, 0.5, 0, 0, 0.25, 0, -0.2]
    expect rewards = r == [[0.5], [-0.2, 0.25]]
  }
}
"""
    found = checked(CALIBRATED.replace("\n}\n", f"\n{block}"))
    verdicts, mistakes = run_tests(found)
    assert [v.failure for v in verdicts] == [None, None]
    assert not mistakes


@pytest.mark.parametrize(
    ("given_text", "code"),
    [
        ("given.calibrate.weight = [1, 0]", "RLC0803"),
        ("given.calibrate.weight { gold = 1 }", "RLC0803"),
        ("given.calibrate.weight { golf = 1 }", "RLC0202"),
        ("given.calibrate.weight = [9, 0, 0, 0, 0, 0, 0]", "RLC0401"),
        ("given.tier = [gold]", "RLC0203"),
    ],
)
def test_wrong_and_missing_tables_in_tests_are_named(given_text: str, code: str) -> None:
    signal_text = "" if "tier" in given_text else "given.tier = [gold] "
    block = f'  test "t" {{ {signal_text} {given_text}\n expect x = r == [1] }}\n}}\n'
    _, mistakes = run_tests(checked(CALIBRATED.replace("\n}\n", f"\n{block}")))
    assert [m.code for m in mistakes] == [code]


def test_a_renamed_stage_is_the_same_experiment() -> None:
    a, b = (plan_of(t) for t in (CALIBRATED, CALIBRATED.replace("calibrate", "weigh")))
    found = difference(Side("a", a), Side("b", b))
    assert found.verified
    assert [(e.op, e.path) for e in found.edits] == [("rename", ("stage", "calibrate"))]


def test_other_bounds_of_a_table_are_a_field_s_edit_and_other_weights_another_formula() -> None:
    a = plan_of(CALIBRATED)
    by_hand = "by(tier, gold = 1, soft = 0.5, read = 0.3, state = 0.1, msg = 0, err = -0.1, dup = -0.2)"
    b = plan_of(replaced(CALIBRATED, ("calibrate.weight[tier]", by_hand)))
    found = difference(Side("a", a), Side("b", b))
    assert found.verified
    assert {(e.op, e.path[:2]) for e in found.edits} >= {("formula", ("reward", "r"))}


# ------------------------------------------------------------------------------------------------------ schedules


def test_a_sum_of_schedules_has_its_exact_range() -> None:
    plan = plan_of(RECOVERY)
    assert plan.sources[0].ranges["R"] == "real@traj in [0, 2]"
    assert "anneal(3, 2, over = 40steps) : known per step" in overview(plan)
    assert [s.measure for s in plan.sources[0].signals if s.level == "step"] == ["stage.step"]


@pytest.mark.parametrize(
    ("expression", "reach"),
    [
        ("w_fmt", "[2, 3]"),
        ("w_fmt + w_corr", "[5, 5]"),
        ("w_fmt - w_fmt", "[0, 0]"),
        ("w_fmt * outcome + w_corr * (1 - outcome)", "[0, 5]"),
        ("w_fmt * w_corr", "[4, 9]"),  # a product: the plain interval
        ("6 / w_fmt", "[2, 3]"),
        ("w_fmt * outcome / 2", "[0, 1.5]"),
        ("-w_fmt * outcome", "[-3, 0]"),
        ("if outcome == 1 then w_fmt else w_corr", "[2, 3]"),
        ("mean(w_fmt * verdict + w_corr * verdict over turn)", "[-5, 5]"),
        ("anneal(0, 1) + anneal(1, 0)", "[1, 1]"),
        ("anneal(0, 1, over = 10) + anneal(1, 0, over = 20)", "[1, 1.5]"),
        ("anneal(0, 1, shape = cosine) + anneal(1, 0, shape = cosine)", "[1, 1]"),
        ("anneal(0, 1, over = 10, shape = cosine) + anneal(1, 0, over = 20, shape = cosine)", "[0, 2]"),
        ("clip(w_fmt, 0, 2.5) + w_corr", "[4, 5.5]"),
        ("w_fmt * sum(verdict over turn where verdict in {0, 1}) / num(turn)", "[0, 3]"),
        ("std.tarl(outcome, verdict, major_penalty = anneal(0, 5))", "[-5, 11]"),
    ],
)
def test_ranges_of_schedules(expression: str, reach: str) -> None:
    experiment = checked(RECOVERY).experiment
    assert experiment is not None
    assert evaluated(experiment, expression, [], None).split("\n")[0].partition(" in ")[2].startswith(reach)


ENDS = st.integers(-4, 4)


@settings(max_examples=40, deadline=None)
@given(
    terms=st.lists(st.tuples(ENDS, ENDS, st.integers(1, 30), st.sampled_from(["outcome", "fmt", "1", "verdict"])),
                   min_size=1, max_size=3),
    step=st.integers(0, 60), outcome=st.integers(0, 1), verdicts=st.lists(st.integers(-1, 1), min_size=1, max_size=3),
)  # fmt: skip
def test_no_value_of_a_schedule_lies_outside_of_its_range(
    terms: list[tuple[int, int, int, str]], step: int, outcome: int, verdicts: list[int]
) -> None:
    experiment = EXPERIMENT
    text = " + ".join(f"anneal({a}, {b}, over = {n}) * {x}" for a, b, n, x in terms)
    givens = [f"step={step}", f"outcome={outcome}", f"verdict={verdicts}"]
    described, _, shown = evaluated(experiment, f"sum({text} + 0 * verdict over turn) / num(turn)", givens, None
                                    ).partition("\n= ")  # fmt: skip
    low, high = described.partition(" in [")[2].partition("]")[0].split(", ")
    assert float(low) - 1e-9 <= float(shown) <= float(high) + 1e-9


EXPERIMENT = checked(RECOVERY).experiment
assert EXPERIMENT is not None


def test_without_over_a_schedule_ends_with_its_training_stage() -> None:
    experiment = checked(RECOVERY).experiment
    assert experiment is not None
    assert evaluated(experiment, "anneal(0, 1)", ["step=59"], None).endswith("= 1")
    assert evaluated(experiment, "anneal(0, 59)", ["stage.step=1"], None).endswith("= 1")
    two = RECOVERY.replace("over = 40steps", "shape = linear").replace(
        "  stage fission", "  stage more : grpo { steps = 9steps }\n  stage fission"
    )
    assert codes(two).count("RLC0205") >= 1


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("anneal(1, outcome)", "RLC0206"),
        ("anneal(1)", "RLC0205"),
        ("anneal(1, 2, 3)", "RLC0205"),
        ("anneal(1, 2, over = 0)", "RLC0401"),
        ("anneal(1, 2, shape = bent)", "RLC0202"),
        ("anneal(1, 2, slope = 3)", "RLC0205"),
        ("top(policy.entropy, share = 20%)", "RLC0306"),
        ("top(policy.entropy over token, share = 120%)", "RLC0401"),
        ("top(policy.entropy over token)", "RLC0205"),
        ("top(policy.entropy over (group, token), share = 0.2)", "RLC0302"),
        ("top(outcome over turn, share = 0.2)", "RLC0303"),
        ("policy.entrpy", "RLC0109"),
        ("stage.stop", "RLC0101"),
        ("std.tarl(outcome, verdict, process_cap = anneal(0, 5))", "RLC0301"),
    ],
)
def test_mistakes_with_schedules_shares_and_measures_are_named(expression: str, code: str) -> None:
    text = RECOVERY.replace("  credit", f"  let wrong = {expression}\n  credit")
    assert code in [d.code for d in checked(text).errors]


# ------------------------------------------------------------------------------------------------ recovery groups


def test_recovery_groups_are_a_source_of_their_own() -> None:
    plan = plan_of(RECOVERY)
    assert [(s.name, s.stage, s.share) for s in plan.sources] == [("desk", None, 1.0), ("fission", "fission", 0.0)]
    assert plan.sources[0].program == plan.sources[1].program
    assert [s.name for s in plan.drawn] == ["desk"]
    assert plan.source_of("desk", "train/3/1/0").stage is None
    assert plan.source_of("desk", "fission/3/1/0").stage == "fission"
    assert "on fission (sampled again on desk)" in overview(plan)
    assert [b.steps for b in plan.budget if b.stage == "fission"] == [10]


def test_formulas_on_a_stage_override_those_of_its_environment() -> None:
    text = replaced(RECOVERY, ("  credit", "  reward R : real@traj on fission = outcome\n  credit"))
    plan = plan_of(text)
    assert [s.ranges["R"] for s in plan.sources] == ["real@traj in [0, 2]", "real@traj in {0, 1}"]
    assert plan.digest != plan_of(RECOVERY).digest
    same = replaced(RECOVERY, ("  credit", "  advantage A : real@traj on fission = std.grpo(R)\n  credit"))
    found = difference(Side("a", plan_of(RECOVERY)), Side("b", plan_of(same)))
    assert found.equal
    found = difference(Side("a", plan_of(RECOVERY)), Side("b", plan))
    assert found.verified
    # without a condition of its own, a recovery failed when its own reward is below the highest
    assert [e.where for e in found.edits] == ["reward.R on fission", "failed.fission on fission"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("  credit", "  reward R : real@traj on train = outcome\n  credit")], "RLC0101"),
        ([("  credit", "  reward R : real@traj on fision = outcome\n  credit")], "RLC0101"),
        ([("within = train", "within = coldstart")], "RLC0504"),
        ([("within = train", "within = trian")], "RLC0101"),
        ([("stage fission", "stage desk")], "RLC0105"),
        ([("  credit", "  reward R : real@traj on fission = outcome\n  reward R : real@traj on fission = 1\n  credit")],
         "RLC0105"),
    ],
)  # fmt: skip
def test_mistakes_with_recovery_groups_are_named(changes: list[tuple[str, str]], code: str) -> None:
    assert code in [d.code for d in checked(replaced(RECOVERY, *changes)).errors]


def test_a_test_is_on_the_recovery_groups() -> None:
    text = replaced(RECOVERY, ("  credit", "  reward R : real@traj on fission = 7 * outcome\n  credit"))
    block = '  test "t" on fission { given.outcome = [1, 0]\n expect x = R == [7, 0] }\n}\n'
    found = checked(text.replace("\n}\n", f"\n{block}"))
    verdicts, mistakes = run_tests(found)
    assert [v.failure for v in verdicts] == [None]
    assert not mistakes


# --------------------------------------------------------------------------------------------- measures and credit

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


# ---------------------------------------------------------------------------------------------------------- lints


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


# ---------------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("num(turn) > 30turns", "agent_turns and turns cannot be compared"),
        ("num(turn) + sum(num(token) over turn)", "agent_turns and tokens cannot be added"),
        ("max(num(turn), 30tokens)", "agent_turns and tokens cannot be compared"),
        ("clip(num(turn), 1agent_turns, 5tasks)", "agent_turns and tasks cannot be compared"),
        ("if outcome == 1 then 3steps else 4tokens", "steps and tokens cannot be taken for each other"),
        ("num(turn) in {1agent_turns, 2tokens}", "agent_turns and tokens cannot be compared"),
        ("num(turn) - 3tunrs", "unknown unit `tunrs`"),
        ("anneal(1, 0, over = 30turns)", "`over` counts steps, not turns"),
        ("num(turn) - longest", "agent_turns and tokens cannot be added"),
    ],
)
def test_units_that_do_not_mix_are_refused(expression: str, says: str) -> None:
    text = RECOVERY.replace("  credit", f"  param longest : int = 30tokens\n  let wrong = {expression}\n  credit")
    assert [d.message for d in checked(text).errors if d.code == "RLC0305"] == [says]


@pytest.mark.parametrize(
    "expression",
    [
        "num(turn) > 30agent_turns",
        "num(turn) - index(turn) + 1",
        "0.01 * num(turn) + 0.001 * sum(num(token) over turn)",
        "clip(num(turn) / 30agent_turns, 0, 1) + outcome",
        "sum(num(token) over turn) > longest",
        "min(num(turn), longest / 10tokens)",
        "35% * outcome",
        "stage.step < 10steps",
    ],
)
def test_numbers_without_a_unit_take_the_other_s_and_rates_have_none(expression: str) -> None:
    text = RECOVERY.replace("  credit", f"  param longest : int = 300tokens\n  let right = {expression}\n  credit")
    assert not checked(text).errors


@pytest.mark.parametrize("value", ["3steps * 2tokens", "3steps / 2tokens", "3steps + 2tokens", "3steps + 2"])
def test_units_of_params_do_not_mix_either(value: str) -> None:
    text = RECOVERY.replace("  credit", f"  param x : real = {value}\n  credit")
    assert "RLC0305" in [d.code for d in checked(text).errors]


def test_what_failed_is_compared_by_what_it_says_and_not_by_its_name() -> None:
    named = replaced(RECOVERY, ("within = train", "within = train  failed = lost"),
                     ("  credit", "  let lost : bool@traj = outcome == 0\n  credit"))  # fmt: skip
    other = named.replace("lost", "missed")
    a, b, c = (plan_of(t) for t in (named, other, named.replace("outcome == 0", "num(turn) > 9")))
    assert difference(Side("a", a), Side("b", b)).equal
    found = difference(Side("a", a), Side("c", c))
    assert found.verified
    assert [r.where for r in found.rows] == ["failed.fission"]
