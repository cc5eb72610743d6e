"""Elaboration: a checked expression becomes steps of a program, with its type, level and range.

This is where the level rules live. Coarse values lift to finer levels silently; a reducer with a named axis makes fine
values coarse; a normaliser keeps the level and must say, over a ragged axis, whether it pools or aligns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from rlspec.compiler import definitions, functions, units
from rlspec.compiler.builder import Builder, Value
from rlspec.compiler.levels import Level, finest
from rlspec.compiler.ranges import Range, decided, number_text
from rlspec.compiler.schedules import Timed, combined
from rlspec.compiler.scope import Failed, Scope
from rlspec.compiler.types import NUMERIC, Type, static_number
from rlspec.dsl import tree
from rlspec.dsl.dataclass import dataclass, field, replace
from rlspec.dsl.diagnostics import Diagnostic, near_name
from rlspec.dsl.printer import text_of

COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow"}

_RANGES: dict[str, Callable[[Range, Range], Range]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "^": lambda a, b: a.power(b),
}  # fmt: skip


@dataclass(slots=True)
class Elaborator:
    """Elaborates expressions into one builder and reports into one list."""

    builder: Builder
    report: list[Diagnostic]
    clock: Callable[[], Value] | None = None  # the number of the training step
    horizon: float | None = None  # the number of the last one, where all training stages agree
    expanding: list[tuple[str, tree.Item]] = field(default_factory=list)  # definitions, the innermost last
    constants: dict[tuple[int, str], Value] = field(default_factory=dict)  # by step and base

    # ------------------------------------------------------------------------------------------------ reporting

    def fail(self, code: str, message: str, span: tree.Span, label: str = "", notes: Iterable[str] = ()) -> Failed:
        """Report, and give the exception to raise."""
        self.report.append(Diagnostic(code, message, span, label=label, notes=tuple(notes)))
        return Failed()

    def warn(self, code: str, message: str, span: tree.Span, notes: Iterable[str] = ()) -> None:
        self.report.append(Diagnostic(code, message, span, severity="warning", notes=tuple(notes)))

    # ---------------------------------------------------------------------------------------------- expressions

    def constant(self, value: float, base: str = "real") -> Value:
        step = self.builder.const(value)
        found = self.constants.get((step, base))
        if found is None:
            found = self.constants[step, base] = Value(step, base, Level.CONST, Range.of(value))
        return found

    def value(self, node: tree.Expression, scope: Scope, expected: tuple[str, ...] = ()) -> Value:
        """The value of an expression. `expected` are the names that an enumerated comparison allows.

        Raises:
            Failed: after reporting.
        """
        match node:
            case tree.Number():
                number = static_number(node)
                assert number is not None
                if node.unit and not units.is_known(node.unit):
                    near = near_name(node.unit, units.known())
                    hint = f"did you mean `{near}`?" if near else "e.g. agent_turns, tokens, steps, tasks, s, %"
                    raise self.fail("RLC0305", f"unknown unit `{node.unit}`", node.span, hint)
                ratio = node.unit in units.RATIOS
                plain = self.constant(number, "int" if node.integral and not ratio else "real")
                return plain if ratio or not node.unit else replace(plain, unit=node.unit)
            case tree.Boolean():
                return Value(self.builder.const(float(node.value)), "bool", Level.CONST, Range.of(float(node.value)))
            case tree.Name():
                return self._name(node, scope, expected)
            case tree.Member(target=tree.Name() as target):
                found = scope.member(target.value, node.name.value, node.span)
                if found is None:
                    raise self.fail("RLC0101", f"unknown name `{target.value}`", target.span)
                return found
            case tree.Index():
                return self._looked_up(node, scope)
            case tree.Unary(op="-"):
                inner = self.number(node.operand, scope)
                if (known := self.builder.constant(inner.step)) is not None:
                    return replace(self.constant(-known, inner.base), unit=inner.unit)
                reach, timed = combined(lambda r: -r, [inner], True)
                step = self.builder.apply("neg", inner.step)
                return Value(step, inner.base, inner.level, reach, timed=timed, unit=inner.unit)
            case tree.Unary(op="not"):
                inner = self.boolean(node.operand, scope)
                return self._bool(self.builder.apply("not", inner.step), inner.level)
            case tree.Binary():
                return self._binary(node, scope)
            case tree.Conditional():
                return self._conditional(node, scope)
            case tree.Call():
                return self._call(node, scope)
            case _:
                raise self.fail("RLC0201", "this cannot be computed with", node.span, "expected a value")

    def number(self, node: tree.Expression, scope: Scope) -> Value:
        found = self.value(node, scope)
        if found.base not in NUMERIC:
            hint = "write `indicator(...)` to count it as 0 or 1" if found.base == "bool" else "expected a number"
            raise self.fail("RLC0201", f"a number was expected, this is {found.base}", node.span, hint)
        return found

    def boolean(self, node: tree.Expression, scope: Scope) -> Value:
        found = self.value(node, scope)
        if found.base != "bool":
            raise self.fail(
                "RLC0201",
                f"a condition was expected, this is {found.base}",
                node.span,
                "compare it with something",
            )
        return found

    def _bool(self, step: int, level: Level) -> Value:
        return Value(step, "bool", level, Range.of(0.0, 1.0))

    def _name(self, node: tree.Name, scope: Scope, expected: tuple[str, ...]) -> Value:
        if node.value in expected:
            return Value(self.builder.const(expected.index(node.value)), "enum", Level.CONST, Range(), choices=expected)
        if node.value in scope.names:
            found = scope.names[node.value]
            return found() if callable(found) else found
        near = near_name(node.value, [*scope.names, *expected])
        raise self.fail(
            "RLC0101",
            f"unknown name `{node.value}`",
            node.span,
            f"did you mean `{near}`?" if near else "",
            [f"names in scope: {', '.join(sorted(scope.names)) or 'none'}"],
        )

    def _looked_up(self, node: tree.Index, scope: Scope) -> Value:
        """`calibrate.weight[tier]`: the table's value of a choice."""
        match node.target:
            case tree.Member(target=tree.Name() as owner, name=name):
                table = scope.table(owner.value, name.value, node.target.span)
            case _:
                table = None
        if table is None:
            where = "inside a definition there is none: give it as an argument" if self.expanding else ""
            raise self.fail("RLC0201", "only a table that a stage finds can be indexed", node.span, where)
        key = self.value(node.key, scope, table.choices)
        if key.choices != table.choices:
            listed = ", ".join(table.choices)
            of = f" of {', '.join(key.choices)}" if key.choices else ""
            message = f"`{table.name}` has a value for each of {listed}"
            raise self.fail("RLC0202", message, node.key.span, f"this is {key.base}{of}")
        step = self.builder.apply("lookup", key.step, table=table.name, size=len(table.choices), values=None)
        return Value(step, "real", key.level, table.range)

    # ------------------------------------------------------------------------------------------------- operators

    def _binary(self, node: tree.Binary, scope: Scope) -> Value:
        if node.op in ("and", "or"):
            left, right = self.boolean(node.left, scope), self.boolean(node.right, scope)
            return self._bool(self.builder.apply(node.op, left.step, right.step), finest([left.level, right.level]))
        if node.op in ("in", "not in"):
            return self._membership(node, scope)
        if node.op in COMPARISONS:
            return self._comparison(node, scope)
        left, right = self.number(node.left, scope), self.number(node.right, scope)
        known = self.builder.constant(left.step), self.builder.constant(right.step)
        base = "int" if left.base == right.base == "int" and node.op in "+-*" else "real"
        unit = self.same_unit([left, right], node.span, "added") if node.op in "+-" else ""
        level = finest([left.level, right.level])
        if node.op == "/" and known[1] == 0:
            raise self.fail("RLC0401", "division by zero", node.right.span)
        reach, timed = self._reach(node.op, left, right)
        if known[0] is not None and known[1] is not None:
            folded = {
                "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
                "/": lambda a, b: a / b, "^": lambda a, b: a**b,
            }[node.op](*known)  # fmt: skip
            if isinstance(folded, complex):
                raise self.fail("RLC0401", "a root of a negative number", node.span)
            return replace(self.constant(folded, base), unit=unit)
        step = self.builder.apply(ARITHMETIC[node.op], left.step, right.step)
        return Value(step, base, level, reach, members=self._scaled(node.op, left, right), timed=timed, unit=unit)

    def same_unit(self, values: Iterable[Value], span: tree.Span, done: str) -> str:
        """The unit of values that are added or compared; a number without one takes the others'."""
        named = list(dict.fromkeys(v.unit for v in values if v.unit))
        if len(named) > 1:
            hint = "a turn here is a message of the agent" if {"turns", "agent_turns"} <= set(named) else ""
            raise self.fail("RLC0305", f"{' and '.join(named)} cannot be {done}", span, hint)
        return named[0] if named else ""

    @staticmethod
    def _reach(op: str, left: Value, right: Value) -> tuple[Range, Timed | None]:
        """The range of an arithmetic operation."""
        if op == "/" and left.members is not None and right.counts == left.members[0]:
            return Range(left.members[1].low, left.members[1].high), None  # members over their count are a mean
        affine = {"*": left.timed is None or right.timed is None, "/": right.timed is None}.get(op, op in "+-")
        return combined(_RANGES[op], [left, right], affine)

    @staticmethod
    def _scaled(op: str, left: Value, right: Value) -> tuple[str, Range] | None:
        """A sum times what is the same for all members is still a sum of (scaled) members."""
        if op == "*" and left.members and right.level <= Level.STEP:
            return left.members[0], left.members[1] * right.range
        if op == "*" and right.members and left.level <= Level.STEP:
            return right.members[0], right.members[1] * left.range
        return None

    def _comparison(self, node: tree.Binary, scope: Scope) -> Value:
        left = self._side(node.left, node.right, scope)
        right = self.value(node.right, scope, left.choices)
        same = left.base == right.base or (left.base in NUMERIC and right.base in NUMERIC)
        ordered = node.op not in ("==", "!=")
        if not same or (ordered and left.base not in NUMERIC):
            raise self.fail("RLC0201", f"{left.base} and {right.base} cannot be compared by `{node.op}`", node.span)
        self.same_unit([left, right], node.span, "compared")
        a, b = self.builder.constant(left.step), self.builder.constant(right.step)
        if a is not None and b is not None:
            holds = float(_HOLDS[node.op](a, b))
            return Value(self.builder.const(holds), "bool", Level.CONST, Range.of(holds))
        answer = decided(node.op, left.range, right.range) if b is not None and left.base in NUMERIC else None
        if answer is not None:
            self.warn("RLC0405", f"`{text_of(node)}` holds {'always' if answer else 'never'}", node.span,
                      [f"`{text_of(node.left)}` lies in {left.range}"])  # fmt: skip
        step = self.builder.apply(COMPARISONS[node.op], left.step, right.step)
        return self._bool(step, finest([left.level, right.level]))

    def _side(self, left: tree.Expression, right: tree.Expression, scope: Scope) -> Value:
        """The left operand; when it is the name of a choice, the right one tells of which enumeration."""
        if isinstance(left, tree.Name) and left.value not in scope.names and isinstance(right, tree.Name):
            other = self.value(right, scope)
            if left.value in other.choices:
                return self.value(left, scope, other.choices)
        return self.value(left, scope)

    def _membership(self, node: tree.Binary, scope: Scope) -> Value:
        left = self.value(node.left, scope)
        if not isinstance(node.right, tree.SetOf) or not node.right.items:
            raise self.fail("RLC0201", "`in` needs a set", node.right.span, "write `{a, b}`")
        steps = []
        for item in node.right.items:
            other = self.value(item, scope, left.choices)
            if other.base != left.base and not (other.base in NUMERIC and left.base in NUMERIC):
                raise self.fail("RLC0201", f"{left.base} cannot be equal to {other.base}", item.span)
            self.same_unit([left, other], item.span, "compared")
            constant = self.builder.constant(other.step) is not None and left.base in NUMERIC
            if constant and decided("==", left.range, other.range) is False:
                self.warn("RLC0405", f"`{text_of(node.left)}` is never {text_of(item)}", item.span,
                          [f"it lies in {left.range}"])  # fmt: skip
            steps.append(self.builder.apply("eq", left.step, other.step))
        step = steps[0]
        for other_step in steps[1:]:
            step = self.builder.apply("or", step, other_step)
        if node.op == "not in":
            step = self.builder.apply("not", step)
        return self._bool(step, left.level)

    def _conditional(self, node: tree.Conditional, scope: Scope) -> Value:
        condition = self.boolean(node.condition, scope)
        yes, no = self.value(node.yes, scope), self.value(node.no, scope)
        if yes.base != no.base and not (yes.base in NUMERIC and no.base in NUMERIC):
            raise self.fail("RLC0201", f"the branches are {yes.base} and {no.base}", node.span)
        base = yes.base if yes.base == no.base else "real"
        unit = self.same_unit([yes, no], node.span, "taken for each other")
        known = self.builder.constant(condition.step)
        if known is not None:
            return replace(yes if known else no, base=base)
        step = self.builder.apply("select", condition.step, yes.step, no.step)
        level = finest([condition.level, yes.level, no.level])
        reach, timed = combined(Range.union, [yes, no], condition.timed is None)
        return Value(step, base, level, reach, choices=yes.choices, timed=timed, unit=unit)

    # ----------------------------------------------------------------------------------------------------- calls

    def _call(self, node: tree.Call, scope: Scope) -> Value:
        name = dotted(node.function)
        if name is not None and name in scope.definitions and not definitions.own(self, name, scope.definitions[name]):
            return definitions.expand(self, name, scope.definitions[name], node, scope)
        found = functions.FUNCTIONS.get(name or "")
        if found is None:
            known = [*functions.FUNCTIONS, *scope.definitions]
            near = near_name(name or "", known)
            raise self.fail(
                "RLC0107",
                f"unknown function `{name or '?'}`",
                node.function.span,
                f"did you mean `{near}`?" if near else "",
            )
        return found(self, node, scope)

    # ----------------------------------------------------------------------------------------------- conformance

    def conform(self, found: Value, declared: Type, span: tree.Span, what: str) -> Value:
        """Check a value against a declared type; the result has the declared level and range."""
        numeric = declared.base == "real" and found.base == "int"
        if declared.base != found.base and not numeric:
            hint = "write `indicator(...)`" if found.base == "bool" and declared.base in NUMERIC else ""
            raise self.fail("RLC0201", f"{what} is declared {declared.base}, but this is {found.base}", span, hint)
        if found.level > declared.level:
            raise self.too_fine(found.level, declared.level, span, what)
        if declared.choices and set(found.choices) != set(declared.choices):
            theirs, ours = ", ".join(found.choices), ", ".join(declared.choices)
            raise self.fail("RLC0202", f"{what} is one of {ours}, but this is one of {theirs}", span)
        if declared.choices and found.choices != declared.choices:
            found = self._recoded(found, declared.choices)
        if declared.base in NUMERIC and declared.range != Range() and not found.range.within(declared.range):
            raise self.fail(
                "RLC0402",
                f"{what} is declared in {declared.range}, but can reach {found.range}",
                span,
                notes=[f"the compiler's range: {found.range}"],
            )
        return replace(found, base=declared.base, level=declared.level, choices=declared.choices)

    def _recoded(self, found: Value, choices: tuple[str, ...]) -> Value:
        """The same choice, numbered as another type lists them."""
        table = [float(choices.index(choice)) for choice in found.choices]
        step = self.builder.apply("lookup", found.step, table="order", size=len(table), values=table)
        return replace(found, step=step, choices=choices)

    def too_fine(self, found: Level, declared: Level, span: tree.Span, what: str) -> Failed:
        if found is Level.STEP:
            message = f"{what} is the same for the whole run, but this follows the training step"
            return self.fail("RLC0301", message, span, "declare it at level step: `@step`")
        axis = found.label
        reducers = "sum, mean, any, all, count, min, max, first or last"
        return self.fail(
            "RLC0301",
            f"{what} is declared at level {declared.label}, but this varies over {axis}",
            span,
            f"reduce it: {reducers} (... over {axis})",
            [f"every {declared.label} has several values of level {axis}; say how they become one"],
        )

    def term_texts(self, node: tree.Expression) -> list[tuple[str, tree.Expression]]:
        """The terms of a sum, with their signs, for reports."""
        if isinstance(node, tree.Binary) and node.op in ("+", "-"):
            left = self.term_texts(node.left)
            right = self.term_texts(node.right)
            if node.op == "-":
                right = [("-" if sign == "+" else "+", part) for sign, part in right]
            return left + right
        return [("+", node)]


def dotted(node: tree.Expression) -> str | None:
    """`a.b.c` as text, or None when it is no dotted name."""
    if isinstance(node, tree.Name):
        return node.value
    if isinstance(node, tree.Member):
        inner = dotted(node.target)
        return None if inner is None else f"{inner}.{node.name.value}"
    return None


def describe(value: Value) -> str:
    """`real@traj in [0, 1]`, for hovers and `rlc compile`."""
    known = number_text(value.range.low) if value.range.constant else str(value.range)
    return f"{value.base}@{value.level.label} in {known}"
