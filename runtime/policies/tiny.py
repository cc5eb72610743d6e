"""The embedded policy: a small Llama with random weights and a tokenizer made for its corpus, in Hugging Face
layout.

build(Tiny(), demonstrations, Path("policy"), seed=0)
model, tokenizer = load("policy", "float32", "cpu")
AutoModelForCausalLM.from_pretrained("policy")                       # the same model, by anyone
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from rlspec.compiler.catalog.policies import Tiny
from rlspec.runtime.policies import vocabulary
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.policies.loading import PRECISIONS, load
from rlspec.runtime.record.durable import writing
from rlspec.runtime.streams import derived_seed

__all__ = ["TEMPLATE", "build", "load"]

TEMPLATE = Path(__file__).with_name("chat.jinja")


def build(config: Tiny, corpus: Iterable[Dialogue], directory: Path, seed: int) -> None:
    """Train the tokenizer on the corpus, draw the weights from the seed, and save both into `directory`.

    The same config, corpus and seed give the same files. The context (tokens) becomes
    `max_position_embeddings`.
    """
    tokenizer = vocabulary.train(TEMPLATE.read_text(), corpus, config.vocabulary, config.phrases)
    tokenizer.model_max_length = config.context
    stop = Renderer(tokenizer).stop_token
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        intermediate_size=config.feed_forward,
        max_position_embeddings=config.context,
        initializer_range=config.init_std,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=stop,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):  # transformers initialises from the global generator
        torch.manual_seed(derived_seed(seed, "policy", "weights"))
        model = LlamaForCausalLM(shape).to(PRECISIONS[config.precision])
    model.generation_config = GenerationConfig(
        eos_token_id=stop, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0, top_k=0
    )
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
