"""Machine code that is the same on the first run and on all others.

numba compiles a function where it is first called, and keeps the result for the next process. But with reassociated
sums the process that compiled does not compute the same last bits as one that loads what was kept: it resolves inner
functions to code of their own, the other to the copies inside the kept function. So nobody here runs what he has
compiled himself: where nothing is kept yet, a process of its own compiles, and everybody loads.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

_COMPILE = """
import importlib, pickle, sys
module, name, signature = pickle.load(sys.stdin.buffer)
getattr(importlib.import_module(module), name).compile(signature)
"""


def settle(function: Any, *arguments: Any) -> None:
    """Load a `njit(cache=True)` function for these arguments, after another process has compiled it if need be. Where
    no cache can be written, this process compiles, as the next one will."""
    if function.overloads:
        return
    signature = tuple(numba.typeof(argument) for argument in arguments)
    kept = Path(function.stats.cache_path)
    with suppress(OSError):
        kept.mkdir(parents=True, exist_ok=True)
        mark = kept / f"{function.__name__}.{_digest(function, signature)}.settled"
        with open(mark, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not (file.tell() and any(kept.glob(f"*.{function.__name__}-*.nbi"))):
                order = pickle.dumps((function.__module__, function.__name__, signature))
                done = subprocess.run([sys.executable, "-c", _COMPILE], input=order, env=_environment(), check=False)
                if done.returncode == 0:
                    file.write(b"1")
    function.compile(signature)


def _digest(function: Any, signature: tuple[Any, ...]) -> str:
    text = Path(function.py_func.__code__.co_filename).read_bytes()
    host = f"{numba.__version__} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return hashlib.sha256(text + host.encode() + repr(signature).encode()).hexdigest()[:16]


def _environment() -> dict[str, str]:
    """Ours, with the path on which modules are found here."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
