"""`rlc lsp`: the language server, over pygls. Thin: it keeps the open files and says when to check; what it answers is
made by `answers`, which brings the compiler with it and is imported when the editor has been greeted.

A change is answered after a short wait, so that a burst of keystrokes is checked once. Answers to requests work on the
newest text and never wait for the check of an older one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from rlspec.editor.colours import MARKS, SORTS

if TYPE_CHECKING:
    from rlspec.dsl.diagnostics import Diagnostic
    from rlspec.editor.answers import Open

WAIT = 0.004  # seconds after the last change of a burst
SETTLED = 0.25  # seconds without a change, after which the variants are checked too
# Each request, the function of `answers` that answers it, and what the editor is told of it.
ANSWERS: dict[str, tuple[str, Any]] = {
    types.TEXT_DOCUMENT_HOVER: ("hover", None),
    types.TEXT_DOCUMENT_COMPLETION: ("completion", types.CompletionOptions(trigger_characters=[".", "@", ":", "="])),
    types.TEXT_DOCUMENT_DEFINITION: ("definition", None),
    types.TEXT_DOCUMENT_REFERENCES: ("references", None),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: ("highlights", None),
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: ("symbols", None),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: ("tokens", types.SemanticTokensLegend(list(SORTS), list(MARKS))),
    types.TEXT_DOCUMENT_INLAY_HINT: ("hints", None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: ("prepare_rename", None),
    types.TEXT_DOCUMENT_RENAME: ("rename", types.RenameOptions(prepare_provider=True)),
    types.TEXT_DOCUMENT_CODE_ACTION: (
        "actions",
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    ),
    types.TEXT_DOCUMENT_FORMATTING: ("formatting", None),
}
log = logging.getLogger("rlspec.editor")


class Server(LanguageServer):
    """The server and its open files."""

    def __init__(self) -> None:
        super().__init__("rlspec", version("rlspec"))
        self.opened: dict[str, Open] = {}
        self.waiting: dict[str, asyncio.TimerHandle] = {}

    def open(self, uri: str) -> Open:
        """The newest version of a file."""
        from rlspec.editor.answers import Document, Open

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
        gc.collect()
        opened = self.open(uri)
        if opened.document.whole != opened.document.diagnostics:
            self._send(uri, opened, opened.document.whole)

    def _send(self, uri: str, opened: Open, diagnostics: list[Diagnostic]) -> None:
        from rlspec.editor.answers import diagnostic_of

        document = opened.document
        found = [diagnostic_of(d, opened, uri) for d in diagnostics]
        if document.trouble:
            log.warning("%s: %s", document.path, document.trouble)
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, document.trouble))
        params = types.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=found)
        self.text_document_publish_diagnostics(params)


def create() -> Server:
    """The server, with its features; `start_io()` runs it."""
    server = Server()
    _watch(server)
    for method, (name, options) in ANSWERS.items():
        _register(server, method, name, options)
    return server


def _register(server: Server, method: str, name: str, options: Any) -> None:
    """Answer a request by the function of that name."""

    def answer(params: Any) -> Any:
        from rlspec.editor import answers

        return getattr(answers, name)(server, params)

    server.feature(method, options)(answer)


def _watch(server: Server) -> None:
    """Greeting; opening, changing and closing files."""

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        from rlspec.dsl import parser
        from rlspec.editor import answers

        log.debug("ready: %s", answers.__name__)
        parser.remember()
        # A tree of a text is thousands of small objects that live until the next keystroke: looking through what was
        # imported for garbage at each would take longer than the check, and so would looking through a few thousand
        # trees. It is looked for when nobody types.
        gc.collect()
        gc.freeze()
        gc.set_threshold(2_000_000, 20, 50)

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
