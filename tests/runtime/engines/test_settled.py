"""The first process on a machine, which finds no machine code, computes the same bits as the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = """
import hashlib
import numpy as np, torch
from transformers import LlamaConfig, LlamaForCausalLM
from rlspec.runtime.engines.hf import HfEngine
torch.set_num_threads(1)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
    intermediate_size=64, max_position_embeddings=160, tie_word_embeddings=False)).eval()
engine = HfEngine(model, 4, 160, 1.0, 24, [1])
numbers, found = np.random.default_rng(0), {}
for key in "abcd":
    engine.open(key, numbers.random(160), 0)
    engine.feed(key, numbers.integers(2, 300, 60).tolist())
while len(found) < 4:
    found |= {s.key: (s.tokens, s.logprobs) for s in engine.poll()}
print(hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest())
"""


def test_the_first_process_samples_the_same_bits_as_the_next(tmp_path: Path) -> None:
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SAMPLE]
    first, second = (
        subprocess.run(command, env=own, capture_output=True, text=True, check=True, timeout=500).stdout for _ in "12"
    )
    assert first
    assert first == second
    assert list(tmp_path.rglob("*.settled"))
