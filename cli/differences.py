"""A difference as text, as Markdown for reviews, and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rlspec.compiler.diff import Difference, Row
from rlspec.compiler.showing.words import LEVELS, SIGNS, by_role, folded, headline, notes, value_text

if TYPE_CHECKING:
    from rlspec.runtime.rescoring import Effect


def as_text(found: Difference, assumptions: bool, provenance: bool) -> str:
    """Level, edits by role, notes."""
    lines = [f"{found.a.name} -> {found.b.name}", f"{found.level}: {LEVELS[found.level]}"]
    shown, hidden = folded(found, assumptions)
    for role, rows in by_role(shown).items():
        lines += ["", role]
        for row in rows:
            lines.append(f"  {SIGNS[row.edit.op]} {headline(row)}")
            if row.edit.change is not None:
                lines += [f"      {sign} {text}" for sign, text in row.edit.change.lines()]
    said = notes(found, hidden, provenance)
    return "\n".join([*lines, *([""] if said else []), *said])


def as_markdown(found: Difference, assumptions: bool, provenance: bool) -> str:
    """A table per role, for a review."""
    lines = [f"**{found.level}** — `{found.a.name}` → `{found.b.name}`", ""]
    shown, hidden = folded(found, assumptions)
    if shown:
        lines += ["| role | path | before | after |", "|---|---|---|---|"]
    for role, rows in by_role(shown).items():
        for row in rows:
            if row.edit.change is not None:
                old = "<br>".join(_code(t) for s, t in row.edit.change.lines() if s == "-")
                new = "<br>".join(_code(t) for s, t in row.edit.change.lines() if s != "-")
            else:
                old, new = (_code(value_text(v)) if v is not None else "" for v in (row.edit.old, row.edit.new))
            lines.append(f"| {role} | {_code(row.where)} | {old} | {new} |")
    said = notes(found, hidden, provenance)
    return "\n".join([*lines, *([""] if shown and said else []), *(f"- {note}" for note in said)])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def as_json(found: Difference, does: tuple[Effect, dict[str, Effect]] | None = None) -> str:
    """Everything, nothing folded; with what it does to a log, in all and by environment."""
    body: dict[str, Any] = {
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
    if does is not None:
        from rlspec.runtime.rescoring import plain

        body["effect"] = plain(does[0]) | {"by_env": {env: plain(one) for env, one in does[1].items()}}
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
