"""Problems with one answer: where they come from, when an answer is right, and a step that mixes them with tools."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.answers import VerifiedAnswers
from rlspec.compiler.catalog.wording import Wording
from rlspec.compiler.check import check
from rlspec.dsl.diagnostics import Source
from rlspec.runtime.demonstrations import demonstrate
from rlspec.runtime.launch import launch
from rlspec.runtime.record.store import read
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.answers import AnswerWorld, answer_in, number, right
from rlspec.runtime.worlds.protocol import InfraFailure, Message, Task
from rlspec.runtime.worlds.shop.judge import OracleJudgement
from rlspec.runtime.worlds.wording import WordingJudge

MIXED = (Path(__file__).parents[2] / "mixed.rlspec").read_text()


def verdict(world: AnswerWorld, task: Task, said: str) -> dict[str, Any]:
    session = world.reset(task)
    session.hear(said)
    return session.fork().measure()


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (r"so \boxed{3} , no , \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("the answer is 7", "7"),
        ("answer : 12\nthat was it", "12"),
        ("3 plus 4 makes 7 .", "7"),
        ("a dog", "a dog"),
        ("", ""),
    ],
)
def test_the_last_answer_counts(said: str, answer: str) -> None:
    assert answer_in(said) == answer


@pytest.mark.parametrize(
    ("said", "answer", "same"),
    [
        ("1,000", "1000", True), ("0.5", "1/2", True), ("$ 7 .", "7", True), ("-3", "3", False), ("X + 1", "x+1", True),
        ("1/0", "1", False), ("7x", "7", False), ("1,00", "100", False),
    ],
)  # fmt: skip
def test_numbers_are_compared_as_numbers_and_texts_as_texts(said: str, answer: str, same: bool) -> None:
    assert right(said, answer) == same


@given(st.fractions(max_denominator=999))
def test_a_number_is_read_in_every_spelling(value: Fraction) -> None:
    assert number(str(value)) == value
    assert right(f"{value.numerator:,}/{value.denominator}", str(value))


@given(st.text(max_size=30), st.text(max_size=8))
def test_nothing_that_is_said_breaks_the_check(said: str, answer: str) -> None:
    assert right(answer_in(said), answer) in (True, False)


def test_sums_are_the_same_everywhere_and_splits_share_no_problem() -> None:
    world, again = AnswerWorld(VerifiedAnswers(source="arithmetic")), AnswerWorld(VerifiedAnswers(source="arithmetic"))
    backwards = [again.task("train", n).instruction for n in reversed(range(40))]
    assert [world.task("train", n).instruction for n in range(40)] == backwards[::-1]
    tests = {world.task("test", n).instruction for n in range(60)}
    assert not tests & {world.task("train", n).instruction for n in range(200)}
    for n in range(20):
        task = world.task("train", n)
        answer = eval(task.instruction.removesuffix("= ?"), {})
        assert verdict(world, task, f"answer : {answer}") == {"verified": 1, "answered": 1, "dropped_rows": 0}
        assert verdict(world, task, f"answer : {answer + 1}")["verified"] == 0
        assert verdict(world, task, "")["answered"] == 0


def test_rows_without_an_answer_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [
        {"problem": "1 + 1 ?", "answer": "2", "solution": "..."},
        {"problem": "2 + 2 ?", "answer": ""},
        {"problem": "3 + 3 ?", "answer": None},
        {"problem": "4 + 4 ?"},
        {"problem": "5 + 5 ?", "answer": 10},
    ]
    path = tmp_path / "deepscaler.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    world = AnswerWorld(VerifiedAnswers(source=str(path), test_share=0.01))
    seen = {world.task("train", n).instruction for n in range(2)}
    assert seen == {"1 + 1 ?", "5 + 5 ?"} == {world.task("train", n).instruction for n in (2, 3)}
    task = next(t for n in range(2) if "5" in (t := world.task("train", n)).instruction)
    assert verdict(world, task, r"\boxed{10}") == {"verified": 1, "answered": 1, "dropped_rows": 3}
    with pytest.raises(Refusal, match="does not say its difficulty"):
        AnswerWorld(VerifiedAnswers(source=str(path), difficulty="medium"))
    with pytest.raises(Refusal, match="RLC0701"):
        AnswerWorld(VerifiedAnswers(source=str(tmp_path / "missing.jsonl")))
    path.write_text("[1]\n")
    with pytest.raises(Refusal, match=":1: no object"):
        AnswerWorld(VerifiedAnswers(source=str(path)))


def test_reasoning_gym_makes_and_checks_tasks_offline() -> None:
    settings = ("min_terms=2", "max_terms=2", "min_digits=1", "max_digits=1")
    world = AnswerWorld(VerifiedAnswers(source="reasoning-gym/chain_sum", settings=settings))
    task = world.task("train", 3)
    problem = task.payload["problem"]
    assert verdict(world, task, f"the answer is {problem.answer}")["verified"] == 1
    assert verdict(world, task, f"the answer is {int(problem.answer) + 1}")["verified"] == 0
    assert task.instruction not in {world.task("test", n).instruction for n in range(20)}
    for bad in ({"source": "reasoning-gym/no_such"}, {"settings": ("no_such=1",)}):
        with pytest.raises(Refusal, match="reasoning-gym makes no"):
            AnswerWorld(VerifiedAnswers.model_validate({"source": "reasoning-gym/chain_sum", **bad}))


def test_wording_counts_words_and_declared_reflection() -> None:
    judge = WordingJudge(Wording(reflection=("wait", "let me check")))
    dialogue = [
        Message("user", "wait , what ?"),
        Message("agent", "Wait , two words"),
        Message("agent", "waiting for let me  check it"),
        Message("agent", "awaited"),
    ]
    found = judge.measure(Task("t", "train", "", ()), dialogue, np.random.default_rng(0))
    assert found == {"length": [4, 6, 1], "reflects": [1, 1, 0]}


class Lines:
    """A reporter that keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def begin(self, what: str, total: int | None) -> None: ...

    def note(self, text: str) -> None: ...

    def line(self, metrics: Any) -> None:
        self.lines.append(dict(metrics))


def test_a_step_mixes_two_sources_and_survives_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One source has a judge that fails for half of the trajectories, the other has none."""
    judged = OracleJudgement.measure
    asked: list[str] = []

    def failing(self: OracleJudgement, task: Task, dialogue: Any, rng: Any) -> dict[str, Any]:
        asked.append(task.id)
        if int(task.id.rpartition(".")[2]) % 2:
            raise InfraFailure("judge", "no answer")
        return judged(self, task, dialogue, rng)

    monkeypatch.setattr(OracleJudgement, "measure", failing)
    found = check(Source("mixed.rlspec", MIXED))
    assert found.plan is not None, found.errors
    shown = demonstrate(found.plan, "coldstart", found.plan.stages[0].component(), 0, 40)  # type: ignore[arg-type]
    assert 8 < sum(not dialogue.tools for dialogue in shown) < 32
    reporter = Lines()
    launch(found.plan, MIXED, tmp_path / "run", "local", reporter)
    steps = [read(path) for path in sorted((tmp_path / "run" / "trajectories").glob("train*.parquet"))]
    trajectories = [t for step in steps for t in step]
    assert all(t.failure is None for t in trajectories)
    for step in steps:
        for group in {t.group for t in step}:
            members = [t for t in step if t.group == group]
            assert len({t.env for t in members}) == 1
            assert sum(t.scores["A"] for t in members) == pytest.approx(0.0, abs=1e-9)
    for t in trajectories:
        if t.env == "math":
            assert t.ledger.turns == 1
            assert "turns.score" not in t.measures
            short = np.exp(-t.measures["wording.length"][0])
            assert t.scores["R"] == pytest.approx(10 * t.measures["math.verified"] + short)
        elif t.measures["turns.outcome_only"]:
            assert t.measures["turns.score"] == [0] * t.ledger.turns
            assert t.scores["R"] == 10 * t.measures["desk.verified"]
    assert any(t.measures["math.answered"] for t in trajectories if t.env == "math")
    spared = {t.measures["turns.outcome_only"] for t in trajectories if t.env == "desk"}
    assert spared == {0, 1}
    last = reporter.lines[-1]
    assert sum(line["turns.outcome_only"] for line in reporter.lines if "turns.outcome_only" in line) > 0
    assert last["math.dropped_rows"] == 0
    assert {"desk.reward", "math.reward", "wording.length", "wording.reflects"} <= last.keys()
    odd = [key for key in asked if int(key.rpartition(".")[2]) % 2]
    assert len(odd) % 2 == 0  # each was asked twice
