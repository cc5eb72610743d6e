"""`rlc lsp`: the language server, over pygls. Thin: everything that it says is computed by the pure modules beside it.

A change is answered after a short wait, so that a burst of keystrokes is checked once. Answers to requests work on the
newest text and never wait for the check of an older one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Iterable
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.tree import Span
from rlspec.editor import completion, edits, highlight, navigate
from rlspec.editor.document import Document, placed
from rlspec.editor.facts import Facts
from rlspec.editor.hover import hover
from rlspec.editor.positions import Lines

WAIT = 0.004  # seconds after the last change of a burst
SETTLED = 0.25  # seconds without a change, after which the variants are checked too
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
log = logging.getLogger("rlspec.editor")
Place = TypeVar("Place")


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


class Server(LanguageServer):
    """The server and its open files."""

    def __init__(self) -> None:
        super().__init__("rlspec", version("rlspec"))
        self.opened: dict[str, Open] = {}
        self.waiting: dict[str, asyncio.TimerHandle] = {}

    def open(self, uri: str) -> Open:
        """The newest version of a file."""
        text = self.workspace.get_text_document(uri)
        known = self.opened.get(uri)
        if known is None or known.document.version != text.version or known.document.text != text.source:
            known = self.opened[uri] = Open(Document(text.source, text.path or uri, text.version))
        return known

    def later(self, uri: str, wait: float = WAIT) -> None:
        """Check a file when nothing has changed it for a moment."""
        before = self.waiting.pop(uri, None)
        if before is not None:
            before.cancel()
        self.waiting[uri] = asyncio.get_running_loop().call_later(wait, self.publish, uri)

    def publish(self, uri: str) -> None:
        """Check a file now, and send what is wrong with it; its variants follow when nobody types."""
        opened = self.open(uri)
        self._send(uri, opened, opened.document.diagnostics)
        self.waiting[uri] = asyncio.get_running_loop().call_later(SETTLED, self.publish_whole, uri)

    def publish_whole(self, uri: str) -> None:
        """Send what is wrong with a file and all of its variants, as `rlc check` says it, where that is more."""
        self.waiting.pop(uri, None)
        opened = self.open(uri)
        if opened.document.whole != opened.document.diagnostics:
            self._send(uri, opened, opened.document.whole)

    def _send(self, uri: str, opened: Open, diagnostics: list[Diagnostic]) -> None:
        document = opened.document
        found = [diagnostic_of(d, opened, uri) for d in diagnostics]
        if document.trouble:
            log.warning("%s: %s", document.path, document.trouble)
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, document.trouble))
        params = types.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=found)
        self.text_document_publish_diagnostics(params)


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
        marks = sum(1 << highlight.MARKS.index(mark) for mark in token.marks)
        data += [line - row, character - column if line == row else character, length]
        data += [highlight.SORTS.index(token.sort), marks]
        row, column = line, character
    return data


def create() -> Server:
    """The server, with its features; `start_io()` runs it."""
    server = Server()
    # A tree of a text is thousands of small objects that live until the next keystroke: looking through what was
    # imported for garbage at each would take longer than the check.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    _watch(server)
    _read(server)
    _write(server)
    return server


def _watch(server: Server) -> None:
    """Opening, changing and closing files."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.later(params.text_document.uri, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.later(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.later(params.text_document.uri, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        with contextlib.suppress(KeyError):
            server.waiting.pop(uri).cancel()
        server.opened.pop(uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _read(server: Server) -> None:
    """What is asked about a place, and changes nothing."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        opened = server.open(params.text_document.uri)
        found = hover(opened.document, opened.offset(params.position), opened.facts)
        if found is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.markdown), opened.range(found.span))

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "@", ":", "="]))
    def on_completion(params: types.CompletionParams) -> types.CompletionList:
        opened = server.open(params.text_document.uri)
        offset = opened.offset(params.position)
        start, found = completion.complete(opened.document, offset)
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

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: types.DefinitionParams) -> list[types.Location]:
        uri = params.text_document.uri
        opened = server.open(uri)
        return [_location(place, uri, opened) for place in _places(opened, params.position)]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: types.ReferenceParams) -> list[types.Location]:
        uri = params.text_document.uri
        opened = server.open(uri)
        declared = params.context.include_declaration
        found = navigate.references(opened.document, opened.offset(params.position), declared)
        return [types.Location(uri, opened.range(span)) for span in found]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        opened = server.open(params.text_document.uri)
        found = navigate.references(opened.document, opened.offset(params.position))
        return [types.DocumentHighlight(opened.range(span)) for span in found]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        opened = server.open(params.text_document.uri)
        return [entry_of(entry, opened) for entry in navigate.outline(opened.document)]

    legend = types.SemanticTokensLegend(list(highlight.SORTS), list(highlight.MARKS))

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    def on_tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        opened = server.open(params.text_document.uri)
        return types.SemanticTokens(encoded(opened, highlight.painted(opened.document)))

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def on_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        opened = server.open(params.text_document.uri)
        start, stop = opened.offset(params.range.start), opened.offset(params.range.end)
        found = highlight.hints(opened.document, opened.facts, start, stop)
        return [
            types.InlayHint(
                types.Position(*opened.lines.position(h.offset)), h.text, types.InlayHintKind.Type, tooltip=h.tooltip
            )
            for h in found
        ]


def _places(opened: Open, position: types.Position) -> list[navigate.Place]:
    return navigate.definition(opened.document, opened.offset(position))


def _location(place: navigate.Place, uri: str, opened: Open) -> types.Location:
    if place.path is None:
        return types.Location(uri, opened.range(place.span))
    lines = Lines(Path(place.path).read_text(encoding="utf-8"))
    return types.Location(Path(place.path).resolve().as_uri(), range_of(lines, place.span))


def _write(server: Server) -> None:
    """What changes the text."""

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        opened = server.open(params.text_document.uri)
        span = edits.renamable(opened.document, opened.offset(params.position))
        if span is None:
            return None
        word = opened.document.text[span.start : span.stop]
        return types.PrepareRenamePlaceholder(opened.range(span), word)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def on_rename(params: types.RenameParams) -> types.WorkspaceEdit:
        uri = params.text_document.uri
        opened = server.open(uri)
        try:
            found = edits.rename(opened.document, opened.offset(params.position), params.new_name)
        except edits.CannotRename as reason:
            raise JsonRpcInvalidParams(str(reason)) from reason
        return types.WorkspaceEdit(changes={uri: text_edits(opened, found)})

    kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)
    def on_action(params: types.CodeActionParams) -> list[types.CodeAction]:
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

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def on_format(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        opened = server.open(params.text_document.uri)
        return text_edits(opened, edits.formatted(opened.document))
