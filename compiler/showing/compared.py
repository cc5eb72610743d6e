"""A difference, and experiments side by side, as pages of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rlspec.compiler.diff import Difference, Row
from rlspec.compiler.matrix import Line
from rlspec.compiler.showing.mathml import mathml
from rlspec.compiler.showing.maths import maths_of_text
from rlspec.compiler.showing.page import rendered
from rlspec.compiler.showing.words import LEVELS, by_role, component_lines, folded, value_text
from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import dataclass

FORMULAS = ("reward", "advantage")


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a difference does to logged conversations, ready to be shown: figures, and trajectories in lines."""

    about: str
    rows: Sequence[tuple[str, str]]
    changes: Sequence[tuple[str, Sequence[str]]]


def difference_page(found: Difference, assumptions: bool = False, effect: Consequence | None = None) -> str:
    """Level, edits by role with formulas term by term, what is confounded side by side, assumptions folded."""
    shown, _ = folded(found, assumptions=False)
    return rendered(
        "difference.html.j2",
        found=found,
        groups=by_role(shown),
        assumed=[r for r in found.rows if r.assumed],
        assumptions=assumptions,
        levels=LEVELS,
        effect=effect,
        term=_term,
        formula=_formula,
        shown=_shown,
    )


def comparison_page(heads: Sequence[str], lines: Sequence[Line]) -> str:
    """A row per role or field, a column per experiment."""
    return rendered("comparison.html.j2", heads=heads, lines=lines)


def _formula(text: str) -> Any:
    """A formula in the language's notation, typeset; as it is where it was cut."""
    from markupsafe import Markup

    maths = maths_of_text(text)
    return Markup(f"<code>{escape(text)}</code>" if maths is None else mathml(maths, text, block=False))


def _term(sign: str, text: str) -> Any:
    """A term that came or went is typeset; a change within one is told in words."""
    from markupsafe import Markup

    return _formula(text) if sign in "+-" else Markup(f"<code>{escape(text)}</code>")


def _shown(row: Row, value: Any) -> Any:
    from markupsafe import Markup

    if row.edit.path[0] in FORMULAS and isinstance(value, str):
        return _formula(value)
    return Markup(escape("\n".join(component_lines(value)) if isinstance(value, dict) else value_text(value)))
