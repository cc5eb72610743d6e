"""Scoring: a program's kernel, compiled by numba, on a ragged batch.

    kernel = Kernel(program, cache_dir=run / "kernels")
    kernel(batch)["advantage"]          # float64, one value per member of the output's level

Kernels run serially: at 32,768 tokens a trajectory they take milliseconds, and starting threads cost more
than they saved. With a cache directory the generated text is kept there as `<digest>.py`, where it can be
read and debugged, and numba keeps the machine code next to it, so a second process starts without compiling.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from rlspec.compiler.kernels import source
from rlspec.compiler.levels import BY_LABEL
from rlspec.compiler.pools import check
from rlspec.compiler.program import Program
from rlspec.runtime.record.ragged import RaggedBatch

OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
SIGNAL = types.Array(types.float64, 1, "C", readonly=True)
RESULT = types.Array(types.float64, 1, "C")


class Kernel:
    """A compiled program. `source` is its text, `digest` names text and numba version."""

    def __init__(self, program: Program, cache_dir: Path | None = None) -> None:
        """Generate and compile; seconds the first time, tens of milliseconds out of the cache.

        Raises:
            ValueError: the program is not well formed.
            PermissionError: others can write to the cache directory, so its machine code cannot be trusted.
        """
        levels = check(program)
        self.inputs = [(i.name, BY_LABEL[i.level]) for i in program.inputs]
        self.outputs = [(name, levels[at]) for name, at in program.outputs.items()]
        self.source = source(program)
        self.digest = hashlib.sha256(f"numba {numba.__version__}\n{self.source}".encode()).hexdigest()[:32]
        module = _module(self.source, self.digest, cache_dir)
        for name, part in list(vars(module).items()):
            if isinstance(part, FunctionType) and part.__module__ == module.__name__ and name != "kernel":
                loose = {"reassoc"} if name == "plus" else set()
                setattr(module, name, numba.njit(error_model="numpy", nogil=True, fastmath=loose)(part))
        signature = types.void(*(OFFSETS,) * 3, *(SIGNAL,) * len(self.inputs), *(RESULT,) * len(self.outputs))
        compiled = numba.njit(signature, error_model="numpy", nogil=True, cache=cache_dir is not None)
        self._run: Any = compiled(module.kernel)

    def __call__(self, batch: RaggedBatch) -> dict[str, NDArray[np.float64]]:
        """Score a batch. Every output is a fresh array with one value per member of its level.

        Raises:
            ValueError: a signal is missing, or has another length than its level has members.
        """
        sizes, signals = batch.sizes, []
        for name, level in self.inputs:
            if name not in batch.signals:
                raise ValueError(f"the batch brings no signal {name!r}")
            signal = np.ascontiguousarray(batch.signals[name], dtype=np.float64)
            if signal.shape != (sizes[level],):
                raise ValueError(f"signal {name!r} has shape {signal.shape} for {sizes[level]} members")
            signals.append(signal)
        results = {name: np.empty(sizes[level]) for name, level in self.outputs}
        self._run(batch.group_offsets, batch.turn_offsets, batch.token_offsets, *signals, *results.values())
        return results


def _module(text: str, digest: str, cache_dir: Path | None) -> ModuleType:
    """The text as a module; with a cache directory, imported from there, where numba looks for its machine
    code."""
    name = f"rlspec_kernel_{digest}"
    if cache_dir is None:
        module = ModuleType(name)
        exec(compile(text, f"<{name}>", "exec"), vars(module))
        return module
    path = _kept(text, digest, cache_dir)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _kept(text: str, digest: str, cache_dir: Path) -> Path:
    """The file with this text, written if it is not there yet. A file that says something else is replaced,
    and an equal one is left alone: numba asks for its time of change."""
    cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = cache_dir.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError(f"{cache_dir} must belong to this user and be writable by nobody else")
    path = cache_dir / f"{digest}.py"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return path
    handle, draft = tempfile.mkstemp(dir=cache_dir, prefix=f".{digest}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return path
