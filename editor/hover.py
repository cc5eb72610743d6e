"""Hover: what stands at a place, in Markdown. Derived types and ranges, catalog entries, provenance."""

from __future__ import annotations

from dataclasses import dataclass

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Struct
from rlspec.compiler.elaborate import dotted
from rlspec.compiler.experiment import FORMULAS, WIRING
from rlspec.compiler.functions import FUNCTIONS, PROVENANCE
from rlspec.compiler.library import standard
from rlspec.dsl import tree
from rlspec.dsl.printer import text_of
from rlspec.dsl.tree import Span
from rlspec.editor.document import Document
from rlspec.editor.facts import Fact, Facts
from rlspec.editor.schema import component_text, field_at, field_text
from rlspec.editor.symbols import Declaration, children, smallest
from rlspec.editor.words import KIND_WORDS, LEVEL_WORDS, function_text


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown about a span."""

    span: Span
    markdown: str


def hover(document: Document, offset: int, facts: Facts) -> Hover | None:
    """What there is to say at an offset, or None."""
    items = document.path_to(offset)
    if not items:
        return None
    item = items[-1]
    if item.value is not None and item.value.span.start <= offset <= item.value.span.stop:
        return _in_value(document, items, item.value, offset, facts)
    return _in_head(document, items, offset, facts)


def _in_head(document: Document, items: list[tree.Item], offset: int, facts: Facts) -> Hover | None:
    item, head = items[-1], items[-1].head
    schema = schema_of(items[:-1])
    for at, name in enumerate(head.path):
        if not _on(name.span, offset):
            continue
        if schema is not None:
            return _field(schema, items, [n.value for n in head.path[: at + 1]], name.span)
        if at == 0 and name.value in KIND_WORDS:
            return Hover(name.span, f"**{name.value}**: {KIND_WORDS[name.value]}")
        break
    for label in head.labels:
        if _on(label.span, offset):
            return Hover(label.span, _declared(item, facts))
    written = head.type
    if written is not None and _on(written.span, offset):
        if written.level is not None and _on(written.level.span, offset) and written.level.value in LEVEL_WORDS:
            return Hover(written.level.span, f"**{written.level.value}**: {LEVEL_WORDS[written.level.value]}")
        known = catalog().get(head.path[0].value, {}).get(dotted(written.base) or "")
        return Hover(written.span, component_text(known)) if known is not None else None
    return _name(document, offset, facts)


def _field(schema: type[Struct], items: list[tree.Item], path: list[str], span: Span) -> Hover | None:
    owner = str(getattr(schema, "NAME", schema.__name__.lower()))
    found = field_at(schema, path)
    if found is None:
        wired = WIRING.get(items[-2].head.path[0].value, {}).get(path[0]) if len(items) > 1 else None
        if wired is None:
            return None
        told = f"the {wired}s that it belongs to" if wired else "what happens when it fails"
        return Hover(span, f"**{path[0]}**: {told}")
    text = field_text(owner, found)
    value = items[-1].value
    source = provenance(value) if value is not None else ""
    return Hover(span, f"{text}\n\n{source}" if source else text)


def _in_value(
    document: Document, items: list[tree.Item], value: tree.Expression, offset: int, facts: Facts
) -> Hover | None:
    item = items[-1]
    node = smallest(value, offset)
    if node is None:
        return None
    if isinstance(node, tree.Name) and node.value in PROVENANCE:
        call = next((c for c in _calls(value) if c.function is node), None)
        said = provenance(call) if call is not None else ""
        return Hover(node.span, said or function_text(node.value))
    member = next((m for m in _members(value) if m.target is node), None)
    whole = member if member is not None and dotted(member) in standard() else node
    name = dotted(whole)
    if name is not None and name in standard():
        definition = standard()[name]
        return Hover(whole.span, _definition(name, definition))
    named = _name(document, offset, facts)
    if named is not None:
        return named
    if isinstance(node, tree.Name) and node.value in FUNCTIONS:
        said = f"**{node.value}**: {function_text(node.value)}"
        call = next((c for c in _calls(value) if c.function is node), None)
        found = facts.expression(call, item) if call is not None else []
        return Hover(node.span, "\n\n".join([said, *_lines(found)]))
    schema = schema_of(items[:-1])
    if schema is not None:
        return _field(schema, items, [n.value for n in item.head.path], item.head.path[-1].span)
    axis = _axis(value, offset)
    if axis is not None:
        return Hover(axis.span, f"**{axis.value}**: {LEVEL_WORDS.get(axis.value, 'an axis')}")
    found = facts.expression(node, item)
    return Hover(node.span, "\n\n".join([f"```rlspec\n{text_of(node)}\n```", *_lines(found)])) if found else None


def _name(document: Document, offset: int, facts: Facts) -> Hover | None:
    found = document.symbols.at(offset)
    if found is None or not found[1]:
        return None
    span, declarations = found
    return Hover(span, "\n\n---\n\n".join(_meaning(d, facts) for d in declarations))


def _meaning(declaration: Declaration, facts: Facts) -> str:
    if declaration.parameter is not None:
        owner = declaration.item.head.labels[0].value
        return f"```rlspec\n{text_of(declaration.parameter)}\n```\n\nparameter of `{owner}`"
    return _declared(declaration.item, facts)


def _declared(item: tree.Item, facts: Facts) -> str:
    head, kind = item.head, item.head.path[0].value
    if kind == "def" and item.value is not None:
        return _definition(str(head.labels[0].value) if head.labels else "", item)
    text = text_of(head) + (f" = {text_of(item.value)}" if item.value is not None else "")
    lines = [f"```rlspec\n{text}\n```"]
    if kind in FORMULAS:
        lines += _lines(facts.formula(item))
    known = catalog().get(kind, {}).get(dotted(head.type.base) or "") if head.type is not None else None
    if known is not None:
        lines.append(component_text(known))
    if item.value is not None and (source := provenance(item.value)):
        lines.append(source)
    return "\n\n".join(lines)


def _definition(name: str, item: tree.Item) -> str:
    head = text_of(item.head).removeprefix("def ")
    head = name + head.removeprefix(name.rpartition(".")[2])
    assert item.value is not None
    return f"```rlspec\ndef {head} =\n  {text_of(item.value)}\n```"


def _lines(found: list[Fact]) -> list[str]:
    return [f"derived: `{f.text}`" + (f" on `{f.env}`" if f.env else "") for f in found]


def provenance(node: tree.Expression) -> str:
    """What `reported`, `assumed` and `chosen` say in an expression, as a line each."""
    said = []
    for call in _calls(node):
        word = dotted(call.function)
        if word in PROVENANCE and len(call.arguments) == 2 and isinstance(call.arguments[1].value, tree.Text):
            said.append(f"*{word}* `{text_of(call.arguments[0].value)}`: {call.arguments[1].value.value}")
    return "  \n".join(said)


def schema_of(items: list[tree.Item]) -> type[Struct] | None:
    """The schema that the innermost of these items' blocks fills: a component's, or a struct's inside of it."""
    for at, item in enumerate(items):
        head = item.head
        known = catalog().get(head.path[0].value, {})
        if at and head.type is not None and dotted(head.type.base) in known:
            schema: type[Struct] | None = known[dotted(head.type.base) or ""]
            for inner in items[at + 1 :]:
                facts = field_at(schema, [n.value for n in inner.head.path]) if schema is not None else None
                schema = facts.struct if facts is not None else None
            return schema
    return None


def _on(span: Span, offset: int) -> bool:
    return span.start <= offset <= span.stop


def _walk(node: tree.Expression) -> list[tree.Expression]:
    return [node, *(found for inner in children(node) for found in _walk(inner))]


def _calls(node: tree.Expression) -> list[tree.Call]:
    return [n for n in _walk(node) if isinstance(n, tree.Call)]


def _members(node: tree.Expression) -> list[tree.Member]:
    return [n for n in _walk(node) if isinstance(n, tree.Member)]


def _axis(node: tree.Expression, offset: int) -> tree.Name | None:
    """The axis of an `over` or `align` at a place."""
    for call in _calls(node):
        for argument in call.arguments:
            for axis in (*argument.over, *([argument.align] if argument.align else [])):
                if _on(axis.span, offset):
                    return axis
    return None
