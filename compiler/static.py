"""Static values: what the fields of components are given. No levels, everything known before the run.

A number keeps its unit until the field that takes it has checked it; a bare word is a symbol (a choice or a label); a
call of an unknown name is a construct (`retry(3)`, `paper("arXiv:…")`), and `reported`, `assumed` and `chosen` leave
their provenance behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlspec.compiler.elaborate import Failed, dotted
from rlspec.compiler.functions import PROVENANCE
from rlspec.dsl import tree
from rlspec.dsl.annotations import TypeAlias
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic

RATIOS = {"%": "%", "pp": "pp"}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit ("" for none). Percentages are already fractions, of unit "%"."""

    value: float
    unit: str
    integral: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A bare (dotted) word."""

    name: str


@dataclass(frozen=True, slots=True)
class Construct:
    """`name(arguments)`, e.g. `retry(3)`."""

    name: str
    arguments: tuple[Static, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A list or a set."""

    items: tuple[Static, ...]


Static: TypeAlias = Quantity | Symbol | Construct | Series | str | bool


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a leaf comes from: `reported`, `assumed`, `chosen` (with its note), `written`, `default` or `set` (on the
    command line)."""

    kind: str
    note: str = ""
    span: tree.Span | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A static value with its origin."""

    value: Static
    origin: Origin


def leaf(node: tree.Expression, params: Mapping[str, Leaf], report: list[Diagnostic]) -> Leaf:
    """Evaluate a static expression.

    Raises:
        Failed: after reporting.
    """

    def fail(code: str, message: str, span: tree.Span, label: str = "") -> Failed:
        report.append(Diagnostic(code, message, span, label=label))
        return Failed()

    def walk(node: tree.Expression) -> Static:
        match node:
            case tree.Number():
                ratio = node.unit in RATIOS
                value = node.value / 100 if ratio else node.value
                return Quantity(value, node.unit, node.integral and not ratio)
            case tree.Text():
                return node.value
            case tree.Boolean():
                return node.value
            case tree.Name():
                found = params.get(node.value)
                return found.value if found is not None else Symbol(node.value)
            case tree.Member():
                name = dotted(node)
                if name is None:
                    raise fail("RLC0206", "this has no value before the run", node.span)
                return Symbol(name)
            case tree.ListOf() | tree.SetOf():
                return Series(tuple(walk(item) for item in node.items))
            case tree.Unary(op="-"):
                inner = number(node.operand)
                return Quantity(-inner.value, inner.unit, inner.integral)
            case tree.Binary(op="+" | "-" | "*" | "/" | "^"):
                return arithmetic(node)
            case tree.Call():
                name = dotted(node.function)
                if name in PROVENANCE:
                    return sourced(node)[0]
                if name is None or any(a.over or a.where or a.name for a in node.arguments):
                    raise fail("RLC0206", "this has no value before the run", node.span)
                return Construct(name, tuple(walk(a.value) for a in node.arguments))
            case _:
                raise fail("RLC0206", "this has no value before the run", node.span)

    def number(node: tree.Expression) -> Quantity:
        found = walk(node)
        if not isinstance(found, Quantity):
            raise fail("RLC0201", "a number was expected", node.span)
        return found

    def arithmetic(node: tree.Binary) -> Quantity:
        left, right = number(node.left), number(node.right)
        if node.op in "+-" and left.unit != right.unit and "%" not in (left.unit, right.unit):
            shown = f"{left.unit or 'no unit'} and {right.unit or 'no unit'}"
            raise fail("RLC0305", f"{shown} cannot be added", node.span)
        if node.op == "/" and right.value == 0:
            raise fail("RLC0401", "division by zero", node.right.span)
        value = {
            "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
            "/": lambda a, b: a / b, "^": lambda a, b: a**b,
        }[node.op](left.value, right.value)  # fmt: skip
        if isinstance(value, complex):
            raise fail("RLC0401", "a root of a negative number", node.span)
        unit = left.unit or right.unit
        both = [u for u in (left.unit, right.unit) if u and u not in RATIOS]
        if node.op == "*" and len(both) == 2:
            raise fail("RLC0305", f"{both[0]} times {both[1]} is no unit that anything takes", node.span)
        if node.op == "/" and len(both) == 2 and both[0] != both[1]:
            raise fail("RLC0305", f"{both[0]} per {both[1]} is no unit that anything takes", node.span)
        if node.op == "/" and left.unit == right.unit:
            unit = ""
        return Quantity(value, unit, left.integral and right.integral and node.op in "+-*")

    def sourced(node: tree.Call) -> tuple[Static, str]:
        if len(node.arguments) != 2 or not isinstance(node.arguments[1].value, tree.Text):
            raise fail("RLC0205", "a value and a text saying where it comes from", node.span)
        return walk(node.arguments[0].value), node.arguments[1].value.value

    name = dotted(node.function) if isinstance(node, tree.Call) else None
    if isinstance(node, tree.Call) and name in PROVENANCE:
        value, note = sourced(node)
        return Leaf(value, Origin(name, note, node.span))
    if isinstance(node, tree.Name) and node.value in params:
        return params[node.value]
    return Leaf(walk(node), Origin("written", "", node.span))


def shown(value: Static) -> str:
    """For messages."""
    match value:
        case Quantity(number, unit, _):
            number = number * 100 if unit in RATIOS else number
            return f"{number:g}{unit}"
        case Symbol(name):
            return f"`{name}`"
        case Construct(name, _):
            return f"`{name}(...)`"
        case Series(items):
            return "[" + ", ".join(shown(i) for i in items) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
