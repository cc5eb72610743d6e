"""What a run was made with: versions, machine and the state of the spec's repository.

Everything is looked up in package metadata, so nothing heavy is imported. Two runs whose records
differ need not agree in the last bit; `differences` says in what.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "rlspec", "torch", "transformers", "tokenizers", "safetensors", "numpy", "numba", "ray", "vllm",
    "pyarrow", "pydantic", "lark", "tensorboardX",
)  # fmt: skip


def collect(spec: Path | None = None) -> dict[str, Any]:
    """Python, packages (None where one is not installed), machine, and the repository that holds `spec`."""
    packages: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "packages": packages,
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "threads": threads(),
        "vectors": _capability(),
        "git": None if spec is None else git_state(spec),
    }


def threads() -> int | None:
    """Threads that tensor sums are split over: torch's number when torch is loaded, else `OMP_NUM_THREADS`,
    else None (not known before torch is loaded)."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    declared = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(declared) if declared.isdigit() and int(declared) > 0 else None


def _capability() -> str | None:
    """The vector instructions that torch's kernels use ("AVX2"); None when torch is not loaded."""
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch.backends.cpu.get_cpu_capability())


def git_state(spec: Path) -> dict[str, Any] | None:
    """Commit of the repository that holds `spec`, and whether tracked files (or the spec itself) differ from
    it. None outside of a repository, without git, or before the first commit."""
    folder = spec.parent if spec.suffix or spec.is_file() else spec
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    tracked = not spec.is_file() or _git(folder, "ls-files", "--error-unmatch", "--", spec.name) is not None
    return {"commit": commit, "dirty": bool(changed) or changed is None or not tracked}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two records and can change the last bits of a number, as "torch 2.12 then, 2.13
    now". What one of them does not know (threads before torch is loaded) is not compared."""
    packages_then, packages_now = then.get("packages", {}), now.get("packages", {})
    pairs = [(key, then.get(key), now.get(key)) for key in ("python", "machine", "processor", "threads", "vectors")]
    pairs = [pair for pair in pairs if pair[1] is not None and pair[2] is not None]
    names = sorted({*packages_then, *packages_now})
    pairs += [(name, packages_then.get(name), packages_now.get(name)) for name in names]
    return [f"{name} {before} then, {after} now" for name, before, after in pairs if before != after]


def _git(folder: Path, *words: str) -> str | None:
    """Output of a git command that changes nothing; None when it fails."""
    # A repository's own configuration must not start programs or write locks here.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    """The CPU's model name; kernels are chosen by it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            for line in info:
                if line.startswith(("model name", "Hardware", "CPU part")):
                    return line.partition(":")[2].strip()
    except OSError:
        return platform.processor()
    return platform.processor()
