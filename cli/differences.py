"""A difference as text, as Markdown for reviews, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from rlspec.compiler.diff import Difference, Row
from rlspec.compiler.edits import ROLES

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
    if isinstance(value, list):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(next(iter(value.values())), list):  # a construct, `retry(3)`
            ((name, arguments),) = value.items()
            return f"{name}({', '.join(value_text(a) for a in arguments)})"
        return "{ " + "  ".join(f"{k} = {value_text(v)}" for k, v in value.items()) + " }"
    return "none" if value is None else str(value)


def _headline(row: Row) -> str:
    edit = row.edit
    if edit.op == "rename":
        return f"{row.where} is called {edit.new}"
    if edit.op == "formula":
        return row.where
    if edit.op in ("add", "remove"):
        return f"{row.where}  {value_text(edit.new if edit.op == 'add' else edit.old)}"
    old, new = (
        value_text(v) + (f" ({s.kind})" if s is not None else "")
        for v, s in ((edit.old, row.old_source), (edit.new, row.new_source))
    )
    return f"{row.where}  {old} -> {new}"


def _groups(rows: list[Row]) -> dict[str, list[Row]]:
    return {role: found for role in ROLES if (found := [r for r in rows if r.role == role])}


def _folded(found: Difference, assumptions: bool) -> tuple[list[Row], list[Row]]:
    """(rows to show, rows that rest on an assumption and are only named)."""
    if assumptions:
        return found.rows, []
    return [r for r in found.rows if not r.assumed], [r for r in found.rows if r.assumed]


def _notes(found: Difference, folded: list[Row], provenance: bool) -> list[str]:
    out = []
    if found.confounded is not None:
        aims, means = ", ".join(found.confounded.aims), ", ".join(found.confounded.means)
        out.append(f"confounded: {aims} changed together with {means}; an effect belongs to none of them alone")
    if folded:
        names = ", ".join(r.where for r in folded)
        out.append(f"{len(folded)} more where a side is only assumed: {names} (--assumptions shows them)")
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


def as_text(found: Difference, assumptions: bool, provenance: bool) -> str:
    """Level, edits by role, notes."""
    lines = [f"{found.a.name} -> {found.b.name}", f"{found.level}: {LEVELS[found.level]}"]
    shown, folded = _folded(found, assumptions)
    for role, rows in _groups(shown).items():
        lines += ["", role]
        for row in rows:
            lines.append(f"  {SIGNS[row.edit.op]} {_headline(row)}")
            if row.edit.change is not None:
                lines += [f"      {sign} {text}" for sign, text in row.edit.change.lines()]
    notes = _notes(found, folded, provenance)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def as_markdown(found: Difference, assumptions: bool, provenance: bool) -> str:
    """A table per role, for a review."""
    lines = [f"**{found.level}** — `{found.a.name}` → `{found.b.name}`", ""]
    shown, folded = _folded(found, assumptions)
    if shown:
        lines += ["| role | path | before | after |", "|---|---|---|---|"]
    for role, rows in _groups(shown).items():
        for row in rows:
            if row.edit.change is not None:
                old = "<br>".join(_code(t) for s, t in row.edit.change.lines() if s == "-")
                new = "<br>".join(_code(t) for s, t in row.edit.change.lines() if s != "-")
            else:
                old, new = (_code(value_text(v)) if v is not None else "" for v in (row.edit.old, row.edit.new))
            lines.append(f"| {role} | {_code(row.where)} | {old} | {new} |")
    notes = _notes(found, folded, provenance)
    return "\n".join([*lines, *([""] if shown and notes else []), *(f"- {note}" for note in notes)])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def as_json(found: Difference) -> str:
    """Everything, nothing folded."""
    body = {
        "a": {"name": found.a.name, **_digests(found, 0)},
        "b": {"name": found.b.name, **_digests(found, 1)},
        "level": found.level,
        "equal": found.equal,
        "verified": found.verified,
        "edits": [_row(row) for row in found.rows],
        "confounded": None
        if found.confounded is None
        else {"aims": list(found.confounded.aims), "means": list(found.confounded.means)},
        "provenance": [
            {"path": where, "old": str(old) if old else None, "new": str(new) if new else None}
            for where, old, new in found.provenance
        ],
        "stated": [{"what": what, "old": old, "new": new} for what, old, new in found.stated],
    }
    return json.dumps(body, indent=1, ensure_ascii=False)


def _digests(found: Difference, which: int) -> dict[str, str | None]:
    d = found.digests[which]
    return {"text": d.text, "syntax": d.syntax, "value": d.value, "graph": d.graph}


def _row(row: Row) -> dict[str, Any]:
    edit = row.edit
    out = {"op": edit.op, "role": row.role, "path": row.where, "old": edit.old, "new": edit.new, "assumed": row.assumed}
    if edit.change is not None:
        out["terms"] = [{"sign": sign, "text": text} for sign, text in edit.change.lines()]
    return out
