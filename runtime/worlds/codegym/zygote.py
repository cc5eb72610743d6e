"""The process in which written code runs. Started by `rlspec.runtime.worlds.codegym.host` as a file of its own, by a
clean interpreter (`python -I -S`), with an empty environment, in `/`, over one socket; it imports nothing of rlspec.

The zygote itself never runs written code: it compiles it and forks. Every job runs in a forked child that first closes
itself in: nothing open but its answer's pipe, limits on processor time, memory and file size, and a seccomp filter that
allows some twenty system calls (memory, the pipe, clocks, exit) and refuses all others, so there is no file to open, no
socket, no process, no signal to send. When it answers, the answer is bytes; the zygote does not look into them.

Frames are a length (4 bytes, big endian) and JSON. Jobs: `learn` (code by digest), `run` (one of OPERATIONS).
"""

import ast
import bisect
import builtins
import collections
import ctypes
import functools
import gc
import heapq
import itertools
import json
import math
import os
import platform
import resource
import select
import signal
import socket
import string
import struct
import sys
import time

MODULES = {module.__name__: module for module in (math, itertools, functools, collections, heapq, bisect, string)}
KEPT_CODES = 4096
TEXT_LIMIT = 2_000

# ------------------------------------------------------------------------------------------------------------ the jail

# read write close fstat lseek mmap mprotect munmap brk mremap madvise rt_sigaction rt_sigprocmask rt_sigreturn getpid
# exit exit_group futex clock_gettime gettimeofday getrandom sched_yield sigaltstack restart_syscall rseq
CALLS = {
    "x86_64": (0xC000003E, (0, 1, 3, 5, 8, 9, 10, 11, 12, 25, 28, 13, 14, 15, 39, 60, 231, 202, 228, 96, 318, 24, 131,
                            219, 334)),
    "aarch64": (0xC00000B7, (63, 64, 57, 80, 62, 222, 226, 215, 214, 216, 233, 134, 135, 139, 172, 93, 94, 98, 113, 169,
                             278, 124, 132, 128, 293)),
}  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _filter():
    """The seccomp program as (buffer, struct), or None on another processor. Unknown calls get EPERM, another
    architecture's calls kill."""
    found = CALLS.get(platform.machine())
    if found is None:
        return None
    arch, allowed = found
    load, equal, give = 0x20, 0x15, 0x06  # BPF: ld [k], jeq #k, ret #k
    lines = [(load, 0, 0, 4), (equal, 1, 0, arch), (give, 0, 0, 0x80000000), (load, 0, 0, 0)]
    count = len(allowed)
    lines += [(equal, count - i, 0, number) for i, number in enumerate(allowed)]
    lines += [(give, 0, 0, 0x00050000 | 1), (give, 0, 0, 0x7FFF0000)]
    raw = b"".join(struct.pack("HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(raw, len(raw))
    return buffer, _Program(len(lines), ctypes.cast(buffer, ctypes.c_void_p))


FILTER = _filter()
LIBC = ctypes.CDLL(None, use_errno=True)


def _base_memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def close_in(pipe, limits, base, sandbox):
    """Give up everything but the pipe, which becomes descriptor 3."""
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # die with the zygote
    if pipe != 3:
        os.dup2(pipe, 3)
    os.closerange(4, 1024)
    seconds = math.ceil(limits["cpu"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    memory = base + int(limits["memory"])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sandbox == "none":
        return
    LIBC.prctl(38, 1, 0, 0, 0)  # no new privileges
    if FILTER is None or LIBC.prctl(22, 2, ctypes.byref(FILTER[1]), 0, 0) != 0:
        os._exit(77)


# --------------------------------------------------------------------------------------------- running written code


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    if level or name not in MODULES:
        raise ImportError(f"{name} is not among the modules that may be imported")
    return MODULES[name]


def _namespace(names):
    allowed = {name: getattr(builtins, name) for name in names if hasattr(builtins, name)}
    return {"__builtins__": {**allowed, "__import__": _import, "__build_class__": None}, "__name__": "environment"}


def _plain(value):
    """A JSON value of what code returned."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, collections.deque)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v) for v in value), key=repr)
    if isinstance(value, dict):
        return {k if isinstance(k, str) else json.dumps(_plain(k)): _plain(v) for k, v in value.items()}
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _text(value):
    """A result as the agent sees it."""
    if value is None:
        return "ok"
    shown = value if isinstance(value, str) else json.dumps(_plain(value))
    return shown if len(shown) <= TEXT_LIMIT else shown[:TEXT_LIMIT] + " ..."


def _loaded(text):
    """A state: JSON, or a Python literal (which is slower) where JSON cannot say it."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


def _saved(value):
    """What `_loaded` reads back."""
    if _is_json(value):
        return json.dumps(value)
    text = repr(value)
    ast.literal_eval(text)
    return text


def _is_json(value):
    kind = type(value)
    if kind is dict:
        return all(type(k) is str for k in value) and all(map(_is_json, value.values()))
    if kind is list:
        return all(map(_is_json, value))
    return kind in (int, str, bool, type(None)) or (kind is float and math.isfinite(value))


def _failure(error):
    if isinstance(error, MemoryError):
        return "MemoryError: the call took too much memory"
    said = str(error) if not isinstance(error, KeyError) else f"no {error}"
    return f"{type(error).__name__}: {said}"[:200]


class _Gym:
    """Tools over a state, in this process."""

    def __init__(self, space, job):
        self.space, self.tools = space, job["tools"]
        self.state = _loaded(job["state"])
        self.calls = []
        self.most = job.get("most", 1)

    def call(self, name, arguments):
        tool = self.tools[name]
        bound = {p: self.state[of] for p, of in tool["bound"].items()}
        return self.space[tool["function"]](**bound, **arguments)

    def acted(self, name, **arguments):
        """`tool_` of solutions."""
        if len(self.calls) >= self.most:
            raise RuntimeError(f"more than {self.most} calls")
        self.calls.append([name, arguments])
        return self.call(name, arguments)

    def each(self, count, get):
        """`each_` of solutions: a loop over a hidden sequence."""
        for place in range(self.acted(count)):
            yield self.acted(get, index=place)

    def tried(self, name, arguments):
        """A call whose failure leaves the state as it was: (did it work, text)."""
        before = _saved(self.state)
        try:
            return True, _text(self.call(name, arguments))
        except Exception as error:
            self.state = _loaded(before)
            return False, _failure(error)


def _step(fresh, job):
    gym = _Gym(fresh(), job)
    text = _text(gym.call(job["name"], job["arguments"]))
    state = _saved(gym.state)
    if len(state) > job["state_limit"]:
        raise MemoryError
    return {"text": text, "state": state}


def _reference(space, job):
    return {"answer": _plain(space[job["main"]](**_loaded(job["state"])))}


def _solve(space, job):
    gym = _Gym(space, job)
    space["tool_"], space["each_"] = gym.acted, gym.each
    answer = _plain(space[job["main"]]())
    return {"calls": [[n, {k: _plain(v) for k, v in a.items()}] for n, a in gym.calls], "answer": answer}


def _replay(space, job):
    gym = _Gym(space, job)
    return {
        "observations": [gym.tried(name, arguments) for name, arguments in job["calls"]],
        "state": _saved(gym.state),
    }


def _each(operation):
    """An operation on many items in one child, each with functions of its own; one that fails is told apart. An item
    that never ends takes the whole batch with it, which is then done one by one."""

    def batch(fresh, job):
        results = []
        for item in job["items"]:
            try:
                results.append({"ok": True, **operation(fresh(), {**job, **item})})
            except Exception as error:
                results.append({"ok": False, "error": _failure(error)})
        return {"results": results}

    return batch


class _Dice:
    """Small deterministic random numbers (xorshift64*), so that no module has to be loaded for them."""

    def __init__(self, seed):
        self.at = (seed * 0x9E3779B97F4A7C15 + 1) & 0xFFFFFFFFFFFFFFFF or 1

    def below(self, n):
        x = self.at
        x ^= x >> 12
        x ^= (x << 25) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 27
        self.at = x
        return ((x * 0x2545F4914F6CDD1D) & 0xFFFFFFFFFFFFFFFF) % n if n else 0

    def one(self, items):
        return items[self.below(len(items))]


def _draw(kind, seen, dice):
    """An argument of a type: something that was seen, or something small."""
    fitting = [v for v in seen if _is(kind, v)]
    if fitting and dice.below(4):
        return dice.one(fitting)
    if kind == "bool":
        return bool(dice.below(2))
    if kind in ("int", "float"):
        return dice.below(10)
    if kind == "str":
        return dice.one("abc")
    return dice.one(fitting) if fitting else []


def _is(kind, value):
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, (list, dict))


def _play(space, job):
    """An attempt of the random policy: calls with arguments that it has seen or that are small, then an answer of the
    right type, mostly what it saw last."""
    gym, dice = _Gym(space, job), _Dice(job["seed"])
    seen, calls = [], 0
    names = sorted(gym.tools)
    length = job["fewest"] + dice.below(max(1, job["most"] - job["fewest"]))
    while calls < length and names:
        name = dice.one(names)
        arguments = {p: _draw(kind, seen, dice) for p, kind in gym.tools[name]["takes"].items()}
        before = _saved(gym.state)
        try:
            result = gym.call(name, arguments)
            if result is not None:
                seen.append(_plain(result))
        except Exception:
            gym.state = _loaded(before)
        calls += 1
    fitting = [v for v in seen if _is(job["answer_type"], v)]
    answer = fitting[-1] if fitting and dice.below(2) else _draw(job["answer_type"], seen, dice)
    return {"answer": answer, "calls": calls}


def _probe(fresh, job):
    """What is still possible in here, by trying it."""
    found = []
    for name, attempt in (
        ("read a file", lambda: os.close(os.open("/proc/self/statm", os.O_RDONLY))),
        ("list a folder", lambda: os.listdir("/")),
        ("open a socket", lambda: _negative(LIBC.socket(2, 1, 0))),
        ("send a signal", lambda: os.kill(os.getppid(), 0)),
        ("change its directory", lambda: os.chdir("/tmp")),
        ("start a process", lambda: os._exit(0) if os.fork() == 0 else None),
    ):
        try:
            attempt()
            found.append(name)
        except OSError:
            continue
    return {"open": found}


def _negative(result):
    if result < 0:
        raise OSError("refused")


OPERATIONS = {
    "step": _step,
    "reference": _each(_reference),
    "solve": _each(_solve),
    "replay": _each(_replay),
    "play": _each(_play),
    "probe": _probe,
}


def child(pipe, codes, job, limits, base, sandbox):
    """Do a job and answer. Never returns."""
    try:
        close_in(pipe, limits, base, sandbox)
        try:

            def fresh():
                space = _namespace(job.get("builtins", ()))
                for code in codes:
                    exec(code, space)
                return space

            answer = {"ok": True, **OPERATIONS[job["op"]](fresh, job)}
        except BaseException as error:
            answer = {"ok": False, "error": _failure(error)}
        body = json.dumps(answer).encode()
        if len(body) > limits["answer"]:
            body = json.dumps({"ok": False, "error": "ValueError: the result is too large"}).encode()
        body = struct.pack(">I", len(body)) + body
        while body:
            body = body[os.write(3, body) :]
    finally:
        os._exit(0)


# ------------------------------------------------------------------------------------------------------------ the loop


class Zygote:
    """Reads jobs, forks, answers. `most` children at a time; a job that waits costs nothing."""

    def __init__(self, sock, most, sandbox):
        self.sock, self.most, self.sandbox = sock, most, sandbox
        self.codes = collections.OrderedDict()
        self.waiting = collections.deque()
        self.running = {}  # pipe -> [pid, job id, deadline, bytes so far, most bytes]
        self.inbox = b""
        self.base = 0

    def serve(self):
        self.base = _base_memory()
        poller = self.poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        while True:
            while self.waiting and len(self.running) < self.most:
                self.begin(self.waiting.popleft())
            soonest = min((r[2] for r in self.running.values()), default=None)
            wait = None if soonest is None else max(0, (soonest - time.monotonic()) * 1000 + 1)
            for descriptor, _ in poller.poll(wait):
                if descriptor == self.sock.fileno():
                    if not self.read():
                        return
                else:
                    self.hear(descriptor)
            now = time.monotonic()
            for pipe in [p for p, r in self.running.items() if r[2] <= now]:
                self.end(pipe, "timeout")

    def read(self):
        data = self.sock.recv(1 << 20)
        if not data:
            return False
        self.inbox += data
        while len(self.inbox) >= 4:
            (size,) = struct.unpack(">I", self.inbox[:4])
            if len(self.inbox) < 4 + size:
                break
            frame, self.inbox = self.inbox[4 : 4 + size], self.inbox[4 + size :]
            job = json.loads(frame)
            if job["op"] == "learn":
                self.learn(job)
            else:
                self.waiting.append(job)
        return True

    def learn(self, job):
        """Compile code; nothing of it runs here."""
        try:
            found = [compile(text, f"<{job['digest']}>", "exec", dont_inherit=True) for text in job["texts"]]
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            found = str(error)
        self.codes[job["digest"]] = found
        if len(self.codes) > KEPT_CODES:
            self.codes.popitem(last=False)

    def begin(self, job):
        codes = self.codes.get(job["digest"], []) if job["digest"] else []
        if isinstance(codes, str):
            self.answer(job["id"], "done", json.dumps({"ok": False, "error": f"SyntaxError: {codes}"}).encode())
            return
        if job["digest"] and not codes:
            self.answer(job["id"], "unknown", b"")
            return
        self.codes.move_to_end(job["digest"]) if job["digest"] else None
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(writing, codes[: job["texts"]], job["job"], job["limits"], self.base, self.sandbox)
        os.close(writing)
        deadline = time.monotonic() + job["limits"]["wall"]
        self.running[reading] = [pid, job["id"], deadline, b"", job["limits"]["answer"] + 1024]
        self.poller.register(reading, select.POLLIN)

    def hear(self, pipe):
        record = self.running.get(pipe)
        if record is None:
            return
        data = os.read(pipe, 1 << 16)
        record[3] += data
        if len(record[3]) > record[4]:
            self.end(pipe, "crash")
        elif not data or (len(record[3]) >= 4 and len(record[3]) >= 4 + struct.unpack(">I", record[3][:4])[0]):
            self.end(pipe, "done")

    def end(self, pipe, why):
        """Kill what is left of a child and answer for it."""
        pid, number, _, body, _ = self.running.pop(pipe)
        self.poller.unregister(pipe)
        os.close(pipe)
        complete = len(body) >= 4 and len(body) - 4 == struct.unpack(">I", body[:4])[0]
        status = 0
        if why == "done" and not complete:  # it died: why? A moment for the kernel to say so.
            for _ in range(200):
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone:
                    pid = 0
                    break
                time.sleep(0.001)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if why == "done" and not complete:
            why = "crash"
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
                why = "timeout"
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 77:
                why = "unjailed"
        self.answer(number, why, body[4:] if why == "done" else b"")

    def answer(self, number, status, body):
        head = json.dumps({"id": number, "status": status}).encode()
        self.sock.sendall(struct.pack(">II", len(head), len(body)) + head + body)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then closes the socket
    connection = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.disable()
    gc.freeze()
    sys.setrecursionlimit(400)
    Zygote(connection, int(sys.argv[2]), sys.argv[3]).serve()
