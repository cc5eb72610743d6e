"""Values, edits and what else a page says of them, in words: what the terminal, Markdown and HTML have in common."""

from __future__ import annotations

from rlspec.compiler.diff import Difference, Row
from rlspec.compiler.edits import ROLES
from rlspec.dsl.annotations import Any

LEVELS = {
    "identical": "the same experiment, to the letter",
    "same meaning": "the same meaning",
    "formatting only": "only comments or layout differ",
    "refactoring only": "written differently, with the same meaning",
    "same graph, other values": "the same stages, connections and formulas, with other values",
    "other graph": "other parts, connections or formulas",
}
SIGNS = {"set": "~", "add": "+", "remove": "-", "rename": "=", "formula": "~"}


def value_text(value: Any) -> str:
    """A value in a line: texts in quotes only where they are more than a word."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(next(iter(value.values())), list):  # a construct, `retry(3)`
            ((name, arguments),) = value.items()
            return f"{name}({', '.join(value_text(a) for a in arguments)})"
        return "{ " + "  ".join(f"{k} = {value_text(v)}" for k, v in value.items()) + " }"
    return "none" if value is None else str(value)


def component_lines(value: Any) -> list[str]:
    """A component as a few lines: its name, then its fields; another value as one line."""
    if not isinstance(value, dict) or not value:
        return [value_text(value)]
    (_, name), *rest = value.items()
    return [value_text(name), *(f"  {k} = {value_text(v)}" for k, v in rest)]


def headline(row: Row) -> str:
    """An edit in a line; a formula's terms are told below it."""
    edit = row.edit
    if edit.op == "rename":
        return f"{row.where} is called {edit.new}"
    if edit.op == "formula":
        return row.where
    if edit.op in ("add", "remove"):
        return f"{row.where}  {value_text(edit.new if edit.op == 'add' else edit.old)}"
    return f"{row.where}  {before(row)} -> {after(row)}"


def before(row: Row) -> str:
    """The old value, with its provenance."""
    return value_text(row.edit.old) + (f" ({row.old_source.kind})" if row.old_source is not None else "")


def after(row: Row) -> str:
    """The new value, with its provenance."""
    return value_text(row.edit.new) + (f" ({row.new_source.kind})" if row.new_source is not None else "")


def by_role(rows: list[Row]) -> dict[str, list[Row]]:
    """Edits by role, in the order in which people ask for them."""
    return {role: found for role in ROLES if (found := [r for r in rows if r.role == role])}


def folded(found: Difference, assumptions: bool) -> tuple[list[Row], list[Row]]:
    """(rows to show, rows that rest on an assumption and are only named)."""
    if assumptions:
        return found.rows, []
    return [r for r in found.rows if not r.assumed], [r for r in found.rows if r.assumed]


def notes(found: Difference, hidden: list[Row], provenance: bool) -> list[str]:
    """What is said below the edits."""
    out = []
    if found.confounded is not None:
        aims, means = ", ".join(found.confounded.aims), ", ".join(found.confounded.means)
        out.append(f"confounded: {aims} changed together with {means}; an effect belongs to none of them alone")
    if hidden:
        names = ", ".join(r.where for r in hidden)
        out.append(f"{len(hidden)} more where a side is only assumed: {names} (--assumptions shows them)")
    if found.provenance and provenance:
        out += [f"provenance of {where}: {old or 'none'} -> {new or 'none'}" for where, old, new in found.provenance]
    elif found.provenance:
        out.append(f"{len(found.provenance)} of equal value and other provenance (--provenance shows them)")
    if found.stated:
        out.append("stated otherwise, without effect: " + ", ".join(what for what, _, _ in found.stated))
    if not found.verified:
        out.append("NOT VERIFIED: the edits above, applied to the first, do not give the second; compare the texts")
    elif found.edits:
        out.append("verified: the edits, applied to the first, give the second")
    return out
