"""Formulas as MathML and LaTeX."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.library import remarks, standard
from rlspec.compiler.showing.latex import latex, text
from rlspec.compiler.showing.mathml import mathml
from rlspec.compiler.showing.maths import bare_text, defined, maths_of, maths_of_text
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import Source
from rlspec.dsl.parser import parse_expression

NOWHERE = tree.Span(0, 0)


def both(formula: str) -> tuple[str, str]:
    maths = maths_of_text(formula)
    assert maths is not None
    return mathml(maths), latex(maths)


def told(markup: str) -> str:
    """The characters of MathML, without its elements."""
    return "".join(ElementTree.fromstring(markup).itertext())


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a - (b - c)", r"a - \left( b - c \right)"),
        ("a - b - c", "a - b - c"),
        ("a * (b + c)", r"a \cdot \left( b + c \right)"),
        ("(a + b) / (c + d)", r"\frac{a + b}{c + d}"),
        ("(a / b) ^ 2", r"{\left( \frac{a}{b} \right)}^{2}"),
        ("gamma ^ (k - 1)", r"{\gamma}^{k - 1}"),
        ("-(a + b)", r"- \left( a + b \right)"),
        ("1e-6 * x", r"{10}^{-6} \cdot x"),
        ("2.5e3", r"2.5 \cdot {10}^{3}"),
        ("57.4%", r"57.4 \text{\%}"),
        ("30agent_turns", r"30 \text{ agent turns}"),
        ("w_fmt * fmt", r"{w}_{\mathrm{fmt}} \cdot \mathrm{fmt}"),
        ("indicator(x > 1)", r"\mathbf{1} \left[ x \gt 1 \right]"),
        ("sum(v over turn where v in {0, 1}) / num(turn)",
         r"\frac{\sum_{\text{turn} \mid v \in \left\{ 0 , 1 \right\}} v}{{N}_{\mathrm{turn}}}"),
        ("2 * sum(a + b over turn)", r"2 \cdot \left( \sum_{\text{turn}} \left( a + b \right) \right)"),
        ("suffix_sum(r over turn, discount = gamma)", r"\sum_{k \geq t \text{ (turn)}} {\gamma}^{k - t} {r}_{k}"),
        ("zscore(v over (traj, turn), ddof = 0)",
         r"{\mathrm{zscore}}_{\text{traj, turn}} \left( v ; \mathrm{ddof} = 0 \right)"),
        ("if a then 1 else if b then 2 else 3",
         r"\begin{cases} 1 & \text{if } a \\ 2 & \text{if } b \\ 3 & \text{otherwise} \end{cases}"),
        ("by(tier, gold = 1, otherwise = 0)",
         r"\begin{cases} 1 & \text{if } \mathrm{tier} = \text{gold} \\ 0 & \text{otherwise} \end{cases}"),
        ("reported(10, \"table 3\") * outcome", r"10 \cdot \mathrm{outcome}"),
        ("calibrate.weight[tier]", r"{\mathrm{calibrate.weight}}_{\mathrm{tier}}"),
        ("anneal(a, b, over = 100steps)", r"\mathrm{anneal} \left( a , b ; \mathrm{over} = 100 \text{ steps} \right)"),
        ("clip(x, -5, 5)", r"{\mathrm{clip}}_{\left[ - 5 , 5 \right]} \left( x \right)"),
        ("abs(x) + sqrt(y)", r"\left\vert x \right\vert + \sqrt{y}"),
    ],
)  # fmt: skip
def test_a_formula_is_set_as_on_paper(formula: str, expected: str) -> None:
    assert both(formula)[1] == expected


def test_nothing_that_the_formula_says_is_lost() -> None:
    markup, _ = both("zscore(r over traj align turn, missing = absent) + gae(r over token, value = v, gamma = 0.9)")
    for word in ("zscore", "traj", "turn", "missing", "absent", "gae", "token", "value", "v", "γ", "0.9"):
        assert word in told(markup)


def test_the_standard_library_is_set_with_its_remarks() -> None:
    for name, item in standard().items():
        assert item.value is not None
        ElementTree.fromstring(mathml(maths_of(item.value)))
        assert remarks()[name], f"{name} has no comment above it"


def test_a_long_sum_has_a_line_for_each_term() -> None:
    long = " + ".join(f"weight_{i} * measure_{i}" for i in range(5)) + " - (a + b)"
    node, _ = parse_expression(Source("formula", long))
    assert node is not None
    set_ = latex(defined("R", node))
    assert set_.count(r"\\") == 5
    assert set_.endswith(r"& - \left( a + b \right) \end{aligned}")
    rows = ElementTree.fromstring(mathml(defined("R", node))).findall(".//mtr")
    assert [len(r) for r in rows] == [2] * 6


def test_where_a_number_comes_from_is_no_part_of_the_formula() -> None:
    assert (
        bare_text('by(tier, gold = reported(1.0, "a table")) * assumed(2, "x") + f') == "by(tier, gold = 1.0) * 2 + f"
    )
    assert bare_text("(a + b…") == "(a + b…"


def test_a_text_that_is_no_expression_is_left_alone() -> None:
    assert maths_of_text("(a + b…") is None


def balanced(formula: str) -> bool:
    """Braces, and \\left with \\right, outside of escapes."""
    depth = 0
    for token in re.findall(r"\\left|\\right|\\[{}]|[{}]", formula):
        depth += {"{": 1, "}": -1, r"\left": 1, r"\right": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0


@given(st.text(max_size=40))
def test_a_hostile_text_stays_a_text(words: str) -> None:
    printable = "".join(c for c in words if c.isprintable())
    maths = maths_of(tree.Text(printable, NOWHERE))
    assert told(mathml(maths)) == f"“{printable}”".replace(" ", "\xa0")
    set_ = latex(maths)
    assert balanced(set_)
    assert not re.search(r"(?<!\\)\$", set_)
    commands = set(re.findall(r"\\([A-Za-z]+)", text(printable)))
    assert commands <= {"textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater",
                        "textasciigrave"}  # fmt: skip


names = st.sampled_from(["a", "b_x", "gamma", "outcome", "env.v"])
formulas = st.recursive(
    names | st.sampled_from(["1", "0.5", "1e-6"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "^"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        inner.map(lambda x: f"-({x})"),
        inner.map(lambda x: f"sum({x} over turn)"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"(if ({t[0]}) > 0 then {t[1]} else {t[2]})"),
    ),
    max_leaves=12,
)


@given(formulas)
def test_every_formula_gives_sound_markup(formula: str) -> None:
    markup, set_ = both(formula)
    root = ElementTree.fromstring(markup)
    children = {"mfrac": 2, "msup": 2, "msub": 2, "munder": 2, "msubsup": 3}
    assert all(len(e) == children[e.tag] for e in root.iter() if e.tag in children)
    assert balanced(set_)
