"""The process in which written code runs. Started by `rlspec.runtime.worlds.codegym.host` as a file of its own, by a
clean interpreter (`python -S -s -P`), with an empty environment, in `/`, over one socket; it imports nothing of rlspec.

The zygote itself never runs written code: it compiles it and forks. Every job runs in a forked child that first closes
itself in: nothing open but its answer's pipe, limits on processor time, memory and file size, and a seccomp filter that
allows some twenty system calls (memory, the pipe, clocks, exit) and refuses all others, so there is no file to open, no
socket, no process, no signal to send. When it answers, the answer is bytes; the zygote does not look into them.

Frames are a length (4 bytes, big endian) and JSON. Jobs: `learn` (code by digest), `run` (one of OPERATIONS).
"""

import collections
import ctypes
import gc
import json
import math
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import time

KEPT_CODES = 4096
HERE = os.path.dirname(os.path.abspath(__file__))

sys.path.insert(0, HERE)
import operations  # type: ignore[import-not-found]  # noqa: E402 - beside this file, where `-I` does not look

sys.path.pop(0)

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


def child(pipe, codes, job, limits, base, sandbox):
    """Do a job and answer. Never returns."""
    try:
        close_in(pipe, limits, base, sandbox)
        try:

            def fresh(part=0):
                space = operations.namespace(job.get("builtins", ()))
                exec(codes[part], space)
                return space

            answer = {"ok": True, **operations.OPERATIONS[job["op"]](fresh, job)}
        except BaseException as error:
            answer = {"ok": False, "error": operations.failure(error)}
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
        self.waiting: collections.deque[dict] = collections.deque()
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
        found: object
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
