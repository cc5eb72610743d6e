"""Loops: the nest of a kernel's loops as data, and how it is laid out as text.

A body is what is done for one member of a level: statements in slots, and after the statements of slot k, if there is
one, pass k over the members below it (even: forwards, odd: backwards).
"""

from __future__ import annotations

import re
from collections import defaultdict

from rlspec.compiler.fusion import BACKWARD
from rlspec.compiler.levels import Level
from rlspec.compiler.parts import Path
from rlspec.compiler.pools import Pool
from rlspec.dsl.dataclass import dataclass, field

OFFSETS = {Level.GROUP: "group_offsets", Level.TRAJ: "turn_offsets", Level.TURN: "token_offsets"}
COUNTS = {
    Level.GROUP: "len(group_offsets) - 1",
    Level.TRAJ: "group_offsets[-1]",
    Level.TURN: "turn_offsets[-1]",
    Level.TOKEN: "token_offsets[-1]",
}
WIDTH = 112  # characters of a line, without the function's own indent


@dataclass(slots=True)
class Statement:
    """Lines that compute node `at`, all under the condition `under` if there is one."""

    at: int
    lines: list[str]
    under: str = ""


@dataclass(slots=True)
class Body:
    """What is done for one member: statements per slot, and before each loop the start of what it gathers."""

    statements: dict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    loops: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Loop:
    """From a member of `scope` through its members of level `member`; `items` are lines and loops."""

    scope: Level
    member: Level
    direction: int
    items: list[str | Loop]

    def lines(self) -> list[str]:
        first, stop = bounds(Pool(self.scope, self.member))
        if self.direction == BACKWARD:
            over = f"{stop} - 1, {first} - 1, -1" if first != "0" else f"{stop} - 1, -1, -1"
        else:
            over = f"{first}, {stop}" if first != "0" else stop
        lines = flat(self.items)
        member = self.member.label
        apart = re.compile(rf"(?<!\[)\b{member}\b|\b{member}\b(?!\])")  # other than `x[member]`
        only_index = self.direction != BACKWARD and first != "0" and not any(apart.search(line) for line in lines)
        return [f"for {member} in {'forward' if only_index else 'range'}({over}):", *("    " + line for line in lines)]


def flat(items: list[str | Loop]) -> list[str]:
    return [line for item in items for line in (item.lines() if isinstance(item, Loop) else [item])]


def folded(line: str) -> list[str]:
    """A line that is too long to read, broken inside its outermost parentheses (which it is given if need be)."""
    if len(line) <= WIDTH or line.endswith(":"):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    opening, closing = line.find("("), line.rfind(")")
    if opening > 0 and closing == len(line) - 1 and line[opening - 1] not in "= ":
        inner = folded(f"{indent}    {line[opening + 1 : closing]}")
        if _balanced(inner):
            return [line[: opening + 1], *inner, f"{indent})"]
    name, equals, value = line.partition(" = ")
    return [f"{name} = (", f"{indent}    {value}", f"{indent})"] if equals and "#" not in line else [line]


def _balanced(lines: list[str]) -> bool:
    depth = 0
    for sign in "".join(lines):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0


def bounds(pool: Pool) -> tuple[str, str]:
    """First and last + 1 of the members below the current member of the scope."""
    if pool.scope <= Level.STEP:
        return "0", f"{pool.member.label}s"
    first, stop = pool.scope.label, f"{pool.scope.label} + 1"
    for level in range(pool.scope, pool.member):
        first, stop = f"{OFFSETS[Level(level)]}[{first}]", f"{OFFSETS[Level(level)]}[{stop}]"
    return first, stop


def nest(bodies: dict[Path, Body], path: Path = ()) -> list[str | Loop]:
    """A body's lines and loops in order. Loops that do nothing but hold one other become that one."""
    body, found = bodies[path], list[str | Loop]()
    level = Level(Level.STEP + len(path))
    for slot in range(max([*body.statements, *body.loops], default=-1) + 1):
        under = ""
        for statement in sorted(body.statements[slot], key=lambda s: s.at):
            if statement.under and statement.under != under:
                found.append(f"if {statement.under}:")
            under = statement.under
            found.extend(("    " if under else "") + line for line in statement.lines)
        if slot in body.loops:
            found.extend(body.starts[slot])
            inner = nest(bodies, (*path, slot))
            loop = Loop(level, Level(level + 1), slot % 2, inner)
            if len(inner) == 1 and isinstance(inner[0], Loop) and inner[0].direction == slot % 2:
                only = inner[0]
                if not any(re.search(rf"\b{loop.member.label}\b", line) for line in flat(only.items)):
                    loop = Loop(level, only.member, slot % 2, only.items)
            found.append(loop)
    return found
