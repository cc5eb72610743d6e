"""A layout as MathML (the Core subset that browsers draw without help), every text escaped."""

from __future__ import annotations

from html import escape

from rlspec.compiler.showing.maths import (
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


def mathml(maths: Maths, label: str = "", block: bool = True) -> str:
    """A `<math>` element; `label` is what a screen reader says."""
    shown = ' display="block"' if block else ""
    said = f' aria-label="{escape(label, quote=True)}"' if label else ""
    return f"<math{shown}{said}>{_print(maths)}</math>"


def _print(maths: Maths) -> str:
    match maths:
        case Number(text):
            return f"<mn>{escape(text)}</mn>"
        case Symbol(text):
            return f"<mi>{escape(text)}</mi>"
        case Sign(text, between):
            spaced = "" if between else ' lspace="0" rspace="0.1em"'
            return f"<mo{spaced}>{escape(text)}</mo>"
        case Words(text):
            return f"<mtext>{escape(text).replace(' ', '&#160;')}</mtext>"
        case Row(parts):
            return f"<mrow>{''.join(map(_print, parts))}</mrow>"
        case Fence(left, inner, right):
            return (
                f'<mrow><mo fence="true" stretchy="true">{escape(left)}</mo>{_print(inner)}'
                f'<mo fence="true" stretchy="true">{escape(right)}</mo></mrow>'
            )
        case Fraction(above, below):
            return f"<mfrac>{_print(above)}{_print(below)}</mfrac>"
        case Script(base, None, sup) if sup is not None:
            return f"<msup>{_print(base)}{_print(sup)}</msup>"
        case Script(base, sub, None) if sub is not None:
            return f"<msub>{_print(base)}{_print(sub)}</msub>"
        case Script(base, sub, sup) if sub is not None and sup is not None:
            return f"<msubsup>{_print(base)}{_print(sub)}{_print(sup)}</msubsup>"
        case Script(base):
            return _print(base)
        case Under(base, below):
            large = '<mo largeop="true" movablelimits="false">' if isinstance(base, Sign) else ""
            shown = f"{large}{escape(base.text)}</mo>" if isinstance(base, Sign) else _print(base)
            return f"<munder>{shown}{_print(below)}</munder>"
        case Root(inner):
            return f"<msqrt>{_print(inner)}</msqrt>"
        case Cases(rows):
            lines = "".join(f"<mtr><mtd>{_print(v)}</mtd><mtd>{_print(c)}</mtd></mtr>" for v, c in rows)
            return f'<mrow><mo fence="true" stretchy="true">{{</mo><mtable>{lines}</mtable></mrow>'
        case Lines(left, rows):
            lines = "".join(
                f"<mtr><mtd>{_print(left) if not i else ''}</mtd><mtd>{_print(row)}</mtd></mtr>"
                for i, row in enumerate(rows)
            )
            return f'<mtable class="lines" displaystyle="true">{lines}</mtable>'
