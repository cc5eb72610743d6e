"""How long an editor waits: a real `rlc lsp` process, a spec of 200 lines, one keystroke at a time.

    python bench/language/lsp.py [--keystrokes 200]

Each keystroke changes the text in the middle of typing a formula (so most versions do not parse) and is timed from the
write of the change to the diagnostics of that version; the wait of the server for further keystrokes is part of it.
Completion is asked for after each. Prints medians and 95th percentiles, on the clock and, where the system tells it
(Linux), of the server's main thread on a processor: on a machine that does other work, the latter is what the server
itself takes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Queue
from typing import Any

SAMPLE = Path(__file__).parents[2] / "tests" / "sample.rlspec"
URI = "file:///bench.rlspec"
TYPED = "\n  let bonus = 0.25 * mean(verdict over turn where verdict in {0, 1}) + clip(outcome - 0.5, 0, 1)"


def long_spec(lines: int) -> str:
    """The sample spec, grown to a number of lines by stages, lets and comments in its own style."""
    text = SAMPLE.read_text(encoding="utf-8")
    head, body = text.rstrip().removesuffix("}"), []
    number = 0
    while (head + "\n".join(body)).count("\n") < lines - 2:
        number += 1
        body += [
            f"\n  # Part {number}: what the judge says, seen another way.",
            f"  let part{number} : real@traj =",
            f"      {number} * outcome",
            "      - 0.1 * indicator(any(verdict == -1 over turn))",
            f"\n  stage exam{number} : evaluate {{",
            "    after = [train]  split = test  phrasing = held_out  tasks = 128tasks  trials = 4trajs",
            "  }",
        ]
    return head + "\n".join(body) + "\n}\n"


class Client:
    """The least of a client: framing, and a queue of what comes back."""

    def __init__(self, cache: str) -> None:
        # Byte code in a folder of its own, so that a start is measured as users meet it, whatever this shell sets.
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlspec.cli.main", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, "PYTHONPYCACHEPREFIX": cache},
        )
        self.came: Queue[tuple[float, dict[str, Any]]] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            length = 0
            while (line := self.process.stdout.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            data = self.process.stdout.read(length)
            self.came.put((time.perf_counter(), json.loads(data)))

    def send(self, **message: Any) -> float:
        """Write a message; when."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        start = time.perf_counter()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return start

    def worked(self) -> float:
        """Seconds that the server's main thread has spent on a processor; NaN where the system does not tell."""
        path = Path(f"/proc/{self.process.pid}/schedstat")
        return int(path.read_text().split()[0]) / 1e9 if path.exists() else math.nan

    def until(self, wanted: Any) -> float:
        """When the first message came that is wanted."""
        while True:
            when, message = self.came.get(timeout=60)
            if wanted(message):
                return when


def measure(keystrokes: int, lines: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds by measure: start, change, completion; each on the clock and on a processor."""
    text = long_spec(lines)
    found: dict[str, list[tuple[float, float]]] = {"start": [], "change": [], "completion": []}
    folder = tempfile.TemporaryDirectory()
    for start in range(6):  # the first one writes byte code and is not counted
        begun = time.perf_counter()
        client = Client(folder.name)
        client.send(id=0, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
        shown = client.until(lambda m: m.get("id") == 0)
        if start:
            found["start"].append(((shown - begun) * 1e3, client.worked() * 1e3))
        if start < 5:
            client.process.terminate()
            client.process.wait()
    client.send(method="initialized", params={})
    document = {"uri": URI, "languageId": "rlspec", "version": 0, "text": text}
    client.send(method="textDocument/didOpen", params={"textDocument": document})
    client.until(lambda m: m.get("params", {}).get("version") == 0)
    row = text[: text.index("  advantage A")].count("\n") - 1
    column = 0
    for stroke in range(keystrokes):
        typed = TYPED[stroke % len(TYPED)]
        if stroke and stroke % len(TYPED) == 0:
            row, column = row + 1, 0
        place = {"line": row, "character": column}
        row, column = (row + 1, 0) if typed == "\n" else (row, column + 1)
        change = {"range": {"start": place, "end": place}, "text": typed}
        version = stroke + 1
        params = {"textDocument": {"uri": URI, "version": version}, "contentChanges": [change]}
        before = client.worked()
        start = client.send(method="textDocument/didChange", params=params)
        shown = client.until(lambda m, v=version: m.get("params", {}).get("version") == v)
        found["change"].append(((shown - start) * 1e3, (client.worked() - before) * 1e3))
        position = {"line": row, "character": column}
        params = {"textDocument": {"uri": URI}, "position": position}
        before = client.worked()
        start = client.send(id=version, method="textDocument/completion", params=params)
        answered = client.until(lambda m, v=version: m.get("id") == v and "method" not in m)
        found["completion"].append(((answered - start) * 1e3, (client.worked() - before) * 1e3))
        time.sleep(0.02)
    client.process.terminate()
    client.process.wait()
    folder.cleanup()
    return found


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keystrokes", type=int, default=200)
    options.add_argument("--lines", type=int, default=200)
    chosen = options.parse_args()
    found = measure(chosen.keystrokes, chosen.lines)
    print(
        f"| {chosen.lines} lines, {chosen.keystrokes} keystrokes | median | p95 | processor: median | p95 | bar, p95 |"
    )
    print("|---|---|---|---|---|---|")
    bars = {"start": 600, "change": 50, "completion": 20}
    names = {"start": "start to `initialize`", "change": "change to diagnostics", "completion": "completion"}
    for key, values in found.items():
        cells = []
        for side in zip(*values, strict=True):
            p95 = statistics.quantiles(side, n=20)[-1] if len(side) > 1 else side[0]
            cells += [f"{statistics.median(side):.1f} ms", f"{p95:.1f} ms"]
        print(f"| {names[key]} | {' | '.join(cells)} | {bars[key]} ms |")


if __name__ == "__main__":
    main()
