"""What the compiler derives of expressions: base, level and range, for each environment.

This elaborates again what `check` has elaborated, with reports switched off, because a checked plan keeps the ranges of
rewards and advantages only, and an editor asks about any part of any formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlspec.compiler import formulas
from rlspec.compiler.builder import Value
from rlspec.compiler.elaborate import Failed
from rlspec.compiler.experiment import Formula
from rlspec.compiler.types import NUMERIC
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.editor.deadline import TooSlow, deadline
from rlspec.editor.document import Document

LIMIT = 1.0  # seconds for all formulas


@dataclass(frozen=True, slots=True)
class Fact:
    """A derived type; `env` is where it holds, empty when everywhere the same."""

    env: str
    text: str


class Facts:
    """The derived types of one document's formulas."""

    def __init__(self, document: Document) -> None:
        self.sources: dict[str, formulas.EnvFormulas] = {}
        self.values: dict[tuple[str, int], Value] = {}
        experiment = document.experiment
        if experiment is None:
            return
        try:
            with deadline(LIMIT):
                for env, stage in formulas.sources_of(experiment):
                    report: list[Diagnostic] = []
                    name = stage.label if stage is not None else env.label
                    self.sources[name] = formulas.EnvFormulas(experiment, env, report, stage)
                    self._elaborate(name)
        except (TooSlow, RecursionError):  # an editor goes without these rather than wait
            self.values.clear()

    def _elaborate(self, env: str) -> None:
        source = self.sources[env]
        for formula in source.formulas:
            try:
                self.values[env, formula.item.head.span.start] = source.named(formula)
            except Failed:
                continue

    def formula(self, item: tree.Item) -> list[Fact]:
        """The derived type of a declared formula."""
        found = [(e, v) for (e, start), v in self.values.items() if start == item.head.span.start]
        return _merged([(env, described(value)) for env, value in found])

    def expression(self, node: tree.Expression, item: tree.Item) -> list[Fact]:
        """The derived type of an expression inside of a formula."""
        found = []
        for env, source in self.sources.items():
            if not any(_is(f, item) for f in source.formulas):
                continue
            try:
                with deadline(LIMIT):
                    found.append((env, described(source.elaborator.value(node, source.scope()))))
            except (Failed, TooSlow, RecursionError):
                continue
        return _merged(found)


def described(value: Value) -> str:
    """`real@traj in [0, 1]`; no range where nothing is known of it."""
    base = "{" + ", ".join(value.choices) + "}" if value.base == "enum" else value.base
    text = f"{base}@{value.level.label}"
    bounded = value.base in NUMERIC and str(value.range) != "[-inf, inf]"
    return f"{text} in {value.range}" if bounded else text


def _is(formula: Formula, item: tree.Item) -> bool:
    return formula.item.head.span == item.head.span


def _merged(found: list[tuple[str, str]]) -> list[Fact]:
    texts = {text for _, text in found}
    if len(texts) == 1:
        return [Fact("", texts.pop())]
    return [Fact(env, text) for env, text in found]
