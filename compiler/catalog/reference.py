"""The component reference, made from the catalog:

python -m rlspec.compiler.catalog.reference > docs/components.md
"""

from __future__ import annotations

from rlspec.compiler.catalog import catalog
from rlspec.compiler.catalog.base import Component, Struct, Unit
from rlspec.compiler.records import Undefined
from rlspec.dsl.annotations import Any, get_args

HEADER = """# Components

Made from the catalog by `python -m rlspec.compiler.catalog.reference`; a test fails when this page is stale. A field
without a default must be given. Units may be left out; a wrong one is an error.
"""


def page() -> str:
    """All kinds and components as Markdown."""
    parts = [HEADER]
    for kind, components in sorted(catalog().items()):
        parts.append(f"## {kind}\n")
        for name, schema in sorted(components.items()):
            parts.append(_component(name, schema))
    return "\n".join(parts)


def _component(name: str, schema: type[Component]) -> str:
    lines = [f"### {schema.KIND} : {name}\n", _first_paragraph(schema), ""]
    if not schema.RUNS:
        lines += ["*Is checked and compiled; `rlc run` refuses it until it has a runtime.*\n"]
    if schema.MEASURES:
        lines += ["Measures: " + ", ".join(f"`{m} : {t}`" for m, t in schema.MEASURES.items()) + "\n"]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|", *_rows(schema, "")]
    return "\n".join([*lines, ""])


def _rows(schema: type[Struct], prefix: str) -> list[str]:
    rows = []
    for name, info in schema.model_fields.items():
        struct = next(
            (a for a in (info.annotation, *get_args(info.annotation)) if isinstance(a, type) and issubclass(a, Struct)),
            None,
        )
        if struct is not None:
            rows += _rows(struct, f"{prefix}{name}.")
            continue
        unit = next((m.name for m in info.metadata if isinstance(m, Unit)), "")
        default = "" if info.default is Undefined else _shown(info.default, unit)
        text = (info.description or "").replace("|", "\\|")
        rows.append(f"| `{prefix}{name}` | {_type(info.annotation)} | {default} | {text} |")
    return rows


def _type(annotation: Any) -> str:
    choices = get_args(annotation)
    if choices and all(isinstance(c, str | int | bool) for c in choices):
        return " ".join(f"`{c}`" for c in choices)
    names = {int: "int", float: "real", str: "text", bool: "bool"}
    return names.get(annotation, "list")


def _shown(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, list | tuple):
        return "`[" + ", ".join(str(v) for v in value) + "]`"
    return f"`{value}{unit}`"


def _first_paragraph(schema: type) -> str:
    return " ".join((schema.__doc__ or "").strip().split("\n\n")[0].split())


if __name__ == "__main__":
    print(page(), end="")
