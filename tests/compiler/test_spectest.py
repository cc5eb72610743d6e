"""Tests in a spec: literal trajectories, expectations with their parts, mistakes at their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.check import Checked, check, check_whole, run_tests
from rlspec.compiler.spectest import Verdict, evaluated
from rlspec.dsl.diagnostics import Diagnostic, Source, SpecError, render

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SPARSE = "variant sparse { patch.reward.R = outcome }"


def spec(body: str) -> Checked:
    text = SAMPLE[: SAMPLE.rindex("}")] + f"\n  {SPARSE}\n  {body}\n}}\n"
    return check(Source("test.rlspec", text))


def scored(body: str) -> tuple[list[Verdict], list[Diagnostic], Checked]:
    found = spec(body)
    assert found.plan is not None, [render(d, found.source) for d in found.errors]
    variants = {n: check(found.source, variant=n) for n in found.composition.variants}
    return *run_tests(found, variants), found


ONE = "given.outcome = 1  given.verdict = [1, -1, 0]"
FOUR = "given.outcome = [1, 0, 0, 1]  given.verdict = [[1], [-1, 0], [0, 0, 1], []]"


@pytest.mark.parametrize(
    "body",
    [
        f"{ONE}  expect r = R == 1 - 0.1 + 0.1 / 3",
        f"{ONE}  expect r = R > 0.9 and not R >= 0.94",
        f"{ONE}  expect turns = num(turn) == 3",
        f"{ONE}  expect v = verdict == [1, -1, 0]",
        f"{ONE}  expect signs = sum(verdict over turn) == 0",
        "given { env.verified = 1  verdict = 1 }  expect r = R == 1.1",
        "given.turns.score = [-1]  given.env.verified = 0  expect r = R == -0.1",
        f"{FOUR}  expect r = R == [1.1, -0.1, 1 / 30, 1]",
        f"{FOUR}  expect r = mean(outcome over traj) == 50%",
        f"{FOUR}  expect v = verdict == [[1], [-1, 0], [0, 0, 1], []]",
        "given.R = [1, 1, 0, 0]  expect a = abs(A - [0.866, 0.866, -0.866, -0.866]) < 0.001",
        "given.R = [1, 1, 1, 1]  expect dead = A == 0",
        "given.R = [1]  expect alone = A == 0",
        "variant = sparse  given.outcome = 1  expect r = R == 1",
    ],
)
def test_expectations_that_hold(body: str) -> None:
    verdicts, mistakes, found = scored(f'test "t" {{ {body} }}')
    assert [render(d, found.source) for d in mistakes] == []
    assert [v.failure for v in verdicts] == [None]


def test_a_failure_shows_the_values_of_its_parts() -> None:
    ((verdict,), mistakes, found) = scored(f'test "t" {{ {ONE}  expect once = 2 * R == 1.8 }}')
    assert mistakes == []
    assert verdict.failure is not None
    shown = render(verdict.failure, found.source)
    assert shown.startswith("error[RLC0802]: `once` does not hold")
    for part in ("2 * R = 1.8666", "R = 0.9333", "outcome = 1", "0.1 * sum(verdict over turn where verdict in {0, 1})"):
        assert part in shown
    assert "in test 't', on desk" in shown


def test_a_literal_is_no_part_worth_printing() -> None:
    ((verdict,), _, _) = scored(f'test "t" {{ {ONE}  expect once = R == -4.5 }}')
    assert verdict.failure is not None
    assert not any(note.startswith("-4.5") for note in verdict.failure.notes)


def test_a_failure_of_a_group_says_for_whom() -> None:
    ((verdict,), _, _) = scored(f'test "t" {{ {FOUR}  expect up = R > 0.5 }}')
    assert verdict.failure is not None
    assert "it holds for [true, false, false, true]" in verdict.failure.notes


MISTAKES = {
    "not given": ("given.outcome = 1  expect r = R == 1", "RLC0203", "`verdict`, which is not given"),
    "unknown given": ("given.outcme = 1  expect r = 1 == 1", "RLC0101", "did you mean `outcome`?"),
    "unknown measure": ("given.env.verifed = 1  expect r = 1 == 1", "RLC0109", "did you mean `verified`?"),
    "unknown part": ("given.trns.score = 1  expect r = 1 == 1", "RLC0101", "did you mean `turns`?"),
    "unknown name": (f"{ONE}  expect r = Q == 1", "RLC0101", "unknown name `Q`"),
    "out of range": ("given.outcome = 2  expect r = outcome == 2", "RLC0401", "is in {0, 1}, not 2"),
    "text for a number": ('given.outcome = "x"  expect r = outcome == 2', "RLC0201", 'not "x"'),
    "no condition": (f"{ONE}  expect r = R", "RLC0201", "a condition was expected"),
    "one list for a group": (
        "given.outcome = [1, 0]  given.verdict = [1]  expect r = R > 0",
        "RLC0803",
        "list of lists",
    ),
    "counts": ("given.outcome = [1, 0]  given.verdict = [[1]]  expect r = R > 0", "RLC0803", "different trajectories"),
    "uneven": ("given.verdict = [1, [0]]  expect r = verdict > 0", "RLC0803", "varies over turn"),
    "too deep": ("given.outcome = [[1]]  expect r = outcome > 0", "RLC0803", "varies over traj"),
    "list of another length": (f"{ONE}  expect r = verdict == [1, 2]", "RLC0803", "2 values for 3 members"),
    "given twice": ("given.outcome = 1  given.outcome = 0  expect r = outcome == 1", "RLC0105", "given twice"),
    "nothing expected": ("given.outcome = 1", "RLC0502", "expects nothing"),
    "unknown item": ("expcet r = 1 == 1  expect s = 1 == 1", "RLC0102", "did you mean `expect`?"),
    "nameless": ("expect = 1 == 1  expect s = 1 == 1", "RLC0207", "expect name = condition"),
    "unknown variant": ("variant = spars  expect s = 1 == 1", "RLC0101", "did you mean `sparse`?"),
    "given a block of nothing": ("given = 3  expect s = 1 == 1", "RLC0207", "given.outcome"),
}


@pytest.mark.parametrize(("body", "code", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_a_test_is_a_diagnostic_of_the_check(body: str, code: str, words: str) -> None:
    found = check_whole(spec(f'test "t" {{ {body} }}').source)
    (error,) = found.errors
    shown = render(error, found.source)
    assert error.code == code, shown
    assert words in shown
    place = next(n for n, line in enumerate(found.source.text.splitlines(), 1) if 'test "t"' in line)
    assert f"test.rlspec:{place}:" in shown


def test_a_failing_expectation_is_no_error_of_the_check() -> None:
    assert check_whole(spec(f'test "t" {{ {ONE}  expect r = R == 7 }}').source).errors == []


@pytest.mark.parametrize(("head", "code"), [("test", "RLC0108"), ('test "t" on home', "RLC0101")])
def test_a_wrong_head_is_reported(head: str, code: str) -> None:
    found = check_whole(spec(f"{head} {{ expect r = 1 == 1 }}").source)
    assert [d.code for d in found.errors] == [code]


def test_each_environment_has_its_own_formulas() -> None:
    text = SAMPLE.replace("  user customer", "  env home : shop { seed = 5 }\n  user customer")
    text = text.replace("R : real@traj in [-0.1, 1.1] =", "R : real@traj in [-0.1, 1.1] on desk =")
    text = text.replace("  advantage A", "  reward R : real@traj on home = 2 * outcome\n\n  advantage A")
    tests = """
      test "a" on home { given.outcome = 1  expect r = R == 2 }
      test "b" { given.outcome = 1  given.verdict = 1  expect r = R == 1.1 }
    """
    found = check(Source("test.rlspec", text[: text.rindex("}")] + tests + "}\n"))
    verdicts, mistakes = run_tests(found)
    assert [render(d, found.source) for d in [*found.errors, *mistakes]] == []
    assert [v.failure for v in verdicts] == [None, None]


def test_evaluated_describes_without_values_and_computes_with_them() -> None:
    experiment = spec("").experiment
    assert experiment is not None
    assert evaluated(experiment, "R", [], None) == "real@traj in [-0.1, 1.1]\ngive outcome, verdict for its value"
    assert evaluated(experiment, "R", ["outcome=1", "verdict=[1, 1]"], "desk") == "real@traj in [-0.1, 1.1]\n= 1.1"
    assert evaluated(experiment, "verdict > 0", ["verdict=[[1], [0, -1]]"], None).endswith("[[true], [false, false]]")
    assert evaluated(experiment, "2 ^ 10", [], None).endswith("\n= 1024")


@pytest.mark.parametrize(
    ("text", "givens", "env", "code"),
    [
        ("1 +", [], None, "RLC0005"),
        ("outcom", [], None, "RLC0101"),
        ("R", ["outcome=1"], None, "RLC0203"),
        ("R", ["outcome"], None, "RLC0"),
        ("R", ["outcme=1"], None, "RLC0101"),
        ("R", [], "dexk", "RLC0101"),
        ("R over", [], None, "RLC0005"),
    ],
)
def test_a_wrong_evaluation_is_refused(text: str, givens: list[str], env: str | None, code: str) -> None:
    experiment = spec("").experiment
    assert experiment is not None
    with pytest.raises(SpecError) as caught:
        evaluated(experiment, text, givens, env)
    assert caught.value.diagnostics[0].code.startswith(code)


@pytest.mark.parametrize("path", sorted((ROOT / "specs" / "papers").glob("*.rlspec")), ids=lambda p: p.stem)
def test_the_tests_of_the_papers_hold(path: Path) -> None:
    source = Source(str(path), path.read_text())
    found = check_whole(source)
    assert [render(d, source) for d in found.errors] == []
    verdicts, mistakes = run_tests(found, {n: check(source, variant=n) for n in found.composition.variants})
    assert verdicts
    assert mistakes == []
    assert [render(v.failure, source) for v in verdicts if v.failure is not None] == []


GROUP = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(-1, 1), max_size=4)), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)
@given(GROUP)
def test_scenes_agree_with_the_formula_by_hand(group: list[tuple[int, list[int]]]) -> None:
    experiment = spec("").experiment
    assert experiment is not None
    outcomes, verdicts = [o for o, _ in group], [v for _, v in group]
    text = evaluated(experiment, "R", [f"outcome={outcomes}", f"verdict={verdicts}"], None)
    by_hand = [o - 0.1 * (-1 in v) + (0.1 * sum(x for x in v if x >= 0) / len(v) if v else 0.0) for o, v in group]
    shown = text.rpartition("= ")[2].strip("[]").split(", ")
    assert [float(x) for x in shown] == pytest.approx(by_hand, abs=1e-9)
