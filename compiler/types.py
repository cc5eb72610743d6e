"""Types of the language: base x level x range, e.g. `int@turn in {-1, 0, 1}` or `{gold, soft, read}@turn`."""

from __future__ import annotations

from rlspec.compiler.levels import BY_LABEL, Level
from rlspec.compiler.ranges import ANY, INF, Range
from rlspec.dsl import tree
from rlspec.dsl.dataclass import dataclass
from rlspec.dsl.diagnostics import Diagnostic, near_name

NUMERIC = ("real", "int")
BASES = ("real", "int", "bool", "text")


@dataclass(frozen=True, slots=True)
class Type:
    """`base` is real, int, bool, text or enum (then `choices` names its values, coded 0, 1, 2 ...)."""

    base: str
    level: Level = Level.CONST
    range: Range = ANY
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        base = "{" + ", ".join(self.choices) + "}" if self.base == "enum" else self.base
        text = base + (f"@{self.level.label}" if self.level is not Level.CONST else "")
        bounded = self.base in NUMERIC and (self.range.values is not None or self.range != Range())
        return f"{text} in {self.range}" if bounded else text


def static_number(expression: tree.Expression) -> float | None:
    """The value of a literal, possibly negated, or None. Percent is a fraction."""
    if isinstance(expression, tree.Unary) and expression.op == "-":
        inner = static_number(expression.operand)
        return None if inner is None else -inner
    if isinstance(expression, tree.Number):
        return expression.value / 100 if expression.unit in ("%", "pp") else expression.value
    return None


def read_type(written: tree.TypeExpr, report: list[Diagnostic]) -> Type | None:
    """The type that was written, or None after reporting what is wrong with it."""
    choices: tuple[str, ...] = ()
    if isinstance(written.base, tree.SetOf):
        base = "enum"
        choices = tuple(n.value for n in written.base.items if isinstance(n, tree.Name))
        if len(choices) != len(written.base.items):
            report.append(Diagnostic("RLC0204", "an enumerated type lists names", written.base.span))
            return None
    elif isinstance(written.base, tree.Name) and written.base.value in BASES:
        base = written.base.value
    else:
        name = written.base.value if isinstance(written.base, tree.Name) else "?"
        near = near_name(name, BASES)
        label = f"did you mean `{near}`?" if near else "a value's type is real, int, bool, text or a set of names"
        report.append(Diagnostic("RLC0204", f"unknown type `{name}`", written.base.span, label=label))
        return None
    level = Level.CONST
    if written.level is not None:
        found = BY_LABEL.get(written.level.value)
        if found is None:
            near = near_name(written.level.value, BY_LABEL)
            hint = f"did you mean `{near}`?" if near else "levels: " + ", ".join(BY_LABEL)
            report.append(
                Diagnostic("RLC0302", f"unknown level `{written.level.value}`", written.level.span, label=hint)
            )
            return None
        level = found
    span = _range(written.range, base, report)
    return None if span is None else Type(base, level, span, choices)


def _bound(expression: tree.Expression) -> float | None:
    """A number, or `inf` with or without a sign."""
    match expression:
        case tree.Name(value="inf"):
            return INF
        case tree.Unary(op="-", operand=tree.Name(value="inf")):
            return -INF
        case _:
            return static_number(expression)


def _range(written: tree.ListOf | tree.SetOf | None, base: str, report: list[Diagnostic]) -> Range | None:
    if written is None:
        return Range.of(0.0, 1.0) if base == "bool" else Range()
    numbers = [_bound(item) for item in written.items]
    values = [n for n in numbers if n is not None]
    if len(values) != len(numbers) or not values:
        report.append(Diagnostic("RLC0204", "a range lists numbers: `[low, high]` or `{a, b, c}`", written.span))
        return None
    if isinstance(written, tree.SetOf):
        return Range.of(*values)
    if len(values) != 2 or values[0] > values[1]:
        report.append(Diagnostic("RLC0204", "a range is `[low, high]` with low <= high", written.span))
        return None
    return Range(values[0], values[1])
