"""Loading a policy in Hugging Face layout: one path for `tiny` and for any local folder or hub name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from rlspec.runtime.refusal import Refusal

logging.set_verbosity_error()  # progress bars and hints of a library do not belong into a run's output
logging.disable_progress_bar()

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one, else the CPU.

    Raises:
        Refusal: RLC0710, CUDA was asked for and there is none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise Refusal("RLC0710", "the policy's device is cuda, and this machine has none", "use device = auto")
    return torch.device(name)


def load(directory: Path | str, precision: str = "float32", device: str = "auto") -> tuple[Any, Any]:
    """(model in evaluation mode, tokenizer) from a folder or hub name.

    Raises:
        Refusal: RLC0701, there is no such model, or a file of it cannot be read; RLC0710, see
        `resolve_device`.
    """
    where = resolve_device(device)
    try:
        model = AutoModelForCausalLM.from_pretrained(str(directory), dtype=PRECISIONS[precision])
        tokenizer = AutoTokenizer.from_pretrained(str(directory))
    except (OSError, ValueError) as error:
        raise Refusal("RLC0701", f"the policy {str(directory)!r} cannot be loaded: {error}") from error
    return model.to(where).eval(), tokenizer
