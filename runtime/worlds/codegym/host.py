"""The host: many live environments, whose code runs in forked children of a jailed zygote, one child per step.

    with Jail() as jail:
        host = Host(jail)
        handle = host.open(design, {"numbers": [3, 4]})
        host.step(handle, 1, Call("get_numbers", {"index": 0}))     # Observation("3", "ok")
        host.step(handle, 1, Call("get_numbers", {"index": 0}))     # the same one again: a retry is not applied twice

A live environment is its state as text, a few hundred bytes. A step is tried in a child that holds a copy; the host
overwrites the state with what comes back when the child answered in time, and with nothing else. So a crash, an
exception, an endless loop or a call that eats memory leave the state as it was, and what went wrong is the observation.
"""

from __future__ import annotations

import ast
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
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.codegym.environment import SUBMIT, Design
from rlspec.runtime.worlds.codegym.envstring import configuration_text
from rlspec.runtime.worlds.codegym.guard import BUILTINS
from rlspec.runtime.worlds.codegym.toolschema import fits
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Observation

Sandbox = Literal["seccomp", "none"]
_BUILTINS = sorted(BUILTINS)
LARGEST_KEPT = 4_096
"""Characters of the largest state whose steps are remembered."""
ERROR = "error : "
UNKNOWN = f"{ERROR}unknown tool"
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


# ------------------------------------------------------------------------------------------------ live environments


def first_state(design: Design, configuration: Mapping[str, Any]) -> str:
    """The state in which a configuration begins, hidden inputs and working containers, as the text of an env string's
    configuration: JSON, or a Python literal where JSON cannot say it."""
    working = {name: ast.literal_eval(text) for name, text in design.working.items()}
    return configuration_text({**configuration, **working})


def tool_table(design: Design) -> dict[str, Any]:
    """The tools as the zygote takes them."""
    return {
        t.name: {
            "function": t.function,
            "bound": t.bound,
            "observes": t.observes,
            "takes": {p.name: p.type for p in t.parameters},
        }
        for t in design.tools
    }


@dataclass(slots=True)
class _Live:
    """One live environment. `sequence` is the number of the last step, `last` what it answered."""

    design: Design
    state: str
    sequence: int = 0
    last: Observation | None = None
    submitted: Any = None
    finished: bool = False


class Host:
    """Live environments by handle. Their code runs in `jail`, which several hosts may share.

    What a step does depends on code, state and call alone: there is no clock, no randomness and no file in there. So
    the results of the last `remembers` different steps are kept, and the rollouts of a group, which take the same first
    steps, do not run them eight times. What ended by a limit is never kept."""

    def __init__(self, jail: Jail, limits: Limits = Limits(), remembers: int = 0) -> None:
        self.jail, self.limits, self.remembers = jail, limits, remembers
        self._results: OrderedDict[tuple[str, str, str, str], Result] = OrderedDict()
        self._live: dict[int, _Live] = {}
        self._handles = itertools.count(1)

    def __len__(self) -> int:
        return len(self._live)

    def open(self, design: Design, configuration: Mapping[str, Any]) -> int:
        """A new environment in its first state; its handle."""
        handle = next(self._handles)
        self._live[handle] = _Live(design, first_state(design, configuration))
        return handle

    def copy(self, handle: int) -> int:
        """Another environment in the same state, which shares nothing with the first."""
        old, new = self._live[handle], next(self._handles)
        self._live[new] = _Live(old.design, old.state, old.sequence, old.last, old.submitted, old.finished)
        return new

    def close(self, handle: int) -> None:
        """Forget an environment; nothing happens to one that is not there."""
        self._live.pop(handle, None)

    def state(self, handle: int) -> str:
        """The state as text."""
        return self._live[handle].state

    def submitted(self, handle: int) -> tuple[bool, Any]:
        """Whether an answer was submitted, and which."""
        live = self._live[handle]
        return live.finished, live.submitted

    def step(self, handle: int, sequence: int, call: Call) -> Observation:
        """Take step number `sequence` (1, 2, ...). The number of the last step again gives its answer again, without
        taking it twice.

        Raises:
            KeyError: there is no such environment.
            ValueError: the number is neither the last one's nor the next.
            InfraFailure: the sandbox failed; the step was not taken.
        """
        live = self._live[handle]
        if sequence == live.sequence and live.last is not None:
            return live.last
        if sequence != live.sequence + 1:
            raise ValueError(f"step {sequence} cannot follow step {live.sequence}")
        observation = self._step(live, call)
        live.sequence, live.last = sequence, observation
        return observation

    def _step(self, live: _Live, call: Call) -> Observation:
        problem = self._mistake(live, call)
        if problem is not None:
            return Observation(f"{ERROR}{problem}", "error")
        if call.name == SUBMIT:
            live.finished, live.submitted = True, call.arguments["answer"]
            return Observation("submitted", "ok", wrote=True, ends=True)
        result = self._result(live, call)
        if result.status != "ok":
            return Observation(f"{ERROR}{result.text}", "error")
        text, state = result.value.get("text"), result.value.get("state")
        if not isinstance(text, str) or not isinstance(state, str) or len(state) > self.limits.state:
            return Observation(f"{ERROR}the call crashed", "error")
        wrote = state != live.state
        live.state = state
        return Observation(text, "ok", wrote=wrote)

    def _result(self, live: _Live, call: Call) -> Result:
        """What the step's child answers, or an equal step's did."""
        key = (live.design.digest, live.state, call.name, json.dumps(call.arguments, sort_keys=True))
        if key in self._results:
            self._results.move_to_end(key)
            return self._results[key]
        body = {
            "op": "step",
            "tools": tool_table(live.design),
            "state": live.state,
            "name": call.name,
            "arguments": call.arguments,
            "state_limit": self.limits.state,
        }
        result = self.jail.run(Job(live.design, 1, body, self.limits))
        plain = result.status == "ok" or (result.status == "error" and not result.text.startswith("MemoryError"))
        if self.remembers and plain and len(live.state) <= LARGEST_KEPT:
            self._results[key] = result
            if len(self._results) > self.remembers:
                self._results.popitem(last=False)
        return result

    @staticmethod
    def _mistake(live: _Live, call: Call) -> str | None:
        """What is wrong with a call before anything runs."""
        if live.finished:
            return "the answer was submitted already"
        tool = live.design.submit if call.name == SUBMIT else None
        tool = tool or next((t.tool for t in live.design.tools if t.name == call.name), None)
        if tool is None:
            return UNKNOWN.removeprefix(ERROR)
        wanted = {p.name: p.type for p in tool.parameters}
        if missing := [name for name in wanted if name not in call.arguments]:
            return f"missing argument {missing[0]}"
        if unknown := [name for name in call.arguments if name not in wanted]:
            return f"unknown argument {unknown[0][:40]}"
        for name, kind in wanted.items():
            if not fits(kind, call.arguments[name]):
                return f"argument {name} is not of type {kind}"
        return None
