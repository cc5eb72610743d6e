"""Spelling: how one elementwise operation reads in a generated kernel.

Comparisons and logic are Python bools as long as nothing asks for their number, so a condition reads
`if verdict[turn] == 1.0:` and not as arithmetic.
"""

from __future__ import annotations

import math

from rlspec.dsl.dataclass import dataclass

CONDITIONAL, OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, POWER, ATOM = range(10)
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
CALLS = {
    "abs": "abs",
    "sign": "sign",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "cos": "cos",
    "min2": "smaller",
    "max2": "larger",
    "clip": "clip",
    "div": "divide",
}


@dataclass(frozen=True, slots=True)
class Text:
    """An expression, how tightly it binds, whether it is a Python bool, and its value if it is a constant."""

    text: str
    strength: int = ATOM
    boolean: bool = False
    value: float | None = None

    def bound(self, strength: int) -> str:
        return self.text if self.strength >= strength else f"({self.text})"

    def number(self) -> Text:
        return Text(f"1.0 if {self.bound(OR)} else 0.0", CONDITIONAL) if self.boolean else self

    def condition(self) -> Text:
        return self if self.boolean else Text(f"{self.bound(SUM)} != 0.0", COMPARISON, True)


def literal(value: float) -> Text:
    """A float64 that reads back exactly."""
    if math.isnan(value):
        return Text("nan", value=value)
    negative = math.copysign(1.0, value) < 0
    return Text(repr(value), UNARY if negative else ATOM, value=value)


def spelled(op: str, given: list[Text]) -> tuple[Text, str]:
    """An operation on expressions, and the name of the small function that it calls ("" for none)."""
    if op in ("and", "or", "not"):
        tests = [g.condition() for g in given]
        if op == "not":
            return Text(f"not {tests[0].bound(NOT)}", NOT, True), ""
        strength = AND if op == "and" else OR
        return Text(f" {op} ".join(t.bound(strength) for t in tests), strength, True), ""
    if op == "select":
        test, (x, y) = given[0].condition(), (g.number() for g in given[1:])
        return Text(f"{x.bound(OR)} if {test.bound(OR)} else {y.bound(CONDITIONAL)}", CONDITIONAL), ""
    x, *rest = (g.number() for g in given)
    match op:
        case "lift":
            return x, ""
        case "neg":
            return Text(f"-{x.bound(UNARY)}", UNARY), ""
        case "add" | "sub":
            sign = "+" if op == "add" else "-"
            return Text(f"{x.bound(SUM)} {sign} {rest[0].bound(PRODUCT)}", SUM), ""
        case "mul":
            return Text(f"{x.bound(PRODUCT)} * {rest[0].bound(UNARY)}", PRODUCT), ""
        case "quotient":
            return Text(f"{x.bound(PRODUCT)} / {rest[0].bound(UNARY)}", PRODUCT), ""
        case "div" if rest[0].value not in (None, 0.0):
            return Text(f"{x.bound(PRODUCT)} / {rest[0].bound(UNARY)}", PRODUCT), ""
        case "pow":
            return Text(f"{x.bound(ATOM)} ** {rest[0].bound(POWER)}", POWER), ""
        case _ if op in COMPARE:
            return Text(f"{x.bound(SUM)} {COMPARE[op]} {rest[0].bound(SUM)}", COMPARISON, True), ""
    call = CALLS[op]
    return Text(f"{call}({', '.join(g.text for g in (x, *rest))})"), call
