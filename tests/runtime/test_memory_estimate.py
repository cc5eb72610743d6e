"""The memory that a plan estimates, against what torch keeps and what a real worker's process uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rlspec.compiler.costs.architecture import Architecture
from rlspec.compiler.costs.memory import Worker, activations

ROOT = Path(__file__).parents[2]
SHAPE = Architecture(4, 64, 8, 2, 16, 224, 1000)
TOKENS = (2, 100)


def saved_for_backward(model: torch.nn.Module, autocast: bool) -> int:
    """Bytes that autograd keeps of one forward pass: every storage once, parameters not."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    ids = torch.zeros(TOKENS, dtype=torch.int64)
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast),
    ):
        model.base_model(input_ids=ids, use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_activations_are_to_the_byte_what_autograd_keeps(family: str, precision: str) -> None:
    config = AutoConfig.for_model(
        family, vocab_size=SHAPE.vocabulary, hidden_size=SHAPE.width, intermediate_size=SHAPE.feed_forward,
        num_hidden_layers=SHAPE.layers, num_attention_heads=SHAPE.heads, num_key_value_heads=SHAPE.kv_heads,
        head_dim=SHAPE.head_width, tie_word_embeddings=False,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    shape = Architecture(4, 64, 8, 2, model.config.to_dict().get("head_dim") or 8, 224, 1000,
                         qk_norm=int(family == "qwen3"))  # fmt: skip
    tokens = TOKENS[0] * TOKENS[1]
    worker = Worker(shape, precision, "cpu", "hf", 8, 256, tokens, tokens, 1, 8, 64, 1)
    expected = activations(worker)
    expected += tokens * 8 + 2 * TOKENS[1] * shape.head_width * 4  # ids, and the rotary tables that layers share
    if precision == "bfloat16":
        biases = (shape.queries + 2 * shape.keys) * int(family == "qwen2")
        expected += 2 * shape.layers * shape.linear  # the matrices' copies, a term of their own
        assert saved_for_backward(model, True) - expected in (0, 2 * shape.layers * biases)
    else:
        assert saved_for_backward(model, False) == expected


@pytest.mark.slow
def test_a_real_worker_uses_what_is_estimated() -> None:
    """One small case of bench/memory_plan.py: two updates, new weights, generation, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "memory_plan.py"), "quick"], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("quick ") == 3
