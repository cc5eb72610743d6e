"""Claims: the numbers that a paper prints, and the arithmetic between them.

    claims {
      sparse = reported(51.3%, "table 2")
      full   = reported(57.4%, "table 2")
      assert gain = full - sparse == 6.1pp
    }

Numbers are kept as they are printed, so 57.4 - 51.3 is 6.1 and not 6.1000000000000014. The difference of two
percentages is in percentage points (`pp`); percentages and points do not compare. A number that is written in an
assertion says as many digits as it has: the other side is rounded to them before the two are compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from rlspec.compiler.elaborate import Failed, dotted
from rlspec.compiler.functions import PROVENANCE
from rlspec.compiler.static import Origin
from rlspec.dsl import compiled, tree
from rlspec.dsl.annotations import TYPE_CHECKING
from rlspec.dsl.dataclass import dataclass, field
from rlspec.dsl.diagnostics import Diagnostic, near_name
from rlspec.dsl.printer import text_of

if TYPE_CHECKING:
    from fractions import Fraction

COMPARE: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DIGITS = compiled.pattern(r"[0-9_]+(?:\.([0-9_]+))?(?:[eE]([+-]?[0-9]+))?")
POINTS = {"%", "pp"}
MOST_BITS = 4096
MOST_DECIMALS = 400


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit, as printed (51.3% is 51.3 of "%"); `decimals` is how many were printed."""

    value: Fraction
    unit: str
    decimals: int

    def __str__(self) -> str:
        return f"{_decimal(self.value, self.decimals)}{self.unit}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A named number with where it comes from."""

    name: str
    amount: Amount
    origin: Origin
    item: tree.Item


@dataclass(frozen=True, slots=True)
class Assertion:
    """What is said to follow from the numbers. `holds` is None for one that could not be computed."""

    name: str
    item: tree.Item
    holds: bool | None


@dataclass(slots=True)
class Claims:
    """All claims of an experiment, in the order of the file."""

    numbers: dict[str, Claim] = field(default_factory=dict)
    assertions: list[Assertion] = field(default_factory=list)


def claims_of(blocks: list[tree.Item], report: list[Diagnostic]) -> Claims:
    """Read `claims` blocks and check their arithmetic.

    Reports RLC0801 where an assertion is false, with the right value; RLC0305 for units that do not go together.
    """
    out = Claims()
    items = [i for block in blocks for i in block.body or ()]
    for item in items:
        if item.head.path[0].value != "assert":
            try:
                _number(item, out, report)
            except Failed:
                continue
    for item in items:
        if item.head.path[0].value == "assert":
            name = item.head.labels[0].value if item.head.labels else ""
            try:
                holds = _assertion(item, out, report)
            except Failed:
                holds = None
            out.assertions.append(Assertion(name, item, holds))
    return out


def _fail(report: list[Diagnostic], code: str, message: str, span: tree.Span, label: str = "") -> Failed:
    report.append(Diagnostic(code, message, span, label=label))
    return Failed()


def _number(item: tree.Item, out: Claims, report: list[Diagnostic]) -> None:
    head = item.head
    if len(head.path) != 1 or head.labels or head.type or item.value is None:
        raise _fail(report, "RLC0207", "a claim is `name = number` or `assert name = comparison`", head.span)
    name = head.path[0].value
    if name in out.numbers:
        raise _fail(report, "RLC0105", f"`{name}` is claimed twice", head.span)
    node, origin = item.value, Origin("written", "", item.value.span)
    if isinstance(node, tree.Call) and (word := dotted(node.function)) in PROVENANCE:
        if len(node.arguments) != 2 or not isinstance(node.arguments[1].value, tree.Text):
            raise _fail(report, "RLC0205", "a value and a text saying where it comes from", node.span)
        origin = Origin(word or "", node.arguments[1].value.value, node.span)
        node = node.arguments[0].value
    amount = _Arithmetic({n: c.amount for n, c in out.numbers.items()}, report).value(node)
    out.numbers[name] = Claim(name, amount, origin, item)


def _assertion(item: tree.Item, out: Claims, report: list[Diagnostic]) -> bool:
    node = item.value
    if len(item.head.labels) != 1 or node is None:
        raise _fail(report, "RLC0207", "an assertion is `assert name = comparison`", item.head.span)
    if not isinstance(node, tree.Binary) or node.op not in COMPARE:
        raise _fail(report, "RLC0205", "an assertion compares two numbers", node.span, "e.g. `full - sparse == 6.1pp`")
    arithmetic = _Arithmetic({n: c.amount for n, c in out.numbers.items()}, report)
    left, right = arithmetic.value(node.left), arithmetic.value(node.right)
    if left.unit != right.unit:
        shown = f"{left.unit or 'a plain number'} and {right.unit or 'a plain number'} do not compare"
        hint = "a difference of percentages is in pp" if {left.unit, right.unit} == POINTS else ""
        raise _fail(report, "RLC0305", shown, node.span, hint)
    x, y = left.value, right.value
    digits = [a.decimals for a, side in ((left, node.left), (right, node.right)) if _literal(side)]
    if digits:
        x, y = _rounded(x, min(digits)), _rounded(y, min(digits))
    if COMPARE[node.op](x, y):
        return True
    printed, found = (right, left) if _literal(node.right) or not _literal(node.left) else (left, right)
    side = node.left if found is left else node.right
    precise = Amount(found.value, found.unit, max(found.decimals, printed.decimals))
    words = f"{text_of(side)} is {precise}, " + (f"not {printed}" if node.op == "==" else f"so not {node.op} {printed}")
    used = [n for n in _names(node) if n in out.numbers]
    report.append(
        Diagnostic(
            "RLC0801",
            f"`{item.head.labels[0].value}` does not add up: {words}",
            node.span,
            label=f"the right value is {precise}" if node.op == "==" else "",
            notes=tuple(f"{n} = {out.numbers[n].amount}" for n in dict.fromkeys(used)),
        )
    )
    return False


def _literal(node: tree.Expression) -> bool:
    return isinstance(node, tree.Number) or (isinstance(node, tree.Unary) and isinstance(node.operand, tree.Number))


def _names(node: tree.Expression) -> list[str]:
    match node:
        case tree.Name(value=value):
            return [value]
        case tree.Binary(left=left, right=right):
            return _names(left) + _names(right)
        case tree.Unary(operand=operand):
            return _names(operand)
        case tree.Call(arguments=arguments):
            return [n for a in arguments for n in _names(a.value)]
        case _:
            return []


@dataclass(slots=True)
class _Arithmetic:
    """Exact arithmetic over claimed numbers."""

    known: Mapping[str, Amount]
    report: list[Diagnostic]

    def value(self, node: tree.Expression) -> Amount:
        """The amount of an expression; RLC0012 where it has more digits than any printed number needs."""
        found = self._amount(node)
        if found.value.numerator.bit_length() + found.value.denominator.bit_length() > MOST_BITS:
            raise _fail(self.report, "RLC0012", "this number has too many digits", node.span)
        return found

    def _amount(self, node: tree.Expression) -> Amount:
        match node:
            case tree.Number():
                return _printed(node)
            case tree.Name(value=name):
                if name not in self.known:
                    near = near_name(name, self.known)
                    hint = f"did you mean `{near}`?" if near else f"claimed: {', '.join(self.known) or 'nothing'}"
                    raise _fail(self.report, "RLC0101", f"no claim is called `{name}`", node.span, hint)
                return self.known[name]
            case tree.Unary(op="-"):
                inner = self.value(node.operand)
                return Amount(-inner.value, inner.unit, inner.decimals)
            case tree.Binary(op="+" | "-"):
                return self._sum(node)
            case tree.Binary(op="*" | "/"):
                return self._product(node)
            case tree.Call(function=tree.Name(value="abs"), arguments=(argument,)):
                inner = self.value(argument.value)
                return Amount(abs(inner.value), inner.unit, inner.decimals)
            case _:
                hint = "numbers, names, + - * / and abs"
                raise _fail(self.report, "RLC0205", "claims do not compute with this", node.span, hint)

    def _sum(self, node: tree.Binary) -> Amount:
        left, right = self.value(node.left), self.value(node.right)
        value = left.value + right.value if node.op == "+" else left.value - right.value
        unit = left.unit
        if left.unit == right.unit == "%" and node.op == "-":
            unit = "pp"
        elif {left.unit, right.unit} == POINTS and (node.op == "+" or left.unit == "%"):
            unit = "%"
        elif left.unit != right.unit:
            shown = f"{left.unit or 'a plain number'} and {right.unit or 'a plain number'} cannot be added"
            raise _fail(self.report, "RLC0305", shown, node.span)
        return Amount(value, unit, max(left.decimals, right.decimals))

    def _product(self, node: tree.Binary) -> Amount:
        left, right = self.value(node.left), self.value(node.right)
        if node.op == "/":
            if right.value == 0:
                raise _fail(self.report, "RLC0401", "division by zero", node.right.span)
            if right.unit and right.unit != left.unit:
                raise _fail(self.report, "RLC0305", f"{left} is not a multiple of {right}", node.span)
            unit = "" if left.unit == right.unit else left.unit
            return Amount(left.value / right.value, unit, 4)
        if left.unit and right.unit:
            raise _fail(self.report, "RLC0305", f"{left.unit} times {right.unit} has no meaning here", node.span)
        return Amount(
            left.value * right.value, left.unit or right.unit, min(MOST_DECIMALS, left.decimals + right.decimals)
        )


def _printed(node: tree.Number) -> Amount:
    """A literal, exactly as written."""
    from fractions import Fraction  # most specs claim nothing

    text = node.text.removesuffix(node.unit) if node.unit else node.text
    found = DIGITS.fullmatch(text)
    if found is None or abs(int(found.group(2) or 0)) > MOST_DECIMALS:
        return Amount(Fraction(node.value), node.unit, 0)
    places = len((found.group(1) or "").replace("_", "")) - int(found.group(2) or 0)
    return Amount(Fraction(text.replace("_", "")), node.unit, max(0, places))


def _rounded(value: Fraction, decimals: int) -> Fraction:
    """Half away from zero, as people round."""
    from fractions import Fraction

    scaled = abs(value) * 10**decimals
    whole = Fraction(int(scaled + Fraction(1, 2)), 10**decimals)
    return whole if value >= 0 else -whole


def _decimal(value: Fraction, decimals: int) -> str:
    """`-7.3` of -73/10 with one decimal; trailing zeros go only when there are more digits than two."""
    text = f"{float(_rounded(value, decimals)):.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals > 2 else text
