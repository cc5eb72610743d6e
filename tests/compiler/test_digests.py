"""Digests: what each of the four tells apart, and that the value digest knows meaning from spelling."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench_module import bench_module
from rlspec.compiler.check import check
from rlspec.compiler.digests import Side, side_of
from rlspec.compiler.form import form_of
from rlspec.compiler.normal import Node, shape
from rlspec.compiler.notation import text_of
from rlspec.compiler.plan import Plan
from rlspec.dsl import parser
from rlspec.dsl.diagnostics import Source, SpecError

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "sample.rlspec").read_text()
SPECS = [*sorted((ROOT / "examples").glob("*.rlspec")), *sorted((ROOT / "specs" / "papers").glob("*.rlspec"))]


rewrites = bench_module("language/rewrites")


def side(text: str) -> Side:
    return side_of(Source("test.rlspec", text))


def replaced(old: str, new: str) -> str:
    assert old in SAMPLE, f"the sample no longer says {old!r}"
    return SAMPLE.replace(old, new, 1)


def reward(text: str) -> Node:
    """The normal form of a formula in place of the sample's reward."""
    head, _, rest = SAMPLE.partition("  reward R")
    spec = f"{head}  reward R : real@traj = {text}\n{rest[rest.index('  advantage') :]}"
    return side(spec).form.formulas["reward", "R", "desk"]


def test_each_digest_has_its_scheme_and_64_hex_digits() -> None:
    found = side(SAMPLE).digests
    for value, scheme in zip((found.text, found.syntax, found.value, found.graph), "tavg", strict=True):
        assert value is not None
        name, digits = value.split(":")
        assert (name, len(digits), int(digits, 16) >= 0) == (f"{scheme}1", 64, True)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("  # One scalar", "\n  # One  scalar", "avg"),
        ("lr = 3e-4", "lr = 0.0003", "vg"),
        ("lr = 3e-4", 'lr = chosen(3e-4, "tried three")', "vg"),
        ('title = "A shop', 'title = "Another shop', "vg"),
        ("clip_low = 0.2", "", "vg"),  # its default
        ("outcome\n      - 0.1 * indicator(any(verdict == -1 over turn))",
         "-0.1 * indicator(any(verdict == -1 over turn))\n      + outcome", "v"),
        ("lr = 3e-4", "lr = 4e-4", ""),
        ("std.grpo(R)", "std.rloo(R)", ""),
        ("  policy agent", "  resources box : machine { workers = 3 }\n  policy agent", "g"),
    ],
)  # fmt: skip
def test_what_each_digest_tells_apart(old: str, new: str, same: str) -> None:
    before, after = side(SAMPLE).digests, side(replaced(old, new)).digests
    pairs = {"t": (before.text, after.text), "a": (before.syntax, after.syntax),
             "v": (before.value, after.value), "g": (before.graph, after.graph)}  # fmt: skip
    assert "".join(name for name, (a, b) in pairs.items() if a == b) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("outcome + 0.5", "0.5 + outcome"),
        ("2 * outcome - outcome", "outcome"),
        ("outcome / 10", "0.1 * outcome"),
        ("10% * outcome", "outcome * 0.1"),
        ("-(outcome - 1)", "1 - outcome"),
        ("indicator(outcome > 0)", "indicator(0 < outcome)"),
        ("sum(verdict over turn where verdict in {0, 1})", "sum(verdict over turn where verdict == 1 or verdict == 0)"),
        ("indicator(any(not (verdict == 1) over turn))", "indicator(any(verdict != 1 over turn))"),
        ("(if outcome == 1 then 2 else 3)", "(if not (outcome == 1) then 3 else 2)"),
        ("max(outcome, mean(verdict over turn, empty = 0))", "max(mean(verdict over turn, empty = 0), outcome)"),
    ],
)
def test_equal_formulas_have_one_normal_form(one: str, other: str) -> None:
    assert reward(one).key == reward(other).key, (text_of(reward(one)), text_of(reward(other)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("outcome + 0.5", "outcome - 0.5"),
        ("outcome / 3", "0.333333 * outcome"),
        ("indicator(outcome > 0)", "indicator(outcome >= 0)"),
        ("any(verdict == 1 over turn)", "all(verdict == 1 over turn)"),
        ("clip(outcome, 0, 0.5)", "clip(outcome, 0, 0.6)"),
        ("mean(verdict over turn, empty = 0)", "mean(verdict over turn, empty = 1)"),
    ],
)
def test_other_formulas_have_another(one: str, other: str) -> None:
    one, other = (f"indicator({t})" if t.startswith(("any", "all")) else t for t in (one, other))
    assert reward(one).key != reward(other).key


def test_the_shape_forgets_numbers_and_nothing_else() -> None:
    assert shape(reward("2 * outcome + 1")) == shape(reward("3 * outcome + 7"))
    assert shape(reward("clip(outcome, 0, 0.5)")) == shape(reward("clip(outcome, 0, 0.6)"))
    assert shape(reward("2 * outcome + 1")) != shape(reward("2 * abs(outcome) + 1"))


@pytest.mark.parametrize("text", ["10 * outcome - 5 * indicator(any(verdict == -1 over turn))", "outcome / num(turn)",
                                  "clip(sum(verdict over turn where verdict in {0, 1}) / num(turn), -5, 5) + 1",
                                  "(1 - outcome) * 2 + outcome ^ 2"])  # fmt: skip
def test_the_text_of_a_normal_form_is_a_formula_of_that_form(text: str) -> None:
    assert reward(text_of(reward(text))).key == reward(text).key


def test_formulas_that_share_their_parts_are_hashed_once() -> None:
    """Written out, the last of these has 2^60 terms."""
    lets = "\n".join(f"  let x{n} = abs(x{n - 1}) * x{n - 1}" for n in range(1, 61))
    text = replaced("  reward R", f"  let x0 = outcome\n{lets}\n  let unused_reward = x60\n  reward R")
    text = text.replace("      outcome\n", "      outcome + 0 * min(x60, 0.1)\n").replace("in [-0.1, 1.1]", "")
    assert len(text_of(side(text).form.formulas["reward", "R", "desk"])) < 10_000


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_stored_plan_has_the_value_digest_of_its_spec(path: Path) -> None:
    plan = check(Source(str(path), path.read_text())).plan
    assert plan is not None
    again = Plan.model_validate_json(plan.model_dump_json())
    assert form_of(again).digest == form_of(plan).digest


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(seed=st.integers(0, 2**32))
def test_rewrites_that_keep_the_meaning_keep_the_value_digest(path: Path, seed: int) -> None:
    before = side(path.read_text())
    file = parser.parse(Source("x", path.read_text()))[0]
    text, names = rewrites.rewritten(file, random.Random(seed))
    try:
        after = side(text)
    except SpecError:
        return  # the checker's intervals depend on how a sum is written; what it refuses has no digest
    assert after.form.digest == before.form.digest, (names, text)
