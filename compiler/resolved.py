"""The resolved spec: what a run really was given, as a spec again.

Every field of every component is written out, params have the values that they had (also from the command line), and
the text compiles to the same plan digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rlspec.compiler.catalog import schema
from rlspec.compiler.catalog.base import Ref, Struct
from rlspec.compiler.components import struct_of
from rlspec.compiler.experiment import Declared, Experiment
from rlspec.compiler.flatten import flattened
from rlspec.compiler.plan import ComponentPlan, Plan, PluginPlan
from rlspec.compiler.static import Construct, Leaf, Quantity, Series, Static, Symbol
from rlspec.dsl.annotations import Any
from rlspec.dsl.printer import text_of


def resolved_text(experiment: Experiment, plan: Plan, patches: Sequence[str] = ()) -> str:
    """A spec of everything that was declared. `patches` are those of the command line: they are in force already, and
    told in comments."""
    lines = ["rlspec = 1", *(f"# --patch {' '.join(patch.split())}" for patch in patches), ""]
    lines[1:1] = [f"use {plugin.name} = plugin({_quoted(schema_file(plugin))})" for plugin in plan.plugins]
    flat = flattened(experiment)
    for name, item in flat.definitions.items():
        lines += [definition_text(name, item), ""]
    lines.append(f"experiment {experiment.name} {{")
    lines.append(f"  title = {_quoted(plan.title)}")
    lines += [f"  note = {_quoted(note)}" for note in plan.notes]
    lines.append(f"  seed = {plan.seed}")
    for name, leaf in experiment.params.items():
        item = next(i for i in experiment.item.body or () if i.head.labels and i.head.labels[0].value == name)
        assert item.head.type is not None
        lines.append(f"  param {name} : {text_of(item.head.type)} = {_leaf_text(leaf)}")
    for kind in ("policy", "engine", "resources", "price", *(p.kind for p in plan.parts), "env", "user", "judge"):
        for declared in experiment.of(kind).values():
            lines += _component(declared, plan)
    if experiment.mix:
        shares = "  ".join(f"{env} = {share!r}" for env, share in experiment.mix.items())
        lines.append(f"  mix tasks {{ {shares} }}")
    for formula in experiment.formulas:
        head = formula.item.head
        type_part = f" : {text_of(head.type)}" if head.type else ""
        on = f" on {formula.on}" if formula.on else ""
        lines.append(f"  {formula.kind} {formula.name}{type_part}{on} = {text_of(flat.expression(formula.expression))}")
    where = experiment.credit_where
    told = f", where = {text_of(flat.expression(where))}" if where is not None else ""
    lines.append(f"  credit = agent_tokens({experiment.credit}{told})")
    for declared in experiment.of("stage").values():
        fields = next(s.fields for s in plan.stages if s.label == declared.label)
        lines.append(f"  stage {declared.label} : {declared.name} {{")
        lines += _fields(declared.schema, fields, 2)
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def schema_file(plugin: PluginPlan) -> str:
    """The name of the file beside a resolved spec that holds a plugin's schema."""
    return f"{plugin.name}.plugin.json"


def definition_text(name: str, item: Any) -> str:
    """A `def` as it was written, in one line."""
    parameters = ", ".join(
        f"{p.name.value} : {text_of(p.type)}" + (f" = {text_of(p.default)}" if p.default is not None else "")
        for p in item.head.parameters or ()
    )
    result = f" : {text_of(item.head.type)}" if item.head.type else ""
    return f"def {name}({parameters}){result} = {text_of(item.value)}"


def _component(declared: Declared, plan: Plan) -> list[str]:
    label = declared.label
    if declared.kind == "resources":
        part = ComponentPlan(label=label, kind="resources", name=declared.name, fields=declared.made.model_dump())
    else:
        part = plan.labelled(label)
    lines = [f"  {part.kind} {label} : {part.name} {{"]
    lines += _fields(schema(part.kind, part.name), part.fields, 2)
    lines += [f"    {name} = {_wiring(value)}" for name, value in declared.wiring.items()]
    return [*lines, "  }"]


def _fields(owner: type[Struct], values: dict[str, Any], depth: int) -> list[str]:
    indent = "  " * depth
    lines = []
    for name, value in values.items():
        info = owner.model_fields[name]
        struct = struct_of(info.annotation)
        if struct is not None and isinstance(value, dict):
            lines += [f"{indent}{name} {{", *_fields(struct, value, depth + 1), f"{indent}}}"]
        else:
            if value is not None and (value != "" or _is_text(owner, name)):  # else its default, which names nobody
                lines.append(f"{indent}{name} = {_value(value, _is_text(owner, name))}")
    return lines


def _is_text(owner: type[Struct], name: str) -> bool:
    """A text field is quoted; choices and references are bare."""
    info = owner.model_fields[name]
    return info.annotation in (str, str | None, tuple[str, ...]) and not any(isinstance(m, Ref) for m in info.metadata)


def _value(value: Any, quoted: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value) if quoted else value
    if isinstance(value, dict) and value.keys() == {"secret"}:
        return f"secret({_quoted(value['secret'])})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v, quoted) for v in value) + "]"
    return repr(value)


def _wiring(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_wiring(v) for v in value) + "]"
    if isinstance(value, dict):
        ((name, arguments),) = value.items()
        return f"{name}({', '.join(_wiring(a) for a in arguments)})"
    return value if isinstance(value, str) else repr(value)


def _leaf_text(leaf: Leaf) -> str:
    text = _static(leaf.value)
    if leaf.origin.kind in ("reported", "assumed", "chosen"):
        return f"{leaf.origin.kind}({text}, {_quoted(leaf.origin.note)})"
    return text


def _static(value: Static) -> str:
    match value:
        case Quantity(number, unit, integral):
            shown = str(int(number)) if integral else repr(number)
            return shown if unit in ("", "%", "pp") else f"{shown}{unit}"
        case Symbol(name):
            return name
        case Construct(name, arguments):
            return f"{name}({', '.join(_static(a) for a in arguments)})"
        case Series(items):
            return "[" + ", ".join(_static(i) for i in items) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
