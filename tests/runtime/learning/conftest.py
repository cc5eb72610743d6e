"""Small random models and rows for the tests of learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlspec.runtime.learning.learner import Optimisation
from rlspec.runtime.learning.rows import Row

VOCABULARY = 31


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """make_model(seed, dtype, **config): a random Llama of about 4,000 parameters."""

    def make(seed: int = 0, dtype: torch.dtype = torch.float32, **config: Any) -> Any:
        settings = {
            "vocab_size": VOCABULARY,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "tie_word_embeddings": False,
            "initializer_range": 0.3,
        }
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(**(settings | config))).to(dtype)

    return make


@pytest.fixture
def make_rows() -> Callable[..., list[Row]]:
    """make_rows(n): ragged rows in groups of four, agent tokens in two stretches, sampler off the policy."""

    def make(n: int = 12, seed: int = 0, reference: bool = False) -> list[Row]:
        rng = np.random.default_rng(seed)
        rows = []
        for k in range(n):
            length = int(rng.integers(8, 30))
            mask_T = np.zeros(length, dtype=np.bool_)
            mask_T[2:4] = mask_T[6 : int(rng.integers(7, length))] = True
            rows.append(
                Row(
                    tokens_T=rng.integers(0, VOCABULARY, length).astype(np.int32),
                    mask_T=mask_T,
                    advantages_T=rng.normal(size=length),
                    logprobs_T=rng.normal(-3.5, 0.5, length).astype(np.float32),
                    group=k // 4,
                    reference_T=rng.normal(-3.5, 0.5, length).astype(np.float32) if reference else None,
                )
            )
        return rows

    return make


@pytest.fixture
def optimisation() -> Optimisation:
    return Optimisation(
        lr=1e-3,
        schedule="cosine",
        final_lr_share=0.1,
        lr_warmup=2,
        updates=10,
        betas=(0.9, 0.95),
        epsilon=1e-8,
        weight_decay=0.01,
        grad_clip=1.0,
        micro_batch=64,
    )
