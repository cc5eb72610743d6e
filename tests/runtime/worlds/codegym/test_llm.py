"""The author that is a language model: a server on the loopback writes what a model would, good and bad."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.llm import LlmAuthor
from rlspec.runtime.worlds.codegym.problems import SHIPPED, Problem, read_problems
from rlspec.runtime.worlds.codegym.synthesis import synthesise
from rlspec.runtime.worlds.codegym.yields import Made

DECOMPOSED = next(p for p in read_problems(SHIPPED) if p.id == "total.double")
PLAIN = DECOMPOSED.model_copy(
    update={
        "id": "plain",
        "configurations": DECOMPOSED.configurations[:4],
        "solution": 'def solve(numbers: list[int]) -> int:\n    """Add up."""\n    return 2 * sum(numbers)\n',
    }
)


def synthesised(model: ModelServer, problem: Problem, **fields: Any) -> Made:
    given = {"author": "llm", "model": "m", "endpoint": model.url, "admit": {"attempts": 0}, **fields}
    return synthesise(Synthesis.model_validate(given), [problem])


def written(**fields: str) -> str:
    return f"Sure:\n```json\n{json.dumps(fields)}\n```"


def test_a_plain_solution_becomes_an_environment_once_the_model_decomposes_it(model: ModelServer) -> None:
    model.says(written(solution=PLAIN.solution), written(solution=DECOMPOSED.solution))
    made = synthesised(model, PLAIN)
    (environment,) = made.environments
    assert environment.design.author == "llm"
    assert "used as a whole" in json.dumps(model.seen[1])
    assert all(len(row.calls) >= 10 for row in environment.rows)


def test_what_the_model_cannot_decompose_is_counted_and_left_out(model: ModelServer) -> None:
    model.answer = lambda request: written(solution="import os\ndef solve(numbers: list[int]) -> int:\n    return 1\n")
    made = synthesised(model, PLAIN)
    assert made.environments == []
    (reason,) = made.table[0].why
    assert reason.startswith("line 1: import of `os`")


def test_a_wrong_decomposition_fails_the_unit_tests(model: ModelServer) -> None:
    model.answer = lambda request: written(solution=DECOMPOSED.solution.replace("2 * x", "3 * x"))
    made = synthesised(model, PLAIN)
    assert [(c.filter, c.problems) for c in made.table[:2]] == [("decomposed", 1), ("unit tests: passed", 0)]


def test_a_model_that_never_answers_in_form_is_a_failure_not_a_verdict(model: ModelServer) -> None:
    model.answer = lambda request: "I would rather not."
    with pytest.raises(Refusal, match=r"RLC0708.*no valid answer"):
        synthesised(model, PLAIN)


def test_one_lost_problem_of_many_is_left_out_and_counted(model: ModelServer) -> None:
    several = [PLAIN.model_copy(update={"id": f"p{n}"}) for n in range(4)]

    def reply(request: dict[str, Any]) -> str:
        return "I would rather not." if len(model.seen) <= 3 else written(solution=DECOMPOSED.solution)

    model.answer = reply
    used = Synthesis.model_validate({"author": "llm", "model": "m", "endpoint": model.url, "admit": {"attempts": 0}})
    made = synthesise(used, several)
    assert [e.id for e in made.environments] == ["p1", "p2", "p3"]
    (reason,) = made.table[0].why
    assert reason.startswith("lost: m at http:")
    assert "no valid answer" in reason


SOLVE = """def solve():
    total = 0
    for i in range(tool_("count_numbers")):
        total = tool_("add", a=total, b=tool_("double", x=tool_("get_numbers", index=i)))
    return total
"""


def test_later_solutions_act_through_the_tools_alone(model: ModelServer) -> None:
    """Of two written solutions the first reaches for a helper, which is not there for it; the second works."""
    cheat = "def solve():\n    return add(1, 2)\n"
    solutions = iter([cheat, SOLVE])

    def reply(request: dict[str, Any]) -> str:
        if "tools of an environment" in request["messages"][0]["content"]:
            return written(solution=DECOMPOSED.solution)
        return written(code=next(solutions))

    model.answer = reply
    author = LlmAuthor(Synthesis.model_validate({"author": "llm", "model": "m", "endpoint": model.url}))
    design = author.design(PLAIN)

    class Later:
        """The same author, its own decomposition left out."""

        def design(self, problem: Problem) -> Any:
            return design

        def solution(self, problem: Problem, design: Any, number: int) -> Any:
            return author.solution(problem, design, number + 1) if number < 2 else None

    used = Synthesis.model_validate({"admit": {"attempts": 0}})
    made = synthesise(used, [PLAIN], Later())
    assert [name for name, _ in made.environments[0].rows[0].calls[:4]] == [
        "count_numbers",
        "get_numbers",
        "double",
        "add",
    ]


def test_an_attempting_model_plays_by_calls_and_its_rate_decides(model: ModelServer) -> None:
    """It reads one number and submits twice that: wrong here, so the tasks are hard enough for it."""

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        said = [m for m in request["messages"] if m["role"] == "tool"]
        name, given = ("get_numbers", {"index": 0}) if not said else ("Done", {"answer": 2 * int(said[-1]["content"])})
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        return {"content": None, "tool_calls": [call]}

    model.answer = reply
    made = synthesised(
        model,
        DECOMPOSED.model_copy(update={"configurations": DECOMPOSED.configurations[:2]}),
        author="deterministic",
        admit={"attempts": 1, "policy": "llm"},
    )
    assert [row.solve_rate for row in made.environments[0].rows] == [0.0, 0.0]
    assert len(model.seen) == 4
