"""The server as an editor meets it: a real process, spoken to over its standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

import pytest

URI = "file:///spec/sample.rlspec"
PATIENCE = 60.0  # seconds; an answer takes milliseconds, a busy machine may not


class Client:
    """Speaks the protocol's framing; what comes back is sorted into answers and notifications."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "rlspec.cli.main", "lsp"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.answers: dict[int, Any] = {}
        self.notes: Queue[dict[str, Any]] = Queue()
        self.arrived = threading.Condition()
        self.count = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            message = json.loads(stream.read(length))
            if "id" in message and "method" not in message:
                with self.arrived:
                    self.answers[message["id"]] = message
                    self.arrived.notify_all()
            else:
                self.notes.put(message)

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def answer(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer to a request: `result` or `error`."""
        self.count += 1
        number = self.count
        self.send({"id": number, "method": method, "params": params})
        with self.arrived:
            assert self.arrived.wait_for(lambda: number in self.answers, PATIENCE), f"no answer to {method}"
            found: dict[str, Any] = self.answers.pop(number)
            return found

    def ask(self, method: str, **params: Any) -> Any:
        found = self.answer(method, **params)
        assert "error" not in found, found["error"]
        return found["result"]

    def diagnostics(self, version: int) -> list[dict[str, Any]]:
        """Those of a version; what is said of others is passed over."""
        while True:
            try:
                note = self.notes.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"no diagnostics of version {version}") from None
            assert "Error in server" not in str(note), note
            if note["method"] == "textDocument/publishDiagnostics" and note["params"].get("version") == version:
                found: list[dict[str, Any]] = note["params"]["diagnostics"]
                return found

    def close(self) -> int:
        try:
            self.ask("shutdown")
            self.tell("exit")
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    found = Client()
    found.ask("initialize", processId=None, rootUri=None, capabilities={})
    found.tell("initialized")
    yield found
    found.process.kill()
    found.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def opened(client: Client, sample: str) -> Client:
    document = {"uri": URI, "languageId": "rlspec", "version": 1, "text": sample}
    client.tell("textDocument/didOpen", textDocument=document)
    assert client.diagnostics(1) == []
    return client


def at(text: str, place: str, within: int = 0) -> dict[str, int]:
    before = text[: text.index(place) + within]
    return {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}


DOCUMENT = {"uri": URI}


def test_it_says_what_it_can_do(client: Client) -> None:
    other = Client()
    can = other.ask("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
    wanted = ("hoverProvider", "completionProvider", "definitionProvider", "referencesProvider", "renameProvider",
              "documentSymbolProvider", "documentFormattingProvider", "codeActionProvider", "semanticTokensProvider",
              "inlayHintProvider")  # fmt: skip
    assert all(can.get(name) for name in wanted)
    assert other.close() == 0


def test_diagnostics_follow_the_keystrokes(opened: Client, sample: str) -> None:
    place = at(sample, "verdict == -1")
    for version, text in ((2, "x"), (3, "y")):
        change = {"range": {"start": place, "end": place}, "text": text}
        opened.tell("textDocument/didChange", textDocument={"uri": URI, "version": version}, contentChanges=[change])
    (found,) = opened.diagnostics(3)
    assert found["code"] == "RLC0101"
    assert found["range"]["start"] == place
    assert found["range"]["end"]["character"] == place["character"] + len("yxverdict")
    opened.tell("textDocument/didChange", textDocument={"uri": URI, "version": 4}, contentChanges=[{"text": sample}])
    assert opened.diagnostics(4) == []


def test_hover(opened: Client, sample: str) -> None:
    found = opened.ask("textDocument/hover", textDocument=DOCUMENT, position=at(sample, "R : real", 0))
    assert "real@traj in [-0.1, 1.1]" in found["contents"]["value"]


def test_completion_replaces_the_word(opened: Client, sample: str) -> None:
    found = opened.ask("textDocument/completion", textDocument=DOCUMENT, position=at(sample, "std.grpo", 6))
    (item,) = (i for i in found["items"] if i["label"] == "grpo")
    assert item["textEdit"]["range"]["start"] == at(sample, "std.grpo", 4)


def test_definition_in_the_library(opened: Client, sample: str) -> None:
    (found,) = opened.ask("textDocument/definition", textDocument=DOCUMENT, position=at(sample, "std.grpo", 6))
    assert found["uri"].endswith("/std/advantage.rlspec")
    assert found["range"]["start"]["line"] > 0


def test_references_rename_and_its_refusal(opened: Client, sample: str) -> None:
    place = at(sample, "signal verdict", 8)
    found = opened.ask("textDocument/references", textDocument=DOCUMENT, position=place,
                       context={"includeDeclaration": True})  # fmt: skip
    assert len(found) == 4
    edit = opened.ask("textDocument/rename", textDocument=DOCUMENT, position=place, newName="mark")
    assert len(edit["changes"][URI]) == 4
    refused = opened.answer("textDocument/rename", textDocument=DOCUMENT, position=place, newName="outcome")
    assert "something else" in refused["error"]["message"]


def test_outline_tokens_and_hints(opened: Client, sample: str) -> None:
    found = opened.ask("textDocument/documentSymbol", textDocument=DOCUMENT)
    assert [s["name"] for s in found] == ["rlspec", "sample"]
    data = opened.ask("textDocument/semanticTokens/full", textDocument=DOCUMENT)["data"]
    assert len(data) % 5 == 0
    assert sum(data[0::5]) == at(sample, "trials = 4")["line"]  # of the last word
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
    assert opened.ask("textDocument/inlayHint", textDocument=DOCUMENT, range=whole) == []


def test_formatting_and_a_quick_fix(opened: Client, sample: str) -> None:
    wrong = sample.replace("width = 64", "widht  =  64")
    opened.tell("textDocument/didChange", textDocument={"uri": URI, "version": 5}, contentChanges=[{"text": wrong}])
    (found,) = opened.diagnostics(5)
    actions = opened.ask("textDocument/codeAction", textDocument=DOCUMENT, range=found["range"],
                         context={"diagnostics": [found]})  # fmt: skip
    assert actions[0]["edit"]["changes"][URI][0]["newText"] == "width"
    edits = opened.ask("textDocument/formatting", textDocument=DOCUMENT, options={"tabSize": 2, "insertSpaces": True})
    assert len(edits) == 1
    opened.tell("textDocument/didChange", textDocument={"uri": URI, "version": 6}, contentChanges=[{"text": sample}])
    assert opened.diagnostics(6) == []


def test_a_closed_file_has_no_diagnostics_left(client: Client) -> None:
    uri = "file:///spec/other.rlspec"
    document = {"uri": uri, "languageId": "rlspec", "version": 7, "text": "experiment {"}
    client.tell("textDocument/didOpen", textDocument=document)
    assert client.diagnostics(7)
    client.tell("textDocument/didClose", textDocument={"uri": uri})
    note = client.notes.get(timeout=PATIENCE)
    assert (note["params"]["uri"], note["params"]["diagnostics"]) == (uri, [])
