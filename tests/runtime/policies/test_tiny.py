from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlspec.compiler.catalog.policies import HuggingFace, Tiny
from rlspec.compiler.records import ValidationError
from rlspec.runtime.policies import tiny
from rlspec.runtime.policies.chat import Renderer
from rlspec.runtime.policies.loading import resolve_device
from rlspec.runtime.refusal import Refusal


def test_anyone_can_load_it(policy, corpus, renderer):
    model = AutoModelForCausalLM.from_pretrained(policy)
    tokenizer = AutoTokenizer.from_pretrained(policy)
    assert model.config.model_type == "llama"
    assert model.config.vocab_size == len(tokenizer) == len(renderer.tokenizer)
    assert Renderer(tokenizer).dialogue(corpus[0]) == renderer.dialogue(corpus[0])
    assert model.generation_config.eos_token_id == renderer.stop_token
    assert "find_user" in tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tools=list(corpus[0].tools), tokenize=False
    )


def test_the_seed_makes_the_weights(policy, corpus, tmp_path):
    config = Tiny(width=32, layers=2, heads=2)
    state = torch.random.get_rng_state()
    tiny.build(config, corpus, tmp_path / "same", seed=3)
    tiny.build(config, corpus, tmp_path / "other", seed=4)
    assert torch.equal(torch.random.get_rng_state(), state)
    first, same, other = (
        tiny.load(where, "float32", "cpu")[0].state_dict() for where in (policy, tmp_path / "same", tmp_path / "other")
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_precision_is_the_callers(policy):
    model, _ = tiny.load(policy, "bfloat16", "cpu")
    assert model.dtype == torch.bfloat16
    assert not model.training


def test_a_missing_policy_is_refused(tmp_path):
    with pytest.raises(Refusal, match="RLC0701"):
        tiny.load(tmp_path / "nothing", "float32", "cpu")


def test_a_missing_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto").type == "cpu"
    with pytest.raises(Refusal, match="RLC0710"):
        resolve_device("cuda")


@pytest.mark.parametrize(
    "fields", [{"width": 60, "heads": 8}, {"heads": 2, "kv_heads": 4}, {"layers": 0}, {"depth": 3}]
)
def test_impossible_shapes_are_errors(fields):
    with pytest.raises(ValidationError):
        Tiny(**fields)


def test_a_hub_policy_needs_a_name():
    with pytest.raises(ValidationError):
        HuggingFace(model="")
