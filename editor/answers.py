"""What the server answers, in the protocol's types: the pure modules beside this one say it, here it is put into form.

This imports the compiler; `server` does not, so that an editor has its greeting before that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.tree import Span
from rlspec.editor import completion as suggested
from rlspec.editor import edits, highlight, navigate
from rlspec.editor import hover as said
from rlspec.editor.colours import MARKS, SORTS
from rlspec.editor.document import Document, placed
from rlspec.editor.facts import Facts
from rlspec.editor.positions import Lines

if TYPE_CHECKING:
    from rlspec.editor.server import Server

SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
ITEMS = {
    "keyword": types.CompletionItemKind.Keyword,
    "kind": types.CompletionItemKind.Keyword,
    "component": types.CompletionItemKind.Class,
    "field": types.CompletionItemKind.Field,
    "choice": types.CompletionItemKind.EnumMember,
    "function": types.CompletionItemKind.Function,
    "name": types.CompletionItemKind.Variable,
    "level": types.CompletionItemKind.TypeParameter,
    "measure": types.CompletionItemKind.Property,
    "type": types.CompletionItemKind.TypeParameter,
}
ENTRIES = {
    "experiment": types.SymbolKind.Module,
    "component": types.SymbolKind.Class,
    "formula": types.SymbolKind.Variable,
    "function": types.SymbolKind.Function,
    "field": types.SymbolKind.Field,
    "block": types.SymbolKind.Namespace,
}


class Open:
    """An open file: the document of its newest version, and what was derived of it."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.document)

    @property
    def lines(self) -> Lines:
        return self.document.lines

    def range(self, span: Span) -> types.Range:
        return range_of(self.lines, span)

    def offset(self, position: types.Position) -> int:
        return self.lines.offset(position.line, position.character)


def range_of(lines: Lines, span: Span) -> types.Range:
    """A span as the protocol's range."""
    return types.Range(types.Position(*lines.position(span.start)), types.Position(*lines.position(span.stop)))


def diagnostic_of(diagnostic: Diagnostic, opened: Open, uri: str) -> types.Diagnostic:
    """A diagnostic as the protocol has it. Notes become lines of the message."""
    found = placed(diagnostic, len(opened.document.text))
    assert found.span is not None
    parts = [found.message, found.label, *found.notes]
    unused = [types.DiagnosticTag.Unnecessary] if found.code == "RLC0503" and found.severity == "warning" else None
    return types.Diagnostic(
        range=opened.range(found.span),
        message="\n".join(part for part in parts if part),
        severity=SEVERITIES[found.severity],
        code=found.code,
        source="rlspec",
        tags=unused,
    )


def text_edits(opened: Open, found: Iterable[edits.Edit]) -> list[types.TextEdit]:
    """Edits as the protocol has them."""
    return [types.TextEdit(opened.range(e.span), e.text) for e in found]


def entry_of(entry: navigate.Entry, opened: Open) -> types.DocumentSymbol:
    """A line of the outline as the protocol has it."""
    return types.DocumentSymbol(
        name=entry.name,
        kind=ENTRIES[entry.sort],
        range=opened.range(entry.span),
        selection_range=opened.range(entry.selection),
        detail=entry.detail,
        children=[entry_of(inner, opened) for inner in entry.inside],
    )


def encoded(opened: Open, tokens: Iterable[highlight.Painted]) -> list[int]:
    """Semantic tokens as the protocol's numbers: each relative to the one before."""
    data: list[int] = []
    row, column = 0, 0
    for token in tokens:
        line, character = opened.lines.position(token.start)
        length = opened.lines.position(token.stop)[1] - character
        marks = sum(1 << MARKS.index(mark) for mark in token.marks)
        data += [line - row, character - column if line == row else character, length]
        data += [SORTS.index(token.sort), marks]
        row, column = line, character
    return data


def hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    """What stands at a place."""
    opened = server.open(params.text_document.uri)
    found = said.hover(opened.document, opened.offset(params.position), opened.facts)
    if found is None:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.markdown), opened.range(found.span))


def completion(server: Server, params: types.CompletionParams) -> types.CompletionList:
    """What can be typed at a place."""
    opened = server.open(params.text_document.uri)
    offset = opened.offset(params.position)
    start, found = suggested.complete(opened.document, offset)
    where = opened.range(Span(start, offset))
    items = [
        types.CompletionItem(
            label=s.label,
            kind=ITEMS[s.sort],
            detail=s.detail or None,
            documentation=s.doc or None,
            sort_text=f"{at:04}",
            text_edit=types.TextEdit(where, s.insert or s.label),
        )
        for at, s in enumerate(found)
    ]
    return types.CompletionList(is_incomplete=False, items=items)


def definition(server: Server, params: types.DefinitionParams) -> list[types.Location]:
    """Where what stands at a place is declared."""
    uri = params.text_document.uri
    opened = server.open(uri)
    return [_location(place, uri, opened) for place in _places(opened, params.position)]


def references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    """Where else it stands."""
    uri = params.text_document.uri
    opened = server.open(uri)
    declared = params.context.include_declaration
    found = navigate.references(opened.document, opened.offset(params.position), declared)
    return [types.Location(uri, opened.range(span)) for span in found]


def highlights(server: Server, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    """The same, for the editor to mark."""
    opened = server.open(params.text_document.uri)
    found = navigate.references(opened.document, opened.offset(params.position))
    return [types.DocumentHighlight(opened.range(span)) for span in found]


def symbols(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """The outline."""
    opened = server.open(params.text_document.uri)
    return [entry_of(entry, opened) for entry in navigate.outline(opened.document)]


def tokens(server: Server, params: types.SemanticTokensParams) -> types.SemanticTokens:
    """The colours."""
    opened = server.open(params.text_document.uri)
    return types.SemanticTokens(encoded(opened, highlight.painted(opened.document)))


def hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    """The derived ranges that the text does not say."""
    opened = server.open(params.text_document.uri)
    start, stop = opened.offset(params.range.start), opened.offset(params.range.end)
    found = highlight.hints(opened.document, opened.facts, start, stop)
    return [
        types.InlayHint(
            types.Position(*opened.lines.position(h.offset)), h.text, types.InlayHintKind.Type, tooltip=h.tooltip
        )
        for h in found
    ]


def prepare_rename(server: Server, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
    """What a rename would rename."""
    opened = server.open(params.text_document.uri)
    span = edits.renamable(opened.document, opened.offset(params.position))
    if span is None:
        return None
    word = opened.document.text[span.start : span.stop]
    return types.PrepareRenamePlaceholder(opened.range(span), word)


def rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit:
    """Every edit of a rename."""
    uri = params.text_document.uri
    opened = server.open(uri)
    try:
        found = edits.rename(opened.document, opened.offset(params.position), params.new_name)
    except edits.CannotRename as reason:
        raise JsonRpcInvalidParams(str(reason)) from reason
    return types.WorkspaceEdit(changes={uri: text_edits(opened, found)})


def actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The cures of what is wrong in a range."""
    uri = params.text_document.uri
    opened = server.open(uri)
    start, stop = opened.offset(params.range.start), opened.offset(params.range.end)
    return [
        types.CodeAction(
            title=action.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic_of(action.diagnostic, opened, uri)],
            is_preferred=action.safe,
            edit=types.WorkspaceEdit(changes={uri: text_edits(opened, action.edits)}),
        )
        for action in edits.actions(opened.document, start, stop)
    ]


def formatting(server: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    """The edit that formats."""
    opened = server.open(params.text_document.uri)
    return text_edits(opened, edits.formatted(opened.document))


def _places(opened: Open, position: types.Position) -> list[navigate.Place]:
    return navigate.definition(opened.document, opened.offset(position))


def _location(place: navigate.Place, uri: str, opened: Open) -> types.Location:
    if place.path is None:
        return types.Location(uri, opened.range(place.span))
    lines = Lines(Path(place.path).read_text(encoding="utf-8"))
    return types.Location(Path(place.path).resolve().as_uri(), range_of(lines, place.span))
