"""Diagnostics for other machines: SARIF 2.1.0 (OASIS) and GitHub's workflow commands.

Both take pairs of a diagnostic and the source that it is about, where its own `source` does not say.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from rlspec.dsl.annotations import Any
from rlspec.dsl.codes import CODES
from rlspec.dsl.diagnostics import Diagnostic, Source

Found = tuple[Diagnostic, Source | None]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


# --------------------------------------------------------------------------------------------------------- SARIF


def sarif(found: Iterable[Found], version: str) -> dict[str, Any]:
    """One SARIF log with one run. Columns count Unicode code points; every rule that a result names is described."""
    pairs = list(found)
    codes = sorted({d.code for d, _ in pairs})
    driver = {
        "name": "rlc",
        "semanticVersion": version,
        "rules": [{"id": code, "shortDescription": {"text": CODES[code]},
                   "help": {"text": f"rlc explain {code}"}} for code in codes],
    }  # fmt: skip
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, diagnostic.source or source, codes) for diagnostic, source in pairs],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(diagnostic: Diagnostic, source: Source | None, codes: list[str]) -> dict[str, Any]:
    parts = [diagnostic.message, *([diagnostic.label] if diagnostic.label else []), *diagnostic.notes]
    out: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity,
        "message": {"text": "\n".join(parts)},
    }
    if source is None:
        return out
    artifact = {"uri": quote(source.path.replace("\\", "/"))}
    place: dict[str, Any] = {"artifactLocation": artifact}
    if diagnostic.span is not None:
        place["region"] = _region(diagnostic, source)
    out["locations"] = [{"physicalLocation": place}]
    if diagnostic.fix is not None:
        span = diagnostic.fix.span
        deleted = {"charOffset": span.start, "charLength": span.stop - span.start}
        edit = {"deletedRegion": deleted, "insertedContent": {"text": diagnostic.fix.text}}
        change = {"artifactLocation": artifact, "replacements": [edit]}
        out["fixes"] = [{"description": {"text": diagnostic.label or "replace it"}, "artifactChanges": [change]}]
    return out


def _region(diagnostic: Diagnostic, source: Source) -> dict[str, int]:
    assert diagnostic.span is not None
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(max(diagnostic.span.stop, diagnostic.span.start))
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


# -------------------------------------------------------------------------------------------------------- GitHub


def github(diagnostic: Diagnostic, source: Source | None) -> str:
    """One workflow command, which GitHub shows beside the line."""
    source = diagnostic.source or source
    properties = {"title": diagnostic.code}
    if source is not None:
        properties = {"file": source.path, **properties}
        if diagnostic.span is not None:
            region = _region(diagnostic, source)
            properties |= {"line": str(region["startLine"]), "endLine": str(region["endLine"])}
            if region["startLine"] == region["endLine"]:  # GitHub takes columns only within a line
                properties |= {"col": str(region["startColumn"]), "endColumn": str(region["endColumn"])}
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    message = "\n".join(p for p in (diagnostic.message, diagnostic.label, *diagnostic.notes) if p)
    return f"::{COMMANDS[diagnostic.severity]} {given}::{_escaped(message, '')}"


def _escaped(text: str, more: str) -> str:
    """Percent signs and line ends, and the characters that separate properties, as GitHub wants them."""
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in text)
