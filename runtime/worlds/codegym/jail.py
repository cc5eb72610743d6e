"""The jail: jobs that run written code, each in a child forked from one closed-in process (see `zygote.py`).

    with Jail() as jail:
        jail.run(Job(design, 1, {"op": "step", ...}))      # Result("ok", {"text": ..., "state": ...})

The zygote is started when the first job comes, proves that nothing can be reached from inside, and is started again
when it dies. What a child answers is read as JSON of bounded size, never as code.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.guard import BUILTINS
from rlspec.runtime.worlds.protocol import InfraFailure

Sandbox = Literal["seccomp", "none"]
_BUILTINS = sorted(BUILTINS)
GRACE = 10.0
"""Seconds beyond all deadlines after which a silent zygote is given up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one job: wall and processor seconds, bytes that it may allocate, bytes of its answer and of a state."""

    wall: float = 3.0
    cpu: float = 2.0
    memory: int = 100 << 20
    answer: int = 1 << 20
    state: int = 1 << 18

    def plain(self) -> dict[str, Any]:
        """As the zygote takes them."""
        return {"wall": self.wall, "cpu": self.cpu, "memory": self.memory, "answer": self.answer}


@dataclass(frozen=True, slots=True)
class Job:
    """What a child shall do with a design's code. `texts`: 0 none of it, 1 the module, 2 module and solution."""

    design: Design | None
    texts: int
    body: Mapping[str, Any]
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ended: `ok` with `value`, `error` (an exception; `text` names it), `timeout`, or `crash`."""

    status: Literal["ok", "error", "timeout", "crash"]
    value: dict[str, Any] = field(default_factory=dict)
    text: str = ""


class Jail:
    """One zygote. Jobs of several threads take turns. `workers` children run at a time.

    Raises (when it starts):
        Refusal: RLC0710, this machine cannot keep written code in.
    """

    def __init__(self, workers: int = 0, sandbox: Sandbox = "seccomp") -> None:
        self.workers = workers or os.cpu_count() or 1
        self.sandbox = sandbox
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._known: set[str] = set()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote; children die with it."""
        if self._socket is not None and self._owner == os.getpid():
            self._socket.close()
        if self._process is not None and self._owner == os.getpid():
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._socket = None
        self._known.clear()

    @property
    def pid(self) -> int | None:
        """Of the zygote, None before the first job."""
        return self._process.pid if self._process is not None else None

    # ------------------------------------------------------------------------------------------------------- jobs

    def run(self, job: Job) -> Result:
        """Do one job. Raises InfraFailure when the zygote cannot be kept alive."""
        return next(self.run_all([job]))

    def run_all(self, jobs: Sequence[Job]) -> Iterator[Result]:
        """Do all jobs, `workers` at a time; results in the order of the jobs. Raises as `run`."""
        with self._lock:
            found = self._run_all(jobs)
        yield from found

    def _run_all(self, jobs: Sequence[Job]) -> list[Result]:
        results: dict[int, Result] = {}
        for attempt in range(3):
            missing = [n for n in range(len(jobs)) if n not in results]
            try:
                self._start()
                self._exchange({n: jobs[n] for n in missing}, results)
                return [results[n] for n in range(len(jobs))]
            except (OSError, EOFError) as error:  # the zygote is gone; states live here, so nothing is lost
                self.close()
                if attempt == 2:
                    raise InfraFailure("env", f"the sandbox process died three times: {error}") from error
        raise AssertionError("the last attempt returns or raises")

    def _exchange(self, jobs: dict[int, Job], results: dict[int, Result]) -> None:
        numbers: dict[int, int] = {}
        waiting = iter(jobs.items())
        open_jobs = 0
        patience = max((job.limits.wall for job in jobs.values()), default=0.0) + GRACE
        while True:
            for place, job in itertools.islice(waiting, max(0, 4 * self.workers - open_jobs)):
                number = next(self._numbers)
                numbers[number] = place
                self._send(job, number)
                open_jobs += 1
            if not open_jobs:
                return
            head, body = self._receive(patience)
            place = numbers.get(head["id"], -1)
            if place < 0:
                continue  # of a batch that was given up
            open_jobs -= 1
            results[place] = self._result(head["status"], body)

    def _result(self, status: str, body: bytes) -> Result:
        if status == "unjailed":
            raise Refusal(
                "RLC0710",
                "this machine refuses the seccomp filter that keeps written code in",
                "run on Linux with seccomp (x86-64 or aarch64), or write `sandbox = none` and trust the code",
            )
        if status == "timeout":
            return Result("timeout", text="the call took too long")
        try:
            if status != "done":
                raise ValueError(status)
            value = json.loads(body)
            if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
                raise ValueError("no answer")
        except (ValueError, RecursionError):
            return Result("crash", text="the call crashed")
        if not value.pop("ok"):
            return Result("error", text=str(value.get("error", "Exception"))[:200])
        return Result("ok", value)

    # ------------------------------------------------------------------------------------------------- the zygote

    def _start(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            return
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        script = str(Path(__file__).with_name("zygote.py"))
        # As `-I`, but with the environment that is given here, so that sets have the same order every time.
        command = [sys.executable, "-S", "-s", "-P", script, str(theirs.fileno()), str(self.workers), self.sandbox]
        self._process = subprocess.Popen(
            command,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self._socket, self._owner = ours, os.getpid()
        self._known.clear()
        if self.sandbox == "none":
            return
        number = next(self._numbers)
        self._send(Job(None, 0, {"op": "probe"}), number)
        head, body = self._receive(GRACE)
        result = self._result(head["status"], body)
        if result.status != "ok" or result.value["open"]:
            self.close()
            left = ", ".join(result.value.get("open", [])) or result.text
            raise Refusal(
                "RLC0710",
                f"written code could still do this in the sandbox of this machine: {left}",
                "run on Linux with seccomp, or write `sandbox = none` and trust the code",
            )

    def _frame(self, value: Any) -> None:
        assert self._socket is not None
        data = json.dumps(value).encode()
        self._socket.sendall(struct.pack(">I", len(data)) + data)

    def _send(self, job: Job, number: int) -> None:
        digest = job.design.digest if job.design is not None and job.texts else ""
        if digest and digest not in self._known:
            assert job.design is not None
            self._frame({"op": "learn", "digest": digest, "texts": [job.design.module, job.design.solve]})
            self._known.add(digest)
        body = {"builtins": _BUILTINS, **job.body} if digest else dict(job.body)
        limits = job.limits.plain()
        self._frame({"op": "run", "id": number, "digest": digest, "texts": job.texts, "job": body, "limits": limits})

    def _receive(self, patience: float) -> tuple[dict[str, Any], bytes]:
        lengths = self._read(8, patience)
        head_size, body_size = struct.unpack(">II", lengths)
        head = json.loads(self._read(head_size, patience))
        body = self._read(body_size, patience)
        if head["status"] == "unknown":  # the zygote dropped the code from its cache
            raise EOFError("the sandbox forgot some code")
        return head, body

    def _read(self, size: int, patience: float) -> bytes:
        assert self._socket is not None
        parts: list[bytes] = []
        deadline = time.monotonic() + patience
        while size:
            if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if self._process is not None:
                    self._process.kill()
                raise EOFError("the sandbox process is silent")
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the sandbox process ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
