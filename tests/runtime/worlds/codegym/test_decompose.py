"""The deterministic author: what becomes a tool, what is hidden, and what is refused and why."""

from __future__ import annotations

import pytest

from rlspec.runtime.worlds.codegym.decompose import NotDecomposed, class_name_of, design_of
from rlspec.runtime.worlds.codegym.guard import Unsafe, parsed
from rlspec.runtime.worlds.codegym.host import first_state, tool_table
from rlspec.runtime.worlds.codegym.jail import Jail, Job

SOLUTION = '''
def push(stack: list[int], x: int) -> None:
    """Push a number."""
    stack.append(x)


def top(stack: list[int]) -> int:
    """The top number."""
    return stack[-1]


def scale(x: int, by: int) -> int:
    """Scale a number."""
    return helper(x) * by


def helper(x: int) -> int:
    """Not a tool, because solve does not call it."""
    return x


def solve(numbers: list[int], grid: list[list[int]], k: int, word: str) -> int:
    """Do something with everything.

    Args:
        k: the factor
    """
    stack: list[int] = []
    for i, x in enumerate(numbers):
        if numbers[i] > k:
            push(stack, scale(x, by=k))
    if len(grid) > 1 and len(grid[0]) > 1:
        push(stack, grid[1][1] + len(word))
    return top(stack)
'''


def test_tools_hidden_inputs_and_state() -> None:
    design = design_of(SOLUTION, "solve", "do it", "It")
    told = {t.name: [p.name for p in t.parameters] for t in design.tools}
    assert told == {
        "count_numbers": [],
        "get_numbers": ["index"],
        "count_grid": [],
        "count_grid_columns": ["row"],
        "get_grid_cell": ["row", "column"],
        "get_k": [],
        "count_word": [],
        "push": ["x"],
        "top": [],
        "scale": ["x", "by"],
    }
    assert design.working == {"stack": "[]"}
    assert next(t for t in design.tools if t.name == "get_k").doc == "Read k (the factor)."


def test_the_solution_acts_through_tools_and_finds_the_same_answer(jail: Jail) -> None:
    design = design_of(SOLUTION, "solve", "do it", "It")
    given = {"numbers": [1, 5], "grid": [[1, 2], [3, 4]], "k": 2, "word": "ab"}
    shared = {"tools": tool_table(design), "main": "solve"}
    plain = jail.run(Job(design, 1, {"op": "reference", **shared, "items": [{"state": repr(given)}]}))
    solved = jail.run(
        Job(design, 2, {"op": "solve", **shared, "items": [{"state": first_state(design, given), "most": 40}]})
    )
    assert plain.value["results"][0]["answer"] == solved.value["results"][0]["answer"] == 6
    assert ["push", {"x": 10}] in solved.value["results"][0]["calls"]


def main(body: str, parameters: str = "numbers: list[int]") -> str:
    helper = 'def f(x: int) -> int:\n    """F."""\n    return x\n\n'
    return f'{helper}def solve({parameters}) -> int:\n    """S."""\n    {body}\n'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return sum(numbers)", "used as a whole"),
        ("return f(numbers[0:2])", "slice"),
        ("numbers[0] = 1\n    return 0", "changes its input"),
        ("numbers = [1]\n    return 0", "replaces its input"),
        ("return f(*numbers)", "unpacked"),
        ("return max(map(f, [1]))", "passes `f` on"),
        ("return f(1, 2)", "other arguments"),
    ],
)
def test_what_is_not_decomposed_is_refused(body: str, why: str) -> None:
    with pytest.raises(NotDecomposed, match=why):
        design_of(main(body), "solve", "s", "S")


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from math import *",
        "x = open('f')",
        "def f():\n    return ().__class__",
        "def f():\n    return eval('1')",
        "def f(_x):\n    return _x",
        "class A: pass",
        "@f\ndef g(): pass",
        "def f():\n    return '{0.__class__}'.format(1)",
        "async def f(): pass",
        "def f(): global x",
        "print(1)",
        "def f(): return " + "(" * 90 + "1" + ")" * 90 + " +",
        "x = " + "1 + " * 7000 + "1",
    ],
)
def test_the_guard_refuses(source: str) -> None:
    with pytest.raises(Unsafe):
        parsed(source)


def test_class_names() -> None:
    assert class_name_of("total.even_squares") == "TotalEvenSquares"
    assert class_name_of("3sum") == "E3sum"
