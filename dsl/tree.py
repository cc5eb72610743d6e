"""The syntax tree of a `.rlspec` file: plain data with positions, nothing resolved.

A file is a list of items. An item is a head, then `= expression` or `{ items }`:

    kind label : type extends base on source = expression
    kind label : type extends base on source { items }

The tree keeps what was written (`16agent_turns` stays a number with a unit, `reported(10, "table 3")` a call); what it
means is the compiler's business. Spans are half-open offsets into the source text.
"""

from __future__ import annotations

from rlspec.dsl.annotations import TypeAlias
from rlspec.dsl.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, stop) of the source text."""

    start: int
    stop: int

    def to(self, other: Span) -> Span:
        """From the beginning of this span to the end of the other."""
        return Span(self.start, other.stop)


# ---------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Number:
    """`value` is as written (57.4% has value 57.4 and unit "%"); `integral` tells that no point or exponent was."""

    value: float
    unit: str
    integral: bool
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """One identifier; what it refers to depends on where it stands."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Member:
    """`target.name`"""

    target: Expression
    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]`"""

    target: Expression
    key: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is "-" or "not"."""

    op: str
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` is one of + - * / ^ == != < <= > >= in, "not in", and, or."""

    op: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Conditional:
    """`if condition then yes else no`"""

    condition: Expression
    yes: Expression
    no: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call: `value`, `name = value`, or `value over axes align axis where condition`."""

    value: Expression
    name: Name | None
    over: tuple[Name, ...]
    align: Name | None
    where: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    function: Expression
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`"""

    items: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SetOf:
    """`{a, b}`"""

    items: tuple[Expression, ...]
    span: Span


Expression: TypeAlias = (
    Number | Text | Boolean | Name | Member | Index | Unary | Binary | Conditional | Call | ListOf | SetOf
)

# ---------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class TypeExpr:
    """`base @ level in range`, with `base` a (dotted) name, or a set of names for an enumerated type, and `range` a
    list `[low, high]` or a set `{-1, 0, 1}`. As a component reference (`: shop { ... }`) only `base` is set."""

    base: Expression
    level: Name | None
    range: ListOf | SetOf | None
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a `def`: `name : type` or `name : type = default`."""

    name: Name
    type: TypeExpr
    default: Expression | None
    span: Span


# ---------------------------------------------------------------------------------------------------------- items


@dataclass(frozen=True, slots=True)
class Head:
    """`path` is the kind, or the dotted path of a patch (`patch.advantage.A`), or a field's name; `labels` are the
    names or texts after it; `parameters` only of a `def`."""

    path: tuple[Name, ...]
    labels: tuple[Name | Text, ...]
    parameters: tuple[Parameter, ...] | None
    type: TypeExpr | None
    extends: Expression | None
    on: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    """Exactly one of `value` (after `=`) and `body` (between braces) is set."""

    head: Head
    value: Expression | None
    body: tuple[Item, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Comment:
    """From `#` to the end of the line."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=())
