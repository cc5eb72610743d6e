"""How many environments one machine can keep alive, what they take, and how many steps it does:

    python bench/codegym_hosting.py [--environments 2000] [--steps 2000] [--naive 100]

Three ways to host the same environments, drawn from the shipped problems in turn:

- ours: an environment is its state as text; a step runs in a child forked from one jailed zygote;
- one forked process each: a child of a common parent that keeps its state and answers on a pipe (no jail, no rollback);
- one interpreter each: a fresh Python per environment (no jail, no rollback), as a server per environment would be.

Memory is PSS, the shared pages divided by who shares them, of the host and all its processes. Seconds are processor
seconds of all of them, so other work on the machine does not count; wall seconds are given beside them with the load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlspec.compiler.catalog.codegym import Synthesis
from rlspec.runtime.worlds.codegym import decompose
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.host import Host, first_state
from rlspec.runtime.worlds.codegym.jail import Jail
from rlspec.runtime.worlds.codegym.problems import SHIPPED, read_problems
from rlspec.runtime.worlds.protocol import Call

SERVE = """
import json, os, sys
def serve(reading, writing, module, tools, state):
    space = {}
    exec(module, space)
    state = json.loads(state)
    for line in reading:
        name, arguments = json.loads(line)
        tool = tools[name]
        bound = {p: state[of] for p, of in tool["bound"].items()}
        writing.write(json.dumps(space[tool["function"]](**bound, **arguments)) + "\\n")
        writing.flush()
"""
ALONE = SERVE + "job = json.loads(sys.stdin.readline())\nserve(sys.stdin, sys.stdout, *job)\n"


def pss(pids: Sequence[int]) -> float:
    """MB of all these processes, shared pages counted once."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total / 1e3


def cpu(pids: Sequence[int]) -> float:
    """Processor seconds of processes and the children that they waited for."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def report(
    name: str, alive: int, megabytes: float, steps: int, seconds: float, wall: float, waits: list[float]
) -> None:
    """One line of the table."""
    waits = sorted(waits)
    print(
        f"| {name} | {alive:,} | {megabytes:,.1f} | {1000 * megabytes / alive:,.1f} | {1000 * seconds / steps:.2f} | "
        f"{steps / seconds:,.0f} | {steps / wall:,.0f} | {1000 * statistics.median(waits):.1f} | "
        f"{1000 * waits[int(0.99 * (len(waits) - 1))]:.1f} |",
        flush=True,
    )


def tasks(count: int) -> list[tuple[Design, dict[str, Any], Call]]:
    """Environments in turn, each with a call that its tools take."""
    designs = [(decompose.author(p), p.configurations) for p in read_problems(SHIPPED)]
    out = []
    for n in range(count):
        design, configurations = designs[n % len(designs)]
        given = configurations[n // len(designs) % len(configurations)].input
        tool = next(t for t in design.tools if t.observes and not t.parameters)
        out.append((design, given, Call(tool.name, {})))
    return out


def timed(steps: int, alive: int, step: Callable[[int], None]) -> tuple[list[float], float]:
    """Steps over all environments in turn: seconds of each, and of all."""
    waits = []
    began = time.perf_counter()
    for n in range(steps):
        start = time.perf_counter()
        step(n % alive)
        waits.append(time.perf_counter() - start)
    return waits, time.perf_counter() - began


def ours(count: int, steps: int, remembers: int, name: str) -> None:
    """Live states, one jailed zygote; with `remembers`, no equal step is run twice."""
    work = tasks(count)
    me = [os.getpid()]
    before = pss(me)
    with Jail(workers=os.cpu_count() or 1, sandbox=Synthesis().sandbox) as jail:
        host = Host(jail, remembers=remembers)
        handles = [host.open(design, given) for design, given, _ in work]
        numbers = [0] * count
        for n in range(count):  # every environment has taken a step, so none is a mere promise
            numbers[n] += 1
            assert host.step(handles[n], numbers[n], work[n][2]).status == "ok"
        assert jail.pid is not None
        everyone = [*me, jail.pid]
        seconds = cpu(everyone)

        def step(n: int) -> None:
            numbers[n] += 1
            assert host.step(handles[n], numbers[n], work[n][2]).status == "ok"

        waits, wall = timed(steps, count, step)
        report(name, count, pss(everyone) - before, steps, cpu(everyone) - seconds, wall, waits)


def tools_of(design: Design) -> dict[str, Any]:
    return {t.name: {"function": t.function, "bound": t.bound} for t in design.tools}


def forked(count: int, steps: int) -> None:
    """A process each, forked from this one."""
    space: dict[str, Any] = {}
    exec(SERVE, space)
    pipes, pids = [], []
    work = tasks(count)
    for design, given, _ in work:
        asking, asked = os.pipe()
        answered, answering = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other_in, other_out in pipes:
                other_in.close()
                other_out.close()
            os.close(asked)
            os.close(answered)
            streams = os.fdopen(asking), os.fdopen(answering, "w")
            space["serve"](*streams, design.module, tools_of(design), first_state(design, given))
            os._exit(0)
        os.close(asking)
        os.close(answering)
        pipes.append((os.fdopen(asked, "w"), os.fdopen(answered)))
        pids.append(pid)
    asked_and_timed("one forked process each", work, pipes, pids, steps)
    for pid in pids:
        os.waitpid(pid, 0)


def alone(count: int, steps: int) -> None:
    """An interpreter each."""
    work = tasks(count)
    processes = []
    for design, given, _ in work:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps([design.module, tools_of(design), first_state(design, given)]) + "\n")
        process.stdin.flush()
        processes.append(process)
    pipes = [(p.stdin, p.stdout) for p in processes]
    asked_and_timed("one interpreter each", work, pipes, [p.pid for p in processes], steps)
    for process in processes:
        process.wait()


def asked_and_timed(name: str, work: Sequence[Any], pipes: Sequence[Any], pids: Sequence[int], steps: int) -> None:
    """Steps by pipe, then the pipes are closed."""

    def step(n: int) -> None:
        call = work[n][2]
        pipes[n][0].write(json.dumps([call.name, call.arguments]) + "\n")
        pipes[n][0].flush()
        assert pipes[n][1].readline()

    for n in range(len(work)):
        step(n)
    everyone = [os.getpid(), *pids]
    before = cpu(everyone)
    waits, wall = timed(steps, len(work), step)
    report(name, len(work), pss(pids), steps, cpu(everyone) - before, wall, waits)
    for writing, reading in pipes:
        writing.close()
        reading.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--environments", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--naive", type=int, default=100, help="environments of the two other ways")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print("| hosting | alive | MB | kB each | CPU ms per step | steps per CPU s | per wall s | p50 ms | p99 ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    forked(given.naive, given.steps)
    alone(given.naive, given.steps)
    ours(given.environments, given.steps, 0, "ours, every step run")
    ours(given.environments, given.steps, 20_000, "ours, equal steps remembered")


if __name__ == "__main__":
    main()
