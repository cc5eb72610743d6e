from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    PhiConfig,
    PhiForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlspec.runtime.learning.logprobs import Head, chunk_tokens, token_logprobs
from rlspec.runtime.refusal import Refusal

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def plain(hidden_LD, weight_VD, targets_L, temperature, bias_V=None):
    logits_LV = torch.nn.functional.linear(hidden_LD, weight_VD, bias_V) / temperature
    table_LV = torch.log_softmax(logits_LV, dim=1)
    return table_LV.gather(1, targets_L[:, None])[:, 0], -(table_LV.exp() * table_LV).sum(dim=1)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 30),
    vocabulary=st.integers(2, 50),
    chunk=st.integers(1, 40),
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_log_softmax(count, vocabulary, chunk, temperature, biased, seed):
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64, requires_grad=True)  # noqa: E731
    hidden_LD, weight_VD = draw(count, 6), draw(vocabulary, 6)
    bias_V = draw(vocabulary) if biased else None
    targets_L = torch.randint(vocabulary, (count,), generator=rng)
    upstream_L = torch.randn(count, generator=rng, dtype=torch.float64)
    inputs = [hidden_LD, weight_VD] + ([bias_V] if bias_V is not None else [])

    expected_L, entropies_L = plain(hidden_LD, weight_VD, targets_L, temperature, bias_V)
    expected = torch.autograd.grad((expected_L * upstream_L).sum(), inputs)
    found_L, entropy_L = token_logprobs(
        hidden_LD, weight_VD, targets_L, temperature=temperature, bias_V=bias_V, chunk=chunk, entropy=True
    )
    found = torch.autograd.grad((found_L * upstream_L).sum(), inputs)

    torch.testing.assert_close(found_L, expected_L, rtol=0, atol=1e-12)
    torch.testing.assert_close(entropy_L, entropies_L.detach(), rtol=0, atol=1e-12)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_analytic_gradient_passes_gradcheck():
    torch.manual_seed(0)
    hidden_LD = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    weight_VD = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    bias_V = torch.randn(7, dtype=torch.float64, requires_grad=True)
    targets_L = torch.tensor([0, 6, 3, 3, 1])
    assert torch.autograd.gradcheck(
        lambda h, w, b: token_logprobs(h, w, targets_L, temperature=0.7, bias_V=b, chunk=2)[0],
        (hidden_LD, weight_VD, bias_V),
    )


def test_float32_agrees_across_chunks():
    torch.manual_seed(0)
    hidden_LD, weight_VD = torch.randn(50, 16), torch.randn(300, 16)
    targets_L = torch.randint(300, (50,))
    whole_L, _ = token_logprobs(hidden_LD, weight_VD, targets_L, chunk=50)
    for chunk in (1, 7, 49):
        part_L, _ = token_logprobs(hidden_LD, weight_VD, targets_L, chunk=chunk)
        torch.testing.assert_close(part_L, whole_L, rtol=0, atol=1e-5)


@pytest.mark.parametrize("master", [torch.bfloat16, torch.float32])
def test_bfloat16_states_are_summed_in_float32(master):
    torch.manual_seed(0)
    hidden_LD = torch.randn(20, 64).bfloat16().requires_grad_()
    weight_VD = (torch.randn(9_000, 64) / 8).bfloat16().to(master).requires_grad_()
    targets_L = torch.randint(9_000, (20,))
    exact_L, _ = plain(hidden_LD.double(), weight_VD.double(), targets_L, 1.0)
    exact = torch.autograd.grad(exact_L.sum(), [hidden_LD, weight_VD])
    found_L, _ = token_logprobs(hidden_LD, weight_VD, targets_L, chunk=8)
    found = torch.autograd.grad(found_L.sum(), [hidden_LD, weight_VD])
    assert found_L.dtype == torch.float32
    torch.testing.assert_close(found_L.double(), exact_L, rtol=0, atol=1e-4)
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-2, atol=1e-3)


def test_no_array_of_tokens_times_vocabulary_exists():
    vocabulary, tokens = 20_000, 400
    assert chunk_tokens(vocabulary) == 419
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel())
            return out

    hidden_LD = torch.randn(tokens, 4, requires_grad=True)
    weight_VD = torch.randn(vocabulary, 4, requires_grad=True)
    with Watch():
        logprobs_L, _ = token_logprobs(
            hidden_LD, weight_VD, torch.randint(vocabulary, (tokens,)), chunk=10, entropy=True
        )
        logprobs_L.sum().backward()
    assert largest == 10 * vocabulary


@pytest.mark.parametrize(
    "build",
    [
        lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=True)),
        lambda: PhiForCausalLM(PhiConfig(**(SIZES | {"num_key_value_heads": 2}))),  # its head has a bias
        lambda: GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2)),
    ],
    ids=["qwen3-tied", "phi-bias", "gpt2"],
)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equals_the_models_own_log_softmax(build, temperature):
    torch.manual_seed(0)
    model = build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    tokens_BT = torch.randint(40, (3, 12))
    rows_L, positions_L = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 11, 5, 7])
    found_L, _ = Head(model).logprobs(tokens_BT, rows_L, positions_L, temperature=temperature)
    table_BTV = torch.log_softmax(model(input_ids=tokens_BT).logits / temperature, dim=-1)
    expected_L = table_BTV[rows_L, positions_L - 1, tokens_BT[rows_L, positions_L]]
    torch.testing.assert_close(found_L, expected_L, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=1.0)),
        lambda: CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25)),
    ],
    ids=["soft-capped", "scaled"],
)
def test_a_head_that_changes_its_logits_is_refused(build):
    torch.manual_seed(0)
    model = build().eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(0, 1)
    with pytest.raises(Refusal, match="RLC0710"):
        Head(model)


def test_the_first_token_has_no_logprob(make_model):
    with pytest.raises(ValueError, match="first token"):
        Head(make_model()).logprobs(torch.zeros(1, 4, dtype=torch.long), torch.tensor([0]), torch.tensor([0]))
