"""Normal forms as text in the language's own notation, for diffs and comparisons. Terms stand in the order of their
texts, so equal formulas print alike."""

from __future__ import annotations

from fractions import Fraction

from rlspec.compiler.formula import axes_text, call_text
from rlspec.compiler.normal import ONE, Node, table_of, terms_of

LONGEST = 600  # characters of one part; what shares its parts can be exponentially longer when it is written out

_INFIX = {"or": (1, "or"), "and": (2, "and"), "eq": (4, "=="), "ne": (4, "!="), "lt": (4, "<"), "le": (4, "<="),
          "div": (6, "/"), "pow": (8, "^")}  # fmt: skip
_TRUTHS = ("or", "and", "eq", "ne", "lt", "le", "not", "is")
_ATOM = 9
_USUAL = {"singleton": "zero", "zero_variance": 0.0, "align": None, "missing": None}


def text_of(whole: Node) -> str:
    """The formula in one line; a condition that counts as a number is written `indicator(...)`."""
    return term_text(*next(iter(terms.values()))) if len(terms := terms_of(whole)) == 1 else _text(whole, {})[0]


def formula_text(kind: str, whole: Node) -> str:
    """A formula of a kind in one line: what is credited and what failed are conditions, all others are numbers."""
    return part_text(whole) if kind in ("credit", "failed") else text_of(whole)


def part_text(part: Node) -> str:
    """A part by itself: a condition stays one."""
    return _text(part, {})[0]


def term_text(part: Node, weight: Fraction) -> str:
    """One term of a sum with its coefficient."""
    text = _term(part, abs(weight), {})
    return f"-{text}" if weight < 0 else text


def number_text(value: Fraction) -> str:
    """`0.1`, `1e-06` or, where decimals do not end, `1/3`."""
    if value.denominator == 1 and abs(value) < 10**16:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return repr(float(value)) if rest == 1 else f"{value.numerator}/{value.denominator}"


def is_truth(part: Node) -> bool:
    """Whether a part is a condition."""
    return part.op in _TRUTHS or (part.op == "reduce" and part.attr("fn") in ("any", "all"))


def _term(part: Node, size: Fraction, memo: dict[str, tuple[str, int]]) -> str:
    if part.key == ONE.key:
        return number_text(size)
    if size == 1:
        return _numeric(part, memo, 6)
    return f"{number_text(size)} * {_numeric(part, memo, 7)}"


def _numeric(part: Node, memo: dict[str, tuple[str, int]], least: int) -> str:
    text, binding = _text(part, memo)
    if is_truth(part):
        return f"indicator({text})"
    return text if binding >= least else f"({text})"


def _text(whole: Node, memo: dict[str, tuple[str, int]]) -> tuple[str, int]:
    if whole.key not in memo:
        text, binding = _print(whole, memo)
        memo[whole.key] = (text, binding) if len(text) <= LONGEST else (text[:LONGEST] + "…", _ATOM)
    return memo[whole.key]


def _print(whole: Node, memo: dict[str, tuple[str, int]]) -> tuple[str, int]:
    attrs, parts = dict(whole.attrs), whole.children
    plain = [_text(c, memo)[0] for c in parts] if whole.op not in ("sum", "product") else []
    match whole.op:
        case "const":
            value = Fraction(attrs["value"])
            return number_text(value), _ATOM if value >= 0 else 5
        case "limit":
            return attrs["value"], _ATOM
        case "one":
            return "1", _ATOM
        case "input" | "ref":
            return attrs["name"], _ATOM
        case "sum":
            return _sum(whole, memo), 5
        case "product":
            return " * ".join(sorted(_numeric(c, memo, 7) for c in parts)), 6
        case "is":
            return f"{plain[0]} == {attrs['choice']}", 4
        case "not":
            return f"not ({plain[0]})", 3
        case "table":
            values, otherwise = table_of(whole)
            rows = [f"{label} = {_text(value, memo)[0]}" for label, value in values.items()]
            rows += [] if otherwise is None else [f"otherwise = {_text(otherwise, memo)[0]}"]
            return f"by({plain[0]}, {', '.join(rows)})", _ATOM
        case "select":
            return f"(if {plain[0]} then {plain[1]} else {plain[2]})", _ATOM
        case "normalise":
            rules = {k: v for k, v in attrs.items() if k not in ("fn", "axes", "align", "missing")}
            if attrs["fn"] != "zscore":
                rules.pop("ddof", None)
                rules.pop("epsilon", None)
            said = [f"{k} = {v}" for k, v in rules.items() if k not in _USUAL or v != _USUAL[k]]
            aligned = [f"align {attrs['align']}"] if attrs.get("align") else []
            said = ([f"missing = {attrs['missing']}"] if aligned else []) + said
            over = " ".join([f"over {axes_text(attrs['axes'])}", *aligned])
            return f"{attrs['fn']}({', '.join([f'{plain[0]} {over}', *said])})", _ATOM
        case op if op in _INFIX:
            return _infix(whole, memo)
        case op:
            return call_text(op, attrs, plain), _ATOM


def _sum(whole: Node, memo: dict[str, tuple[str, int]]) -> str:
    shown = sorted((w < 0, _term(c, abs(w), memo)) for c, w in zip(whole.children, whole.weights, strict=True))
    text = "".join(f" {'-' if negative else '+'} {term}" for negative, term in shown)
    return text[3:] if text.startswith(" + ") else f"-{text[3:]}"


def _infix(whole: Node, memo: dict[str, tuple[str, int]]) -> tuple[str, int]:
    strength, sign = _INFIX[whole.op]
    if whole.op == "or" and (member := _membership(whole, memo)):
        return member, 4
    if whole.op in ("div", "pow"):
        sides = [_numeric(whole.children[0], memo, strength + (whole.op == "pow")),
                 _numeric(whole.children[1], memo, strength + (whole.op == "div"))]  # fmt: skip
        return f" {sign} ".join(sides), strength
    sides = [text if binding > strength else f"({text})" for text, binding in (_text(c, memo) for c in whole.children)]
    if whole.op in ("eq", "ne", "and", "or"):
        sides.sort(key=lambda side: (_looks_constant(side), side))
    return f" {sign} ".join(sides), strength


def _looks_constant(side: str) -> bool:
    return side.lstrip("-(")[:1].isdigit()


def _membership(whole: Node, memo: dict[str, tuple[str, int]]) -> str | None:
    """`x == a or x == b` as `x in {a, b}`."""
    subjects, values = set(), []
    for part in whole.children:
        if part.op == "is":
            subjects.add(_text(part.children[0], memo)[0])
            values.append((0.0, part.attr("choice")))
        elif part.op == "eq" and (known := [c for c in part.children if c.op == "const"]):
            other = next((c for c in part.children if c is not known[0]), known[0])
            subjects.add(_text(other, memo)[0])
            value = Fraction(known[0].attr("value"))
            values.append((float(value), number_text(value)))
        else:
            return None
    return f"{subjects.pop()} in {{{', '.join(v for _, v in sorted(values))}}}" if len(subjects) == 1 else None
