"""From problems to admitted environments: every shipped problem, every filter, and authors that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym import decompose
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.problems import SHIPPED, Problem, read_problems
from rlspec.runtime.worlds.codegym.store import made_for, read, write
from rlspec.runtime.worlds.codegym.synthesis import SyntaxTree, synthesise
from rlspec.runtime.worlds.codegym.yields import Made

PROBLEMS = {p.id: p for p in read_problems(SHIPPED)}
HELD_OUT = {"product", "search", "gap"}


def counts(made: Made) -> dict[str, tuple[int, int]]:
    return {c.filter.split(":")[0]: (c.problems, c.tasks) for c in made.table}


@pytest.fixture(scope="module")
def shipped() -> Made:
    """All shipped problems, three configurations of each, attempts left out."""
    settings = Synthesis.model_validate({"configurations": 3, "admit": {"attempts": 0, "solve_rate": 1}})
    return synthesise(settings, list(PROBLEMS.values()))


def test_shipped_problems_are_many_families_of_rising_difficulty() -> None:
    assert len(PROBLEMS) >= 60
    assert len({p.family for p in PROBLEMS.values()} - HELD_OUT) >= 6
    assert {p.family for p in PROBLEMS.values()} >= HELD_OUT
    for problem in PROBLEMS.values():
        sizes = [len(json.dumps([c.input for c in problem.configurations if c.level == level])) for level in
                 ("easy", "medium", "hard")]  # fmt: skip
        assert sizes == sorted(sizes), problem.id
        assert len(problem.tests) >= 10


def test_every_shipped_problem_is_solved_through_its_tools(shipped: Made) -> None:
    found = counts(shipped)
    everything = (len(PROBLEMS), 3 * len(PROBLEMS))
    for name in ("decomposed", "unit tests", "references", "solved", "replayed"):
        assert found[name] == everything, "\n".join(shipped.lines())
    assert found["tools"][0] >= 60


def test_whoever_submits_without_looking_is_nearly_always_wrong(shipped: Made) -> None:
    whole = Synthesis.model_validate({"admit": {"attempts": 0, "solve_rate": 1, "solution_calls": [1, 256]}})
    made = synthesise(whole, [PROBLEMS["count.is_even"], PROBLEMS["stack.add"], PROBLEMS["product.halve"]])
    for environment in made.environments:
        answers = [json.dumps(row.reference) for row in environment.rows]
        assert max(map(answers.count, answers)) <= len(answers) / 3


def settings(**admit: Any) -> Synthesis:
    return Synthesis.model_validate({"configurations": 6, "limits": {"reference_within": 1}, "admit": admit})


def test_the_four_numbers_each_let_less_through() -> None:
    some = [p for p in PROBLEMS.values() if p.family in ("total", "search")]
    loose = {"solution_calls": [1, 256], "distinct_tools": 0, "solve_rate": 1, "attempts": 0}
    everything = counts(synthesise(settings(**loose), some))
    assert everything["solve rate"][1] == 6 * len(some)
    short = counts(synthesise(settings(**{**loose, "solution_calls": [10, 15]}), some))
    assert 0 < short["calls"][1] < everything["solve rate"][1]
    tools = counts(synthesise(settings(**{**loose, "distinct_tools": 5}), some))
    assert 0 < tools["tools"][1] < everything["solve rate"][1]
    hard = counts(synthesise(settings(**{**loose, "solve_rate": 0, "attempts": 8}), some))
    assert 0 < hard["solve rate"][1] < everything["solve rate"][1]


def test_a_search_over_tool_calls_finds_short_coincidences_that_the_filter_throws_out() -> None:
    found = Synthesis.model_validate({"solver": "search", "configurations": 6, "admit": {"attempts": 0}})
    table = counts(synthesise(found, [PROBLEMS["total.double"], PROBLEMS["extreme.biggest_double"]]))
    assert table["solved"][0] >= 1
    assert table["calls"][1] < table["solved"][1]


def variant(base: str, **changes: Any) -> Problem:
    return PROBLEMS[base].model_copy(update={"id": "it", **changes})


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        ("return 2 * x", "return 3 * x", "unit tests", "0 of 10 tests pass"),
        ("return total", "return sum(numbers)", "decomposed", "used as a whole"),
        ("return 2 * x", "import os\n    return 2 * x", "decomposed", "import of `os`"),
        ("return 2 * x", "while True:\n        pass", "unit tests", "0 of 10 tests pass"),
        ("total = 0", "total = 0\n    numbers[0] = 1", "decomposed", "changes its input"),
    ],
)
def test_a_bad_solution_stops_where_it_is_bad(old: str, new: str, where: str, why: str) -> None:
    text = PROBLEMS["total.double"].solution
    assert old in text
    problem = variant("total.double", solution=text.replace(old, new))
    limits = settings().limits.model_copy(update={"reference_within": 0.2, "environment_within": 1})
    quick = settings().model_copy(update={"limits": limits})
    made = synthesise(quick, [problem])
    count = next(c for c in made.table if c.filter.startswith(where))
    assert count.problems == 0
    assert any(why in reason for reason in count.why), count.why


class Liar(SyntaxTree):
    """Its solutions guess, cheat or crash; only its fourth is honest."""

    LIES = (
        "def solve():\n    return 1",
        "def solve():\n    return add(1, 2)",
        "def solve():\n    return tool_('get_numbers', index=99)",
    )

    def solution(self, problem: Problem, design: Design, number: int) -> Design | None:
        if number < len(self.LIES):
            return design.model_copy(update={"solve": self.LIES[number]})
        return design


@pytest.mark.parametrize(("tries", "solved"), [(3, 0), (4, 1)])
def test_an_author_is_believed_only_what_its_calls_show(tries: int, solved: int) -> None:
    made = synthesise(settings(attempts=0).model_copy(update={"solutions": tries}), [PROBLEMS["total.double"]], Liar())
    assert counts(made)["solved"][0] == solved


def test_a_folder_comes_back_as_it_was(shipped: Made, tmp_path: Path) -> None:
    used = Synthesis()
    write(shipped, used, tmp_path / "envs")
    assert read(tmp_path / "envs") == sorted(shipped.environments, key=lambda e: e.id)
    with pytest.raises(Refusal, match="RLC0702"):
        write(shipped, used, tmp_path / "envs")
    damaged = next((tmp_path / "envs").glob("total*.json"))
    damaged.write_text(damaged.read_text().replace('"rows"', '"lines"'))
    with pytest.raises(Refusal, match="RLC0701"):
        read(tmp_path / "envs")
    with pytest.raises(Refusal, match="RLC0701"):
        read(tmp_path)


def test_the_cache_is_asked_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text(PROBLEMS["total.double"].model_dump_json() + "\n")
    wanted = settings(attempts=0).model_copy(update={"problems": str(path)})
    folder = made_for(wanted, tmp_path / "cache")
    before = (folder / "codegym.json").stat().st_mtime_ns
    assert made_for(wanted, tmp_path / "cache") == folder
    assert (folder / "codegym.json").stat().st_mtime_ns == before
    path.write_text(path.read_text().replace("twice each number", "two times each number"))
    assert made_for(wanted, tmp_path / "cache") != folder


def test_bad_problem_files_name_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "x"}\nnot json\n')
    with pytest.raises(Refusal, match=r"line 1: .*line 2: "):
        read_problems(str(path))
    with pytest.raises(Refusal, match="RLC0701"):
        read_problems(str(tmp_path / "none.jsonl"))


def test_the_deterministic_author_needs_no_model() -> None:
    assert decompose.author(PROBLEMS["bank.plain_first"]).author == "deterministic"
