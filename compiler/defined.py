"""Definitions by themselves: each body is elaborated once over parameters of the declared types, so that a file of
definitions is checked before anybody calls them.

A parameter without a level is a number that only a caller knows. One stands in for it, so what a body says of such
numbers (that they are in a range, that a bound is below another) is left to the calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlspec.compiler.builder import Builder, Value
from rlspec.compiler.elaborate import Elaborator, Failed, Scope
from rlspec.compiler.levels import Level
from rlspec.compiler.library import over_standard
from rlspec.compiler.types import NUMERIC, Type, read_type
from rlspec.compiler.uses import define
from rlspec.dsl import tree
from rlspec.dsl.diagnostics import Diagnostic


def check_definitions(file: tree.File, used: Mapping[str, tree.Item], report: list[Diagnostic]) -> None:
    """Report what is wrong with the `def`s of a file. `used` are definitions of other files, by dotted name."""
    own: dict[str, tree.Item] = {}
    for item in file.items:
        if item.head.path[0].value == "def":
            define(item, own, report)
    edition = next((i for i in file.items if i.head.path[0].value == "rlspec"), None)
    if edition is None or not (isinstance(edition.value, tree.Number) and edition.value.value == 1):
        span = edition.span if edition else tree.Span(0, 0)
        report.append(Diagnostic("RLC0009", "the file must say its edition", span, label="write `rlspec = 1`"))
    known = over_standard({**used, **own})
    for name, item in own.items():
        try:
            _body(name, item, known, report)
        except Failed:
            continue


def _body(name: str, item: tree.Item, known: Mapping[str, tree.Item], report: list[Diagnostic]) -> None:
    own: list[Diagnostic] = []
    elaborator = Elaborator(Builder(), own)
    free = [p for p in item.head.parameters or () if p.type.level is None]
    try:
        _elaborated(elaborator, name, item, known, own)
    finally:
        report += [d for d in own if not free or not d.code.startswith("RLC04")]


def _elaborated(
    elaborator: Elaborator, name: str, item: tree.Item, known: Mapping[str, tree.Item], report: list[Diagnostic]
) -> None:
    names: dict[str, Value] = {}
    for parameter in item.head.parameters or ():
        declared = read_type(parameter.type, report)
        if declared is None:
            raise Failed()
        if declared.level is Level.CONST and declared.base in NUMERIC:
            names[parameter.name.value] = elaborator.constant(_stand_in(declared), declared.base)
            continue
        kind = "code" if declared.base in ("text", "enum") else declared.base
        step = elaborator.builder.input(parameter.name.value, declared.level, kind)
        names[parameter.name.value] = Value(step, declared.base, declared.level, declared.range, declared.choices)
    assert item.value is not None
    elaborator.expanding.append((name, item))
    found = elaborator.value(item.value, Scope(names, known, lambda *_: None))
    result = read_type(item.head.type, report) if item.head.type is not None else None
    if result is not None:
        elaborator.conform(found, result, item.value.span, f"`{name}`")


def _stand_in(declared: Type) -> float:
    """Some number of a type, not one of those with which formulas have a special case."""
    low, high = max(declared.range.low, -1e6), min(declared.range.high, 1e6)
    bounded = low > -1e6 or high < 1e6
    if declared.base == "int":
        return float(round((low + high) / 2)) if bounded else 3.0
    return (low + high) / 2 if bounded else 0.75
