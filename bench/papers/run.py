"""Run the comparisons of `docs/papers`, one run after the other on one core.

python bench/papers/run.py                                  # everything that has not been run
python bench/papers/run.py tarl mua_rl --seeds 0-1 --only live

Goes on where it stopped, also inside a run. Several may be at work at once, each on a core: a run that one of them is
busy with is left to it. A run that fails is recorded with its exit status and shown by `table.py`;
it is tried again only with `--again`. The exit status is 1 when a run has failed. How arms are listed: `arms.py`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from arms import ROOT, Job, jobs, papers

QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def numbers(text: str) -> set[int]:
    """ "0-2,4" -> {0, 1, 2, 4}."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def wanted(out: Path, names: Sequence[str], seeds: set[int] | None, only: str | None) -> list[Job]:
    """The jobs that were asked for, of the lists as they are now."""
    return [
        job
        for job in jobs(papers(), out)
        if (not names or job.paper in names)
        and (seeds is None or job.seed in seeds)
        and (only is None or job.arm.label == only)
    ]


@contextmanager
def claimed(job: Job) -> Iterator[bool]:
    """Whether the job is this process's, for as long as the block lasts. The lock ends with the process that has it."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    with job.record.with_suffix(".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield job.outcome() is None


def perform(job: Job, rlc: Sequence[str]) -> int:
    """One run to its end, from where an earlier attempt of it stopped; its exit status, which is also recorded."""
    command = [*rlc, "run", *job.arm.words(), "--seed", str(job.seed), "--executor", "local", "--out", str(job.folder)]
    if (job.folder / "plan.json").exists():
        command.append("--resume")
    log = job.folder.parent / f"{job.seed}.log"
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("a", encoding="utf-8") as file:
        print(shlex.join(command), file=file, flush=True)
        status = subprocess.call(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env={**QUIET, **os.environ})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    line = {"status": status, "cpu_seconds": cpu, "wall_seconds": time.monotonic() - began, "command": command}
    job.record.write_text(json.dumps(line, indent=1) + "\n", encoding="utf-8")
    return status


def attempted(job: Job, rlc: Sequence[str]) -> bool:
    """Perform a job and say what came of it, unless somebody else has it."""
    with claimed(job) as ours:
        if not ours:
            return False
        began, status = time.strftime("%H:%M:%S"), perform(job, rlc)
    found = job.outcome() or {}
    told = f"{began} {job.paper} {job.arm.label} seed {job.seed}: "
    print(f"{told}status {status}, {found['cpu_seconds']:.0f} CPU s, {found['wall_seconds']:.0f} s", flush=True)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; 1 if any of the jobs asked for has failed."""
    parser = argparse.ArgumentParser(description="Run the comparisons of docs/papers.")
    parser.add_argument("papers", nargs="*", help="only these")
    parser.add_argument("--seeds", type=numbers, help="only these, as 0-2,4")
    parser.add_argument("--only", metavar="ARM", help="only this arm")
    parser.add_argument("--again", action="store_true", help="try again what has failed, once")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "papers")
    parser.add_argument("--rlc", type=shlex.split, default=[sys.executable, "-m", "rlspec.cli.main"])
    given = parser.parse_args(arguments)
    if given.again:
        for job in wanted(given.out, given.papers, given.seeds, given.only):
            if (found := job.outcome()) is not None and found["status"] != 0:
                job.record.unlink()
    while True:
        asked = wanted(given.out, given.papers, given.seeds, given.only)
        if not any(attempted(job, given.rlc) for job in asked if job.outcome() is None):
            break
    failed = [job for job in asked if (job.outcome() or {}).get("status")]
    for job in failed:
        print(f"failed: {job.folder}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
