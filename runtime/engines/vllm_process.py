"""vLLM in a process that is not its own: what must be set before its import, and what it leaves changed behind it."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import torch

from rlspec.runtime.refusal import Refusal


def import_vllm() -> SimpleNamespace:
    """What is used of vLLM, imported under the settings that must precede the import.

    Raises Refusal RLC0710 when vLLM is not installed or does not import.
    """
    if importlib.util.find_spec("vllm") is None:
        raise Refusal("RLC0710", "vLLM is not installed", "make env-vllm")
    # The engine lives in this process: weights are handed over as tensors, and a step is a call.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "OMP_NUM_THREADS": "1",
    }.items():
        os.environ.setdefault(name, value)
    try:
        from vllm import EngineArgs, SamplingParams
        from vllm.platforms import current_platform
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend
        from vllm.v1.engine.llm_engine import LLMEngine
    except ImportError as error:
        raise Refusal("RLC0710", f"vLLM does not import: {error}", "make env-vllm") from error
    return SimpleNamespace(
        EngineArgs=EngineArgs,
        SamplingParams=SamplingParams,
        RequestOutputKind=RequestOutputKind,
        LLMEngine=LLMEngine,
        head_sizes=CPUAttentionBackend.get_supported_head_sizes() if current_platform.is_cpu() else [],
    )


@contextmanager
def without_llvmlite() -> Iterator[None]:
    """vLLM looks for kernels in every module and stumbles over the library object of llvmlite, which pretends to
    have any attribute; so numba's binding is out of its sight while the engine is made."""
    name = "llvmlite.binding.ffi"
    hidden = sys.modules.pop(name, None)
    try:
        yield
    finally:
        if hidden is not None:
            sys.modules[name] = hidden


@contextmanager
def process_state_kept() -> Iterator[None]:
    """Undo what making a vLLM engine does to the process around it: it seeds all global generators, replaces
    `torch.set_num_threads` by a warning, and adds its libraries to the LD_PRELOAD of every later child
    process."""
    preload, python, numbers = os.environ.get("LD_PRELOAD"), random.getstate(), np.random.get_state()
    set_num_threads = torch.set_num_threads
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads = set_num_threads
        random.setstate(python)
        np.random.set_state(numbers)
        if preload is None:
            os.environ.pop("LD_PRELOAD", None)
        else:
            os.environ["LD_PRELOAD"] = preload
