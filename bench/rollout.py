"""Sampled tokens per second of the hf engine against `transformers.generate`, the same multi-turn work for
both.

    python bench/rollout.py [--conversations 128] [--turns 11] [--sampled 4] [--repeats 5]

Both have the same model (the embedded policy's shape, random weights), the same prompts, the same scripted
replies and the same number of sampled tokens in every turn, in one process with one thread. `generate` is
called once per turn on the whole dialogue so far, padded on the left, which is how it is used in multi-turn
rollouts; it is not asked for log-probabilities, which the engine returns. The number of tokens in a turn is
the same for all conversations, so `generate` never waits for the longest. The clock is CPU time of the
process, the smallest of the repeats, taken in turn.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from rlspec.compiler.catalog.policies import Tiny
from rlspec.runtime.engines.hf import HfEngine

VOCABULARY = 600
PROMPT, REPLY = (12, 24), (4, 15)  # tokens of a prompt and of a reply: from, below


def make_model() -> LlamaForCausalLM:
    """The embedded policy's default shape with random weights."""
    tiny = Tiny()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=tiny.width,
        num_hidden_layers=tiny.layers,
        num_attention_heads=tiny.heads,
        num_key_value_heads=tiny.kv_heads,
        intermediate_size=tiny.feed_forward,
        max_position_embeddings=tiny.context,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def script(conversations: int, turns: int) -> list[list[list[int]]]:
    """What each conversation is fed before each of its turns."""
    rng = np.random.default_rng(0)

    def words(low: int, high: int) -> list[int]:
        return rng.integers(1, VOCABULARY, rng.integers(low, high)).tolist()

    return [[words(*PROMPT), *(words(*REPLY) for _ in range(turns - 1))] for _ in range(conversations)]


def with_engine(engine: HfEngine, fed: list[list[list[int]]], context: int) -> int:
    """Sampled tokens. The engine is left empty."""
    uniforms = np.random.default_rng(1).random((len(fed), context))
    turn = dict.fromkeys(range(len(fed)), 0)
    waiting = list(range(len(fed)))[::-1]
    sampled = 0

    def start() -> None:
        n = waiting.pop()
        engine.open(str(n), uniforms[n])
        engine.feed(str(n), fed[n][0])

    while waiting and len(fed) - len(waiting) < engine.capacity:
        start()
    while finished := engine.poll():
        for message in finished:
            sampled += len(message.tokens)
            n = int(message.key)
            turn[n] += 1
            if turn[n] < len(fed[n]):
                engine.feed(message.key, fed[n][turn[n]])
            else:
                engine.close(message.key)
                if waiting:
                    start()
    return sampled


def with_generate(model: LlamaForCausalLM, fed: list[list[list[int]]], count: int, batch: int) -> int:
    """Sampled tokens."""
    sampled = 0
    for first in range(0, len(fed), batch):
        talks = [list(feeds[0]) for feeds in fed[first : first + batch]]
        for turn in range(len(fed[0])):
            if turn:
                for talk, feeds in zip(talks, fed[first : first + batch], strict=True):
                    talk.extend(feeds[turn])
            longest = max(map(len, talks))
            ids = torch.tensor([[0] * (longest - len(talk)) + talk for talk in talks])
            mask = torch.tensor([[0] * (longest - len(talk)) + [1] * len(talk) for talk in talks])
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=mask,
                    max_new_tokens=count,
                    min_new_tokens=count,
                    do_sample=True,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                )
            for talk, new in zip(talks, out[:, longest:].tolist(), strict=True):
                talk.extend(new)
                sampled += len(new)
    return sampled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=128)
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--sampled", type=int, default=4, help="tokens per turn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine-only", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    model = make_model()
    fed = script(options.conversations, options.turns)
    context = Tiny().context
    engine = HfEngine(model, options.slots, context, 1.0, options.sampled, [])
    engine.load_weights(model.state_dict(), 0)
    rivals: dict[str, Callable[[], int]] = {
        "hf engine": lambda: with_engine(engine, fed, context),
        "transformers.generate": lambda: with_generate(model, fed, options.sampled, options.slots),
    }
    if options.engine_only:
        del rivals["transformers.generate"]
    best: dict[str, float] = {}
    tokens: dict[str, int] = {}
    for repeat in range(options.repeats + 1):  # the first one warms up
        for name, work in rivals.items():
            begin = time.process_time()
            tokens[name] = work()
            if repeat:
                best[name] = min(best.get(name, float("inf")), time.process_time() - begin)
    assert len(set(tokens.values())) == 1, tokens
    fed_tokens = sum(len(words) for feeds in fed for words in feeds)
    total = next(iter(tokens.values()))
    print(
        f"{options.conversations} conversations, {options.slots} at once, {options.turns} turns, "
        f"{total} sampled and {fed_tokens} fed tokens, 1 thread"
    )
    print(f"{'':24}{'CPU s':>8}{'sampled tok/s':>16}{'all tok/s':>12}")
    for name, seconds in best.items():
        print(f"{name:24}{seconds:8.2f}{total / seconds:16.0f}{(total + fed_tokens) / seconds:12.0f}")
    if len(best) == 2:
        fast, slow = best.values()
        print(f"ratio {slow / fast:.1f}")


if __name__ == "__main__":
    main()
