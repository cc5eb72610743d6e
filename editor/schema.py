"""What the catalog says of a field, in the words that hovers and completions show."""

from __future__ import annotations

import types
from dataclasses import dataclass

from rlspec.compiler.catalog.base import Component, Ref, Struct, Unit
from rlspec.compiler.components import struct_of
from rlspec.compiler.records import FieldInfo, Undefined
from rlspec.dsl.annotations import Annotated, Any, Literal, get_args, get_origin

_BASES = {int: "int", float: "real", str: "text", bool: "bool"}


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """One field: its type in words (`value`), unit, default and choices, and the kinds of declaration that it names."""

    name: str
    value: str
    unit: str
    default: str | None
    choices: tuple[str, ...]
    refers: tuple[str, ...]
    struct: type[Struct] | None
    required: bool
    doc: str

    @property
    def signature(self) -> str:
        """`max_turns : int [agent_turns] = 16`"""
        if self.struct is not None:
            return f"{self.name} {{ ... }}"
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.name} : {self.value}{unit}" + (f" = {self.default}" if self.default is not None else "")


def facts_of(name: str, info: FieldInfo) -> FieldFacts:
    """What is known of a field."""
    unit = next((m.name for m in info.metadata if isinstance(m, Unit)), "")
    refers = _refers(info.annotation, info.metadata)
    return FieldFacts(
        name=name,
        value=" or ".join(f"{kind} label" for kind in refers) or _type(info.annotation),
        unit=unit,
        default=None if info.is_required() or info.default in (None, Undefined) else _value(info.default, unit),
        choices=tuple(_choices(info.annotation)),
        refers=refers,
        struct=struct_of(info.annotation),
        required=info.is_required(),
        doc=info.description or "",
    )


def fields_of(schema: type[Struct]) -> dict[str, FieldFacts]:
    """All fields of a block, in the order of the schema."""
    return {name: facts_of(name, info) for name, info in schema.model_fields.items()}


def field_at(schema: type[Struct], path: list[str]) -> FieldFacts | None:
    """The field at a path of names (`["stop", "loss"]`), or None where there is none."""
    found: type[Struct] | None = schema
    facts = None
    for name in path:
        if found is None or name not in found.model_fields:
            return None
        facts = facts_of(name, found.model_fields[name])
        found = facts.struct
    return facts


def first_paragraph(schema: type) -> str:
    """What a component's or struct's documentation begins with."""
    return " ".join((schema.__doc__ or "").strip().split("\n\n")[0].split())


def component_text(schema: type[Component]) -> str:
    """A component as Markdown: what it is, what it measures, its fields."""
    lines = [f"```rlspec\n{schema.KIND} … : {schema.NAME}\n```", first_paragraph(schema)]
    if schema.MEASURES:
        lines.append("Measures: " + ", ".join(f"`{m} : {t}`" for m, t in schema.MEASURES.items()))
    lines.append("Fields: " + (", ".join(f"`{name}`" for name in schema.model_fields) or "none"))
    return "\n\n".join(line for line in lines if line)


def field_text(owner: str, facts: FieldFacts) -> str:
    """A field as Markdown."""
    lines = [f"```rlspec\n{facts.signature}\n```", facts.doc]
    if facts.choices:
        lines.append("One of " + ", ".join(f"`{choice}`" for choice in facts.choices))
    if facts.struct is not None:
        lines.append("Fields: " + ", ".join(f"`{name}`" for name in facts.struct.model_fields))
    told = [f"field of `{owner}`"]
    if facts.unit:
        told.append(f"unit `{facts.unit}`")
    told.append(f"default `{facts.default}`" if facts.default is not None else "required" if facts.required else "")
    lines.append(" · ".join(part for part in told if part))
    return "\n\n".join(line for line in lines if line)


def _parts(annotation: Any) -> list[Any]:
    """An annotation's alternatives, without None, and without its own metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _parts(get_args(annotation)[0])
    if origin is types.UnionType:
        return [part for option in get_args(annotation) for part in _parts(option) if option is not type(None)]
    return [annotation]


def _refers(annotation: Any, metadata: list[Any]) -> tuple[str, ...]:
    """The kinds of declaration that a field's values (or its list's items) name."""
    found = [kind for m in metadata if isinstance(m, Ref) for kind in m.kind.split("|")]
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        found += _refers(inner, more)
    elif get_origin(annotation) in (types.UnionType, tuple, list, set, frozenset):
        for option in get_args(annotation):
            found += _refers(option, [])
    return tuple(dict.fromkeys(found))


def _choices(annotation: Any) -> list[str]:
    found: list[str] = []
    for part in _parts(annotation):
        origin = get_origin(part)
        if origin is Literal:
            found += [_value(choice, "") for choice in get_args(part)]
        elif origin in (tuple, list, set, frozenset):
            for inner in get_args(part):
                if inner is not Ellipsis:
                    found += [c for c in _choices(inner) if c not in found]
        elif part is bool:
            found += ["true", "false"]
    return found


def _type(annotation: Any) -> str:
    shown = []
    for part in _parts(annotation):
        origin = get_origin(part)
        if origin is Literal:
            shown.append("choice")
        elif origin in (tuple, list, set, frozenset):
            inner = [a for a in get_args(part) if a is not Ellipsis]
            shown.append(f"list of {_type(inner[0])}" if inner else "list")
        else:
            shown.append(_BASES.get(part, getattr(part, "__name__", "value")))
    return " or ".join(dict.fromkeys(shown))


def _value(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v, unit) for v in value) + "]"
    return f"{value}{unit}"
