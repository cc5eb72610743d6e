"""Peak memory of one policy update with a large vocabulary: does it grow with vocabulary times length?

    python bench/logprobs_memory.py

A Llama of 3 layers and width 64 with a vocabulary of 151,936 takes one update (forward, backward, AdamW) on
16 and on 32 sequences of 60 prompt and 90 agent tokens, all in one micro-batch, each in a process of its own.
Ends with status 1 when 32 sequences need more than 0.3 GB more than 16.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

VOCABULARY, PROMPT, ANSWER = 151_936, 60, 90
ALLOWED_GROWTH_GB = 0.3
PUBLISHED_TRL_GB = {16: 3.5, 32: 5.3}
"""Peaks reported for TRL's GRPOTrainer at these sizes; this script does not run it."""


def peak_gb() -> float:
    """Largest resident set of this process so far, in GB (2**30 bytes)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def measure(sequences: int) -> dict[str, float]:
    """One update in this process: peak before and after, and seconds of CPU."""
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rlspec.compiler.catalog.stages import Grpo
    from rlspec.runtime.learning.learner import Learner, Optimisation
    from rlspec.runtime.learning.loss import Clipped
    from rlspec.runtime.learning.rows import Row

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=False,
        )
    )
    stage = Grpo(micro_batch=sequences * (PROMPT + ANSWER))
    learner = Learner(model, Optimisation.of(stage, stage.steps, stage.updates_per_step))
    rng = np.random.default_rng(0)
    rows = []
    for n in range(sequences):
        mask_T = np.arange(PROMPT + ANSWER) >= PROMPT
        rows.append(
            Row(
                tokens_T=rng.integers(0, VOCABULARY, PROMPT + ANSWER).astype(np.int32),
                mask_T=mask_T,
                advantages_T=np.where(mask_T, rng.normal(), 0.0),
                logprobs_T=np.full(PROMPT + ANSWER, -np.log(VOCABULARY), dtype=np.float32),
                group=n // 8,
            )
        )
    before, started = peak_gb(), time.process_time()
    metrics = learner.step(rows, Clipped.of(stage))
    return {
        "before": before,
        "peak": peak_gb(),
        "cpu_s": time.process_time() - started,
        "grad_norm": metrics["grad_norm"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, help="measure this many in this process and print JSON")
    chosen = parser.parse_args().sequences
    if chosen is not None:
        print(json.dumps(measure(chosen)))
        return 0

    found = {}
    print(f"vocabulary {VOCABULARY:,}, {PROMPT} + {ANSWER} tokens, one micro-batch, float32, one thread")
    print(f"{'sequences':>9}  {'before GB':>9}  {'peak GB':>8}  {'CPU s':>6}  {'TRL, published GB':>17}")
    for sequences, published in PUBLISHED_TRL_GB.items():
        command = [sys.executable, str(Path(__file__).resolve()), "--sequences", str(sequences)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[sequences] = row = json.loads(done.stdout.splitlines()[-1])
        figures = f"{row['before']:9.2f}  {row['peak']:8.2f}  {row['cpu_s']:6.1f}"
        print(f"{sequences:>9}  {figures}  {published:>17.1f}", flush=True)
    growth = found[32]["peak"] - found[16]["peak"]
    print(f"growth from 16 to 32: {growth:.2f} GB (allowed {ALLOWED_GROWTH_GB}; TRL, published 1.8)")
    return int(growth > ALLOWED_GROWTH_GB)


if __name__ == "__main__":
    raise SystemExit(main())
