"""All tests, as `make test` runs them: those that need seconds on two processes, whole runs after them in one.

    python tests/suite.py [--jobs N] [words for pytest ...]

A whole run has processes of its own (Ray's, vLLM's, killed ones), and several of them at once are slower than one after
the other. Every test is in exactly one half, since the second half's condition is the negation of the first one's. Both
halves share a cache; the second runs whatever the first one found. Ends with one line for both, and with status 1 when
a test failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

WHOLE_RUNS = "slow or vllm"
NOTHING_CHOSEN = 5  # pytest's status where the words leave a half without tests
PYTEST = [sys.executable, "-m", "pytest"]


def counted(report: Path) -> dict[str, int]:
    """What a half has found: tests, and of them failures, errors and skipped."""
    if not report.exists():
        return {}
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    names = ("tests", "failures", "errors", "skipped")
    found = [{name: int(suite.get(name, 0)) for name in names} for suite in suites]
    return {name: sum(suite[name] for suite in found) for name in names}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--jobs", type=int, default=min(2, _cores()))
    given, words = arguments.parse_known_args()
    # With one process there is nobody to hand tests to: pytest runs them itself.
    jobs = given.jobs if given.jobs > 1 else 0
    folder = Path(tempfile.mkdtemp(prefix="rlspec-tests-"))
    env = {"RLSPEC_CACHE": str(folder), **os.environ}
    halves = {
        f"tests on {max(1, jobs)} process{'es' if jobs else ''}": [
            "-m", f"not ({WHOLE_RUNS})", "-n", str(jobs), "--dist", "loadfile",
        ],
        "whole runs": ["-m", WHOLE_RUNS, "-n", "0"],
    }  # fmt: skip
    said, failed, run, start = [], False, 0, time.monotonic()
    try:
        for name, half in halves.items():
            print(f"== {name}", flush=True)
            began, report = time.monotonic(), folder / f"{len(said)}.xml"
            status = subprocess.run([*PYTEST, *half, f"--junitxml={report}", *words], env=env, check=False).returncode
            failed |= status not in (0, NOTHING_CHOSEN)
            found = counted(report)
            bad = found.get("failures", 0) + found.get("errors", 0)
            run += found.get("tests", 0)
            passed = found.get("tests", 0) - bad - found.get("skipped", 0)
            said.append(
                f"{name}: {passed} passed, {bad} failed, {found.get('skipped', 0)} skipped"
                f" in {_clock(time.monotonic() - began)}" + ("" if found else f", pytest ended with status {status}")
            )
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failed |= run == 0
    print(f"{'FAILED' if failed else 'passed'} in {_clock(time.monotonic() - start)} ({'; '.join(said)})")
    return int(failed)


def _cores() -> int:
    """Those that this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main())
