"""The author that is a language model, and the attempting policy that is one. Both behind an endpoint.

The author is asked for a decomposed solution, which then goes the way of every other: syntax tree, tools, unit tests,
reference answers, jail. Asked for further solutions, it writes functions that act through the tools alone and cannot
see anything else. Nothing that it says is believed: what does not parse, passes the guard or solves every task is not
used, and the reason is shown to it once or twice.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.worlds.codegym import decompose, guard
from rlspec.runtime.worlds.codegym.environment import Design, Row
from rlspec.runtime.worlds.codegym.host import Host
from rlspec.runtime.worlds.codegym.jail import Jail, Limits
from rlspec.runtime.worlds.codegym.problems import Problem
from rlspec.runtime.worlds.codegym.toolschema import BadTool
from rlspec.runtime.worlds.protocol import Call

CORRECTIONS = 2

DECOMPOSE = """Rewrite a Python solution so that its steps become tools of an environment.

Rules:
- Every helper function is a plain module-level function with type annotations, a return annotation and a docstring
  with an `Args:` section. No defaults, no classes, no decorators, no globals, no private names.
- The main function `{main}` keeps its name, parameters and types, has a docstring, and only steers: loops, conditions,
  calls of helpers. All computing is done by at least four small helpers.
- `{main}` reads its inputs piece by piece: `len(x)`, `x[i]`, loops over x, single numbers and texts. It never uses a
  whole list as a value, except as an argument named like the parameter of the helper that takes it.
- A container that helpers change is started from a literal at the top of `{main}` and passed under the helpers' own
  parameter name.
- Imports only of: {modules}.

The task:
{statement}

The solution:
{solution}
"""

SOLVE = """Write a Python function `{main}()` without parameters that solves a task by calling tools and returns the
answer.

The inputs are hidden; only tools show them. Call a tool with `tool_("name", parameter=value)`; it returns the tool's
result. Nothing else can be called but Python's plain builtins.

The task:
{statement}

The tools:
{tools}
"""

ATTEMPT = (
    "Solve the task with the tools, one call per message. The inputs are hidden; tools show them. Submit the answer "
    "with Done; only the first submission counts."
)


class Decomposed(BaseModel):
    """What the author writes: the whole module."""

    solution: str


class Written(BaseModel):
    """What a solution is: the text of one function."""

    code: str


def endpoint_of(settings: Synthesis, model: str) -> Endpoint:
    """The endpoint that the stage declares."""
    return Endpoint(model, settings.endpoint, patience=Patience(within=settings.answer_within))


class LlmAuthor:
    """See the module."""

    def __init__(self, settings: Synthesis) -> None:
        self.temperature = settings.temperature
        self.endpoint = endpoint_of(settings, settings.model)

    def design(self, problem: Problem) -> Design:
        """The environment of a problem, by a decomposition that the model writes.

        Raises:
            NotDecomposed, guard.Unsafe, BadTool: the last of its tries is not one.
            InfraFailure: the endpoint failed.
        """
        text = DECOMPOSE.format(
            main=problem.main,
            modules=", ".join(guard.MODULES),
            statement=problem.statement,
            solution=problem.solution,
        )
        messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
        for left in reversed(range(CORRECTIONS + 1)):
            written = self.endpoint.fill(messages, Decomposed, self.temperature)
            try:
                name = decompose.class_name_of(problem.id)
                made = decompose.design_of(written.solution, problem.main, problem.statement, name)
                return made.model_copy(update={"author": "llm"})
            except (decompose.NotDecomposed, guard.Unsafe, BadTool) as error:
                if not left:
                    raise
                messages += [
                    {"role": "assistant", "content": json.dumps({"solution": written.solution})},
                    {"role": "user", "content": f"This cannot be used: {error}. Write all of it again."},
                ]
        raise AssertionError("the last try returns or raises")

    def solution(self, problem: Problem, design: Design, number: int) -> Design | None:
        """Its own decomposition first, then functions that it writes against the tools. Raises as `design`."""
        if number == 0:
            return design
        text = SOLVE.format(main=design.main, statement=problem.statement, tools=design.signatures())
        written = self.endpoint.fill([{"role": "user", "content": text}], Written, self.temperature)
        guard.parsed(written.code)
        return design.model_copy(update={"solve": written.code})


class LlmPolicy:
    """Attempts a task as an agent does, call by call, with the tools' schemas."""

    def __init__(self, settings: Synthesis, jail: Jail) -> None:
        self.settings = settings
        self.endpoint = endpoint_of(settings, settings.admit.policy_model or settings.model)
        self.host = Host(jail, Limits(memory=settings.limits.memory_mib << 20))

    def attempt(self, problem: Problem, design: Design, row: Row, number: int) -> Any:
        """The answer that it submits; None when it submits none within the calls that a task may have. Raises
        InfraFailure when endpoint or sandbox fail: that is no failed attempt."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": ATTEMPT},
            {"role": "user", "content": design.statement},
        ]
        handle = self.host.open(design, row.input)
        try:
            for step in range(1, self.settings.admit.solution_calls[1] + 1):
                said = self.endpoint.message(messages, self.settings.temperature, tools=design.schemas())
                calls = said.get("tool_calls") or []
                if not calls:
                    return None
                first = calls[0]
                messages.append({"role": "assistant", "content": said.get("content") or "", "tool_calls": [first]})
                observation = self.host.step(handle, step, _call(first["function"]))
                finished, answer = self.host.submitted(handle)
                if finished:
                    return answer
                messages.append({"role": "tool", "tool_call_id": first.get("id", ""), "content": observation.text})
            return None
        finally:
            self.host.close(handle)


def _call(function: dict[str, Any]) -> Call:
    """A call as the model wrote it; arguments that are no object are none, and the environment says what is missing."""
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    return Call(str(function.get("name", "")), arguments if isinstance(arguments, dict) else {})
