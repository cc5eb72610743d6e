"""A layout as LaTeX that needs amsmath alone, as Markdown viewers and papers set it."""

from __future__ import annotations

from rlspec.compiler.showing.maths import (
    GREEK,
    Cases,
    Fence,
    Fraction,
    Lines,
    Maths,
    Number,
    Root,
    Row,
    Script,
    Sign,
    Symbol,
    Under,
    Words,
)

_SIGNS = {
    "≠": r"\neq", "≤": r"\leq", "≥": r"\geq", "∈": r"\in", "∉": r"\notin", "∧": r"\land", "∨": r"\lor", "−": "-",
    "·": r"\cdot", "¬": r"\lnot", "∑": r"\sum", "<": r"\lt", ">": r"\gt", ":": r"\mid",
}  # fmt: skip
_LETTERS = {letter: rf"\{word}" for word, letter in GREEK.items()} | {"𝟏": r"\mathbf{1}"}
_FENCES = {"{": r"\{", "}": r"\}", "|": r"\vert"}
_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "%": r"\%", "#": r"\#", "&": r"\&", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "`": r"\textasciigrave{}", "\n": " ", "\u202f": " ",
}  # fmt: skip


def latex(maths: Maths) -> str:
    """The layout between, but without, the dollar signs; one line."""
    return _print(maths)


def text(words: str) -> str:
    """Words as LaTeX's text: nothing in them is a command."""
    return "".join(_TEXT.get(c, c) for c in words)


def _print(maths: Maths) -> str:
    match maths:
        case Number(shown):
            return shown.replace("\u202f", r"\,").replace("−", "-")
        case Symbol(name):
            if name in _LETTERS:
                return _LETTERS[name]
            return name if len(name) == 1 else rf"\mathrm{{{text(name)}}}"
        case Sign(sign, _):
            return _SIGNS.get(sign, sign)
        case Words(words):
            return rf"\text{{{text(words)}}}"
        case Row(parts):
            return " ".join(map(_print, parts))
        case Fence(left, inner, right):
            return rf"\left{_FENCES.get(left, left)} {_print(inner)} \right{_FENCES.get(right, right)}"
        case Fraction(above, below):
            return rf"\frac{{{_print(above)}}}{{{_print(below)}}}"
        case Script(base, sub, sup):
            lower = f"_{{{_print(sub)}}}" if sub is not None else ""
            upper = f"^{{{_print(sup)}}}" if sup is not None else ""
            return f"{{{_print(base)}}}{lower}{upper}"
        case Under(Sign(sign, _), below):
            return f"{_SIGNS.get(sign, sign)}_{{{_print(below)}}}"
        case Under(base, below):
            return rf"\operatorname*{{{_print(base)}}}_{{{_print(below)}}}"
        case Root(inner):
            return rf"\sqrt{{{_print(inner)}}}"
        case Cases(rows):
            lines = r" \\ ".join(f"{_print(value)} & {_print(when)}" for value, when in rows)
            return rf"\begin{{cases}} {lines} \end{{cases}}"
        case Lines(left, rows):
            lines = r" \\ & ".join(_print(row) for row in rows)
            return rf"\begin{{aligned}} {_print(left)} {{}} & {lines} \end{{aligned}}"
