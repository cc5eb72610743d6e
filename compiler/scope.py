"""What names mean where an expression stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlspec.compiler.builder import Value
from rlspec.compiler.ranges import Range
from rlspec.dsl import tree
from rlspec.dsl.dataclass import dataclass


class Failed(Exception):
    """This expression has been reported; whoever declared it goes on with the next one."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a stage finds: its name ("calibrate.weight"), the choices that it has a value for, their range."""

    name: str
    choices: tuple[str, ...]
    range: Range


@dataclass(slots=True)
class Scope:
    """What names mean in an expression. `names` gives values, `definitions` the `def`s by dotted name, `member` the
    measure `target.name` (or None), `table` the table of that name (or None)."""

    names: Mapping[str, Value | Callable[[], Value]]
    definitions: Mapping[str, tree.Item]
    member: Callable[[str, str, tree.Span], Value | None]
    table: Callable[[str, str, tree.Span], Table | None] = lambda *_: None
