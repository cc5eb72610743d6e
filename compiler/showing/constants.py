"""Where every number of a spec comes from: its reproduction sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlspec.compiler.catalog.base import Struct, Unit
from rlspec.compiler.components import struct_of
from rlspec.compiler.elaborate import dotted
from rlspec.compiler.experiment import Experiment
from rlspec.compiler.functions import PROVENANCE
from rlspec.compiler.showing.words import value_text
from rlspec.compiler.static import Leaf, shown
from rlspec.dsl import tree
from rlspec.dsl.annotations import Any
from rlspec.dsl.printer import text_of

SOURCES = ("reported", "assumed", "chosen", "set", "unsourced")
COMPARED = ("==", "!=", "in", "not in")


@dataclass(frozen=True, slots=True)
class Constant:
    """One number of the spec, by its path; `source` is one of `SOURCES`."""

    path: str
    value: str
    source: str
    note: str


def constants_of(experiment: Experiment) -> Iterator[Constant]:
    """Every number of the spec, and every other value that says where it comes from."""
    items = [i for i in experiment.item.body or () if i.head.path[0].value == "param" and i.head.labels]
    written = {i.head.labels[0].value: i.value for i in items}
    for name, leaf in experiment.params.items():
        yield Constant(f"param.{name}", _plain(written.get(name), leaf), source_of(leaf.origin.kind), leaf.origin.note)
    for kind, group in experiment.components.items():
        for label, declared in group.items():
            for path, value, _, unit in leaves(declared.schema, declared.made):
                origin = declared.origins.get(path)
                if origin is not None and (is_number(value) or origin.kind != "written"):
                    text = with_unit(value, unit)
                    yield Constant(f"{kind}.{label}.{path}", text, source_of(origin.kind), origin.note)
    for item in experiment.item.body or ():
        for entry in (item.body or ()) if item.head.path[0].value == "mix" else ():
            for text, source, note in _numbers(entry.value):
                yield Constant(f"mix.{entry.head.path[0].value}", text, source, note)
    for formula in experiment.formulas:
        if formula.kind != "signal":
            place = f"{formula.kind}.{formula.name}" + (f" on {formula.on}" if formula.on else "")
            for text, source, note in _numbers(formula.expression):
                yield Constant(place, text, source, note)


def _plain(node: tree.Expression | None, leaf: Leaf) -> str:
    """A param's value as it is written, without its provenance; what the command line says instead."""
    if node is None or leaf.origin.kind == "set":
        return shown(leaf.value)
    if isinstance(node, tree.Call) and dotted(node.function) in PROVENANCE:
        return text_of(node.arguments[0].value)
    return text_of(node)


def _numbers(node: Any, source: str = "unsourced", note: str = "") -> Iterator[tuple[str, str, str]]:
    """The numbers of a formula. Left out are the codes that a comparison with a signal names (`verdict == -1`), and 0
    and 1, which are no choice of anybody's."""
    match node:
        case tree.Binary(op=op, left=left, right=right) if op in COMPARED:
            for side in (left, right):
                if not isinstance(side, tree.Number | tree.SetOf | tree.Unary):
                    yield from _numbers(side, source, note)
        case tree.Call() if dotted(node.function) in PROVENANCE and len(node.arguments) == 2:
            told = node.arguments[1].value
            word = dotted(node.function) or ""
            yield from _numbers(node.arguments[0].value, word, told.value if isinstance(told, tree.Text) else "")
        case tree.Unary(op="-", operand=tree.Number()):
            yield text_of(node), source, note
        case tree.Number(value=value) if source != "unsourced" or value not in (0, 1):
            yield text_of(node), source, note
        case tuple():
            for part in node:
                yield from _numbers(part, source, note)
        case _ if hasattr(node, "__dataclass_fields__") and not isinstance(node, tree.Span | tree.Number):
            for name in node.__dataclass_fields__:
                yield from _numbers(getattr(node, name), source, note)


def source_of(kind: str) -> str:
    """An origin's kind as a reader understands it."""
    return "unsourced" if kind == "written" else kind


def leaves(schema: type[Struct], made: Struct, prefix: str = "") -> Iterator[tuple[str, Any, str, str]]:
    """(path, value, one line about it, unit) of every field."""
    for name, info in schema.model_fields.items():
        value, path = getattr(made, name), f"{prefix}{name}"
        inner = struct_of(info.annotation)
        if inner is not None and isinstance(value, Struct):
            yield from leaves(type(value), value, f"{path}.")
        else:
            unit = next((m.name for m in info.metadata if isinstance(m, Unit)), "")
            yield path, value, info.description or "", unit


def is_number(value: Any) -> bool:
    """Whether a value is a number; a truth is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_unit(value: Any, unit: str) -> str:
    """A field's value in a line, numbers with their unit in words."""
    if isinstance(value, Struct):
        return value_text(value.model_dump(mode="json"))
    text = value_text(sorted(value, key=str) if isinstance(value, frozenset | set) else value)
    return f"{text} {unit.replace('_', ' ')}" if unit and is_number(value) else text
