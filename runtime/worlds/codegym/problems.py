"""Coding problems, one JSON object a line: a statement, a solution, unit tests, and configurations.

{"id": "total.squares", "family": "total", "statement": "...", "solution": "def add(...): ...\\ndef solve(...): ...",
 "main": "solve", "tests": [{"input": {"numbers": [1, 2]}, "output": 5}],
 "configurations": [{"level": "easy", "input": {"numbers": [3, 4, 5]}}], "comparator": {"kind": "exact"}}
"""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlspec.runtime.refusal import Refusal

SHIPPED, SHORT = "shipped", "short"
FILES = {SHIPPED: "problems.jsonl", SHORT: "short.jsonl"}
"""Names, instead of a path, of problems that come with this package: `short` are those of its families whose inputs may
be two or three numbers, with such inputs."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Comparator(_Record):
    """When a submitted answer counts as the reference: `exact` (a whole number equals the float of its value, a boolean
    only a boolean), `close` within `tolerance` (absolute, or relative to the reference), `unordered` for lists whose
    order means nothing, `unordered_rows` for lists of such lists, `text` without regard to case and outer space."""

    kind: Literal["exact", "close", "unordered", "unordered_rows", "text"] = "exact"
    tolerance: Annotated[float, Field(gt=0)] = 1e-6


class UnitTest(_Record):
    """An input of the solution and what it must return."""

    input: dict[str, Any]
    output: Any


class Configuration(_Record):
    """Hidden inputs of one task."""

    level: Literal["easy", "medium", "hard"] = "easy"
    input: dict[str, Any]


class Problem(_Record):
    """See the module. `main` is the function that is asked for; the others of the solution become tools."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:\-]+$", max_length=120)]
    family: Annotated[str, Field(min_length=1, max_length=60)]
    statement: Annotated[str, Field(min_length=1, max_length=8_000)]
    solution: Annotated[str, Field(max_length=40_000)]
    main: str = "solve"
    tests: tuple[UnitTest, ...] = ()
    configurations: Annotated[tuple[Configuration, ...], Field(min_length=1)]
    comparator: Comparator = Comparator()


def text_of_problems(where: str) -> str:
    """The JSONL text of a file, or of problems that are shipped.

    Raises:
        Refusal: RLC0701, there is no such file.
    """
    if where in FILES:
        return (files("rlspec.specs") / "codegym" / FILES[where]).read_text(encoding="utf-8")
    try:
        return Path(where).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("RLC0701", f"problems {where}: {error}", "give a JSONL file of coding problems") from error


def read_problems(where: str) -> list[Problem]:
    """The problems of a file, in its order.

    Raises:
        Refusal: RLC0701, a line is no problem, or two have one id; every bad line is named.
    """
    found: list[Problem] = []
    wrong: list[str] = []
    for number, line in enumerate(text_of_problems(where).splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(Problem.model_validate(json.loads(line)))
        except ValidationError as error:
            first = error.errors()[0]
            wrong.append(f"line {number}: {'.'.join(map(str, first['loc']))}: {first['msg']}")
        except (ValueError, RecursionError) as error:
            wrong.append(f"line {number}: {error}")
    twice = [name for name, count in Counter(p.id for p in found).items() if count > 1]
    wrong += [f"id `{name}` stands twice" for name in twice]
    if wrong or not found:
        reason = "; ".join(wrong[:5]) or "it has no problem"
        raise Refusal("RLC0701", f"problems {where}: {reason}", "each line is one problem as JSON; see docs/codegym.md")
    return found
