"""Normal forms of formulas: two formulas that say the same in another order or spelling get one key.

    10 * outcome - 5 * indicator(any(verdict == -1 over turn))
    -> sum of terms {outcome: 10, any(verdict == -1 over turn): -5}

A sum is a multiset of terms with exact coefficients, a product a multiset of factors, `and`, `or` and membership are
sets, `a > b` is `b < a`, and a choice among the values of an enumeration is a table. A number is the decimal that was
written, so 0.1, 10% and 1/10 are one number. Nothing is distributed: `2 * (a + b)` stays a product, because that is
how its author thinks of it. Keys are those of a Merkle graph: shared parts are hashed once, whatever they expand to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from rlspec.compiler.program import Program, Step
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass

SETS = ("and", "or", "min2", "max2")
SYMMETRIC = (*SETS, "eq", "ne", "product", "sum")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A part of a formula. `attrs` are sorted pairs of JSON values; `weights` are the coefficients of a sum's children.
    Nodes of one key mean the same."""

    op: str
    attrs: tuple[tuple[str, Any], ...]
    children: tuple[Node, ...]
    weights: tuple[Fraction, ...]
    key: str

    def attr(self, name: str) -> Any:
        return dict(self.attrs).get(name)


Terms = dict[str, tuple[Node, Fraction]]
"""Term key -> the term and its coefficient."""


def node(op: str, children: Iterable[Node] = (), weights: Iterable[Fraction] = (), **attrs: Any) -> Node:
    """A node with its key. Children of symmetric operations are put in the order of their keys."""
    pairs = tuple(sorted(attrs.items()))
    parts, shares = tuple(children), tuple(weights)
    if op in SYMMETRIC:
        order = sorted(range(len(parts)), key=lambda i: (parts[i].key, shares[i] if shares else 0))
        parts, shares = tuple(parts[i] for i in order), tuple(shares[i] for i in order) if shares else ()
    body = repr((op, pairs, [p.key for p in parts], [str(w) for w in shares]))
    return Node(op, pairs, parts, shares, hashlib.sha256(body.encode()).hexdigest()[:32])


ONE = node("one")


def exact(value: float) -> Fraction | None:
    """The decimal number that a float was written as; None for infinities and NaN."""
    return Fraction(repr(float(value))) if value - value == 0 else None


def constant(value: Fraction) -> Node:
    return node("const", value=str(value))


def number(value: float) -> Node:
    known = exact(value)
    return node("limit", value=repr(value)) if known is None else constant(known)


# ------------------------------------------------------------------------------------------------ sums and products


def terms_of(whole: Node) -> Terms:
    """A formula as a sum; what is no sum is a sum of one term. A constant is a multiple of `ONE`."""
    if whole.op == "const":
        value = Fraction(whole.attr("value"))
        return {ONE.key: (ONE, value)} if value else {}
    if whole.op == "sum":
        return {c.key: (c, w) for c, w in zip(whole.children, whole.weights, strict=True)}
    return {whole.key: (whole, Fraction(1))}


def sum_of(terms: Terms) -> Node:
    """The normal form of a sum: no zero terms, sums of weight 1 or -1 are opened, a lone term stands for itself."""
    kept: Terms = {}
    for part, weight in terms.values():
        if part.op == "sum" and abs(weight) == 1:
            for inner, share in terms_of(part).values():
                _add(kept, inner, share * weight)
        else:
            _add(kept, part, weight)
    left = [(p, w) for p, w in kept.values() if w]
    if not left:
        return constant(Fraction(0))
    if len(left) == 1 and left[0][0].key == ONE.key:
        return constant(left[0][1])
    if len(left) == 1 and left[0][1] == 1:
        return left[0][0]
    return node("sum", [p for p, _ in left], [w for _, w in left])


def _add(terms: Terms, part: Node, weight: Fraction) -> None:
    before = terms.get(part.key)
    terms[part.key] = (part, weight if before is None else before[1] + weight)


def _scaled(whole: Node, factor: Fraction) -> Node:
    if factor == 1:
        return whole
    terms = terms_of(whole)
    if len(terms) <= 1 or factor == -1:
        return sum_of({key: (part, weight * factor) for key, (part, weight) in terms.items()})
    return node("sum", [whole], [factor]) if factor else constant(Fraction(0))


def _split(whole: Node) -> tuple[Fraction, Node]:
    """Coefficient and the rest: `3 * x` is (3, x), a constant is (itself, ONE)."""
    terms = list(terms_of(whole).values())
    if not terms:
        return Fraction(0), ONE
    return (terms[0][1], terms[0][0]) if len(terms) == 1 else (Fraction(1), whole)


def _product(left: Node, right: Node) -> Node:
    (a, x), (b, y) = _split(left), _split(right)
    factors = [f for part in (x, y) for f in (part.children if part.op == "product" else (part,)) if f.key != ONE.key]
    if not factors:
        return constant(a * b)
    return _scaled(factors[0] if len(factors) == 1 else node("product", factors), a * b)


def _quotient(left: Node, right: Node) -> Node:
    (a, x), (b, y) = _split(left), _split(right)
    if b == 0:
        return node("div", [left, right])
    if y.key == ONE.key:
        return _scaled(left, 1 / b)
    return _scaled(node("div", [x, y]), a / b)


# ----------------------------------------------------------------------------------------------------- from programs


@dataclass(slots=True)
class Normaliser:
    """Normal forms of a program's outputs. `choices` names the codes of enumerated inputs; `inputs` gives another name
    to inputs (those that read a measure directly)."""

    program: Program
    choices: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, str]

    def output(self, name: str, cut: Mapping[str, int]) -> Node:
        """The normal form of an output. `cut` are other outputs, which appear by their names where they are used."""
        at = self.program.outputs[name]
        names = {step: other for other, step in sorted(cut.items(), reverse=True) if step != at}
        found: dict[int, Node] = {}
        needed, stack = set(), [at]
        while stack:
            step = stack.pop()
            if step not in needed:
                needed.add(step)
                if step not in names:
                    stack.extend(self.program.steps[step].args)
        for step in sorted(needed):
            if step in names and self.program.steps[step].op != "const":
                found[step] = node("ref", name=names[step])
            elif all(a in found for a in self.program.steps[step].args):
                args = [found[a] for a in self.program.steps[step].args]
                found[step] = self._node(self.program.steps[step], args)
        return found[at]

    def _node(self, step: Step, args: list[Node]) -> Node:
        # lists, as a stored plan has them
        attrs: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in step.attrs.items()}
        match step.op, args:
            case "const", _:
                return number(float(attrs["value"]))
            case "input", _:
                return node("input", name=self.inputs.get(attrs["name"], attrs["name"]))
            case "add", [x, y]:
                return _sum(x, y, Fraction(1))
            case "sub", [x, y]:
                return _sum(x, y, Fraction(-1))
            case "neg", [x]:
                return _scaled(x, Fraction(-1))
            case "mul", [x, y]:
                return _product(x, y)
            case "div", [x, y]:
                return _quotient(x, y)
            case "gt" | "ge", [x, y]:
                return node("lt" if step.op == "gt" else "le", [y, x])
            case "eq" | "ne", [x, y]:
                return self._equal(step.op, x, y)
            case "and" | "or" | "min2" | "max2", _:
                return _set(step.op, args)
            case "not", [x]:
                return _negated(x)
            case "select", [condition, yes, no]:
                return _select(condition, yes, no)
        return node(step.op, args, **attrs)

    def _equal(self, op: str, left: Node, right: Node) -> Node:
        """Comparison with a code of an enumeration names the choice."""
        if left.op == "const":
            left, right = right, left
        names = self._choices(left)
        if names and right.op == "const" and 0 <= (code := Fraction(right.attr("value"))) < len(names):
            same = node("is", [left], choice=names[int(code)], among=sorted(names))
            return same if op == "eq" else _negated(same)
        return node(op, [left, right])

    def _choices(self, whole: Node) -> tuple[str, ...]:
        while whole.op == "reduce" and whole.children:
            whole = whole.children[0]
        return tuple(self.choices.get(whole.attr("name"), ())) if whole.op == "input" else ()


def _sum(left: Node, right: Node, sign: Fraction) -> Node:
    terms = dict(terms_of(left))
    for part, weight in terms_of(right).values():
        _add(terms, part, weight * sign)
    return sum_of(terms)


def _set(op: str, args: list[Node]) -> Node:
    members = {m.key: m for a in args for m in (a.children if a.op == op else (a,))}
    return next(iter(members.values())) if len(members) == 1 else node(op, members.values())


def _negated(inner: Node) -> Node:
    if inner.op == "not":
        return inner.children[0]
    return node("ne", inner.children) if inner.op == "eq" else node("not", [inner])


def _select(condition: Node, yes: Node, no: Node) -> Node:
    if condition.op == "not":
        return _select(condition.children[0], no, yes)
    if condition.op == "ne":
        return _select(node("eq", condition.children), no, yes)
    if condition.op != "is":
        return node("select", [condition, yes, no])
    subject, among = condition.children[0], condition.attr("among")
    entries, otherwise = table_of(no) if no.op == "table" and no.children[0].key == subject.key else ({}, no)
    entries = {**entries, condition.attr("choice"): yes}
    if otherwise is not None and len(left := [c for c in among if c not in entries]) <= 1:
        entries, otherwise = {**entries, **dict.fromkeys(left, otherwise)}, None
    labels = sorted(entries)
    rest = [] if otherwise is None else [otherwise]
    return node("table", [subject, *(entries[label] for label in labels), *rest], choices=labels)


def table_of(table: Node) -> tuple[dict[str, Node], Node | None]:
    """The values of a table by choice, and that of all other choices if there are others."""
    labels, values = table.attr("choices"), table.children[1:]
    return dict(zip(labels, values, strict=False)), values[-1] if len(values) > len(labels) else None


# ------------------------------------------------------------------------------------------------------- rewriting


def renamed(whole: Node, name: Callable[[str, str], str], memo: dict[str, Node] | None = None) -> Node:
    """The formula with other names: `name(op, old)` for the names of inputs and of referred formulas."""
    memo = {} if memo is None else memo
    if whole.key not in memo:
        attrs = dict(whole.attrs)
        if whole.op in ("input", "ref"):
            attrs["name"] = name(whole.op, attrs["name"])
        elif whole.op == "lookup":
            attrs["table"] = name("lookup", attrs["table"])
        memo[whole.key] = node(whole.op, [renamed(c, name, memo) for c in whole.children], whole.weights, **attrs)
    return memo[whole.key]


def shape(whole: Node, memo: dict[str, str] | None = None) -> str:
    """A key that forgets every number: formulas of one shape differ in values alone."""
    memo = {} if memo is None else memo
    if whole.key not in memo:
        kept = [(k, v) for k, v in whole.attrs if isinstance(v, str | list) and whole.op != "const"]
        inner = [shape(c, memo) for c in whole.children]
        body = json.dumps([whole.op, kept, sorted(inner) if whole.op in SYMMETRIC else inner])
        memo[whole.key] = hashlib.sha256(body.encode()).hexdigest()[:32]
    return memo[whole.key]
