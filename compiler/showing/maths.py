"""Formulas as people write them on paper: from the syntax tree to a small layout, which MathML and LaTeX are made of.

    sum(verdict over turn where verdict >= 0) / num(turn)     a fraction, with a summation sign over its axis
    indicator(any(verdict == -1 over turn))                   the bold 1 of a condition
    suffix_sum(r over turn, discount = gamma)                 a sum of gamma ^ (k - t) times r of turn k

Nothing is computed and nothing left out: every option of a function stays, and what has no sign of its own is printed
as a function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace

from rlspec.compiler.elaborate import dotted
from rlspec.compiler.functions import PROVENANCE
from rlspec.dsl import parser, tree
from rlspec.dsl.annotations import Any, TypeAlias
from rlspec.dsl.diagnostics import Source
from rlspec.dsl.printer import text_of

# ------------------------------------------------------------------------------------------------------- the layout


@dataclass(frozen=True, slots=True)
class Number:
    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: one letter is printed in italics, a word upright."""

    text: str


@dataclass(frozen=True, slots=True)
class Sign:
    """An operator, with room around it when it stands between two operands."""

    text: str
    between: bool = True


@dataclass(frozen=True, slots=True)
class Words:
    """Plain text within a formula."""

    text: str


@dataclass(frozen=True, slots=True)
class Row:
    parts: tuple[Maths, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Something between brackets that grow with it."""

    left: str
    inner: Maths
    right: str


@dataclass(frozen=True, slots=True)
class Fraction:
    above: Maths
    below: Maths


@dataclass(frozen=True, slots=True)
class Script:
    """`base` with something below right and above right."""

    base: Maths
    sub: Maths | None = None
    sup: Maths | None = None


@dataclass(frozen=True, slots=True)
class Under:
    """`base` (a large sign, or the name of a function) with something written under it."""

    base: Maths
    below: Maths


@dataclass(frozen=True, slots=True)
class Root:
    inner: Maths


@dataclass(frozen=True, slots=True)
class Cases:
    """Values and when they hold."""

    rows: tuple[tuple[Maths, Maths], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """`left`, then one line per part of a long right side, all beginning at one place."""

    left: Maths
    rows: tuple[Maths, ...]


Maths: TypeAlias = Number | Symbol | Sign | Words | Row | Fence | Fraction | Script | Under | Root | Cases | Lines

LONG = 70  # characters of a sum that is printed a term a line

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ",
    "chi": "χ", "psi": "ψ", "omega": "ω",
}  # fmt: skip
SIGNS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "in": "∈", "not in": "∉", "and": "∧", "or": "∨", "-": "−",
         "*": "·"}  # fmt: skip
REDUCERS = ("mean", "min", "max", "any", "all", "count", "first", "last")

# How tightly a printed form binds; a large sign reaches to the end of its product.
_CASES, _OR, _AND, _NOT, _COMPARISON, _SUM, _LARGE, _PRODUCT, _SIGNED, _POWER, _ATOM = range(11)
_BINARY = {
    "or": (_OR, _OR, _AND),
    "and": (_AND, _AND, _NOT),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in"), (_COMPARISON, _SUM, _SUM)),
    "+": (_SUM, _SUM, _LARGE),
    "-": (_SUM, _SUM, _LARGE),
    "*": (_PRODUCT, _PRODUCT, _PRODUCT),
}


def maths_of(node: tree.Expression) -> Maths:
    """The layout of an expression."""
    return _layout(node)[0]


def maths_of_text(text: str) -> Maths | None:
    """The layout of a text in the language's notation, or None where it is no expression (it was cut, or is prose)."""
    node, report = parser.parse_expression(Source("formula", text))
    return None if node is None or report else maths_of(node)


def defined(name: str, node: tree.Expression) -> Maths:
    """`name = expression`; a long sum has a line for each term."""
    left = Row((symbol(name), Sign("=")))
    terms = _terms(node) if len(text_of(node)) > LONG else []
    return Lines(left, tuple(terms)) if len(terms) > 1 else Row((left, maths_of(node)))


def _terms(node: tree.Expression) -> list[Maths]:
    if isinstance(node, tree.Binary) and node.op in ("+", "-"):
        sign = Sign(SIGNS.get(node.op, node.op))
        return [*_terms(node.left), Row((sign, _within(node.right, _LARGE)))]
    return [_within(node, _SUM)]


# ----------------------------------------------------------------------------------------------------------- names


def symbol(name: str) -> Maths:
    """A name. Greek words become letters; what follows the underscore of a letter is its index: `w_fmt`."""
    first, _, rest = name.partition("_")
    if name in GREEK:
        return Symbol(GREEK[name])
    if rest and (len(first) == 1 or first in GREEK):
        return Script(symbol(first), sub=Symbol(rest))
    return Symbol(name)


def number(node: tree.Number) -> Maths:
    """As it was written, powers of ten as powers."""
    text, unit = node.text.removesuffix(node.unit) if node.unit else node.text, node.unit
    mantissa, sign, exponent = text.replace("E", "e").partition("e")
    parts: list[Maths] = []
    if sign:
        power = Script(Number("10"), sup=Number(exponent.lstrip("+").replace("-", "−")))
        parts = [power] if mantissa in ("1", "1.0") else [Number(mantissa), Sign("·"), power]
    else:
        parts = [Number(text.replace("_", " "))]  # a narrow space that does not break
    if unit:
        parts.append(Words(unit if unit == "%" else f" {unit.replace('_', ' ')}"))
    return parts[0] if len(parts) == 1 else Row(tuple(parts))


# ----------------------------------------------------------------------------------------------------- expressions


def _within(node: tree.Expression, least: int) -> Maths:
    found, binding = _layout(node)
    return found if binding >= least else Fence("(", found, ")")


def _listed(nodes: tuple[tree.Expression, ...]) -> list[Maths]:
    out: list[Maths] = []
    for node in nodes:
        out += [Sign(",", False), maths_of(node)] if out else [maths_of(node)]
    return out


def _layout(node: tree.Expression) -> tuple[Maths, int]:
    """The layout, and how tightly it binds."""
    match node:
        case tree.Number():
            return number(node), _ATOM if not ("e" in node.text.lower() or node.unit) else _PRODUCT
        case tree.Text(value=value):
            return Words(f"“{value}”"), _ATOM
        case tree.Boolean(value=value):
            return Words("true" if value else "false"), _ATOM
        case tree.Name(value=value):
            return symbol(value), _ATOM
        case tree.Member():
            name = dotted(node)
            if name is not None:
                return Symbol(name), _ATOM
            return Row((_within(node.target, _ATOM), Sign(".", False), Symbol(node.name.value))), _ATOM
        case tree.Index(target=target, key=key):
            return Script(_within(target, _ATOM), sub=maths_of(key)), _ATOM
        case tree.Unary(op="not", operand=operand):
            return Row((Sign("¬", False), _within(operand, _NOT))), _NOT
        case tree.Unary(operand=operand):
            return Row((Sign("−", False), _within(operand, _SIGNED))), _SIGNED
        case tree.Binary(op="/", left=left, right=right):
            return Fraction(maths_of(left), maths_of(right)), _POWER
        case tree.Binary(op="^", left=left, right=right):
            return Script(_within(left, _ATOM), sup=maths_of(right)), _POWER
        case tree.Binary(op=op, left=left, right=right):
            binding, least, least_right = _BINARY[op]
            sign = Sign(SIGNS.get(op, op))
            return Row((_within(left, least), sign, _within(right, least_right))), binding
        case tree.Conditional():
            return _cases(node), _ATOM
        case tree.Call():
            return _call(node)
        case tree.ListOf(items=items):
            return Fence("[", Row(tuple(_listed(items))), "]"), _ATOM
        case tree.SetOf(items=items):
            return Fence("{", Row(tuple(_listed(items))), "}"), _ATOM


def _cases(node: tree.Conditional) -> Maths:
    rows: list[tuple[Maths, Maths]] = []
    rest: tree.Expression = node
    while isinstance(rest, tree.Conditional):
        rows.append((maths_of(rest.yes), Row((Words("if "), maths_of(rest.condition)))))
        rest = rest.no
    return Cases((*rows, (maths_of(rest), Words("otherwise"))))


def _call(node: tree.Call) -> tuple[Maths, int]:
    name = dotted(node.function)
    plain = [a for a in node.arguments if a.name is None]
    first = plain[0] if plain else None
    alone = first is not None and len(node.arguments) == 1 and not first.over
    if name in PROVENANCE and first is not None:
        return _layout(first.value)
    if name == "indicator" and alone and first is not None:
        return Row((Symbol("𝟏"), Fence("[", maths_of(first.value), "]"))), _ATOM
    if name == "abs" and alone and first is not None:
        return Fence("|", maths_of(first.value), "|"), _ATOM
    if name == "sqrt" and alone and first is not None:
        return Root(maths_of(first.value)), _ATOM
    if name in ("num", "index") and alone and first is not None and isinstance(first.value, tree.Name):
        return Script(Symbol("N" if name == "num" else "i"), sub=Symbol(first.value.value)), _ATOM
    if name == "clip" and len(plain) == len(node.arguments) == 3:
        bounds = Fence("[", Row(tuple(_listed((plain[1].value, plain[2].value)))), "]")
        return Row((Script(Symbol("clip"), sub=bounds), Fence("(", maths_of(plain[0].value), ")"))), _ATOM
    if name == "by" and len(plain) == 1 and len(node.arguments) > 1 and first is not None:
        return _table(first.value, node), _ATOM
    if name == "sum" and first is not None and first.over and len(node.arguments) == 1:
        return Row((Under(Sign("∑", False), _over(first)), _within(first.value, _PRODUCT))), _LARGE
    if name == "suffix_sum" and first is not None and len(first.over) == 1 and _only(node, "discount"):
        return _returns(first, node), _LARGE
    if name in REDUCERS and first is not None and first.over:
        return Row((Under(Symbol(name), _over(first)), _arguments(node, over=False))), _ATOM
    if name is None:
        return Row((_within(node.function, _ATOM), _arguments(node))), _ATOM
    if first is not None and first.over:
        return Row((Script(Symbol(name), sub=_over(first)), _arguments(node, over=False))), _ATOM
    return Row((Symbol(name), _arguments(node))), _ATOM


def _only(node: tree.Call, option: str) -> bool:
    return {a.name.value for a in node.arguments if a.name is not None} <= {option}


def _returns(argument: tree.Argument, node: tree.Call) -> Maths:
    """What is still to come: the sum over this turn and the later ones, discounted by their distance."""
    discount = next((a.value for a in node.arguments if a.name is not None), None)
    what = _within(argument.value, _ATOM)
    term: list[Maths] = [Script(what, sub=Symbol("k"))]
    if discount is not None and not (isinstance(discount, tree.Number) and discount.value == 1):
        distance = Row((Symbol("k"), Sign("−"), Symbol("t")))
        term.insert(0, Script(_within(discount, _ATOM), sup=distance))
    where = Row((Symbol("k"), Sign("≥"), Symbol("t"), Words(f" ({argument.over[0].value})")))
    return Row((Under(Sign("∑", False), where), *term))


def _table(subject: tree.Expression, node: tree.Call) -> Maths:
    rows: list[tuple[Maths, Maths]] = []
    for argument in node.arguments:
        if argument.name is not None:
            key = argument.name.value
            told: Maths = Row((Words("if "), maths_of(subject), Sign("="), Words(key)))
            rows.append((maths_of(argument.value), Words("otherwise") if key == "otherwise" else told))
    return Cases(tuple(rows))


def _over(argument: tree.Argument) -> Maths:
    """The axes of a reducer, what is aligned, and which members count."""
    parts: list[Maths] = [Words(", ".join(axis.value for axis in argument.over))]
    if argument.align is not None:
        parts.append(Words(f" align {argument.align.value}"))
    if argument.where is not None:
        parts += [Sign(":"), maths_of(argument.where)]
    return parts[0] if len(parts) == 1 else Row(tuple(parts))


def _arguments(node: tree.Call, over: bool = True) -> Maths:
    """All arguments between round brackets; options are set off by a semicolon."""
    parts: list[Maths] = []
    named = False
    for argument in node.arguments:
        if parts:
            parts.append(Sign(";" if argument.name is not None and not named else ",", False))
        if argument.name is not None:
            named = True
            parts += [symbol(argument.name.value), Sign("=")]
        parts.append(maths_of(argument.value))
        if over and argument.over:
            parts += [Words(" over "), _over(argument)]
    return Fence("(", Row(tuple(parts)), ")")


def source_of(node: tree.Expression) -> str:
    """The formula as the language writes it, for readers of the page who cannot see. Where its numbers come from is
    told elsewhere."""
    return text_of(_unsourced(node))


def bare_text(text: str) -> str:
    """A formula's text without the provenance of its numbers; a text that is no expression stays as it is."""
    node, report = parser.parse_expression(Source("formula", text))
    return text if node is None or report else source_of(node)


def _unsourced(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(map(_unsourced, node))
    if not is_dataclass(node) or isinstance(node, type | tree.Span):
        return node
    if isinstance(node, tree.Call) and dotted(node.function) in PROVENANCE and node.arguments:
        return _unsourced(node.arguments[0].value)
    return replace(node, **{f.name: _unsourced(getattr(node, f.name)) for f in fields(node)})
