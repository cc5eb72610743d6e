"""The weight probe, without an engine: what it takes for arrived, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlspec.runtime.engines.weight_probe import WeightProbe
from rlspec.runtime.refusal import Refusal


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=request.param,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config).float().eval()
    model.save_pretrained(tmp_path)
    return model


@pytest.fixture
def probe(model: LlamaForCausalLM, tmp_path: Path) -> WeightProbe:
    probe = WeightProbe(tmp_path, 12)
    probe.take_weights()
    return probe


def scored(model: LlamaForCausalLM, probe: WeightProbe) -> list[float]:
    tokens = torch.tensor(probe.tokens)
    with torch.no_grad():
        rows = torch.log_softmax(model(tokens[None]).logits[0, :-1], dim=-1)
    return [float("nan"), *rows.gather(1, tokens[1:, None])[:, 0].tolist()]


def test_the_folders_weights_are_handed_over_and_not_kept(model: LlamaForCausalLM, tmp_path: Path) -> None:
    probe = WeightProbe(tmp_path, 12)
    weights = probe.take_weights()
    for name, parameter in model.named_parameters():
        assert torch.equal(weights[name], parameter)
    assert all(parameter.is_meta for parameter in probe._model.parameters())
    assert probe.names.keys() >= {"lm_head.weight", "model.embed_tokens.weight"}
    assert weights.keys() == set(probe.names.values())


def test_weights_that_arrived_pass(model: LlamaForCausalLM, probe: WeightProbe) -> None:
    for version in range(3):
        tensors = probe.fitting(model.state_dict())
        probe.check(tensors, scored(model, probe), version)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.01)


def test_old_weights_are_refused_and_the_right_ones_pass_afterwards(
    model: LlamaForCausalLM, probe: WeightProbe
) -> None:
    old = scored(model, probe)
    tensors = {name: tensor.clone() for name, tensor in probe.fitting(model.state_dict()).items()}
    probe.check(tensors, old, 0)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.01)
    with pytest.raises(Refusal, match=r"RLC0708: the weights of version 1 .* off by"):
        probe.check(probe.fitting(model.state_dict()), old, 1)
    probe.check(tensors, old, 2)


def test_a_change_within_the_tolerance_must_still_move_the_probe(model: LlamaForCausalLM, probe: WeightProbe) -> None:
    old = scored(model, probe)
    probe.check({n: t.clone() for n, t in probe.fitting(model.state_dict()).items()}, old, 0)
    with torch.no_grad():
        model.model.norm.weight.mul_(1 + 1e-5)
    with pytest.raises(Refusal, match=r"RLC0708: .* stood still"):
        probe.check(probe.fitting(model.state_dict()), old, 1)
    probe.check(probe.fitting(model.state_dict()), scored(model, probe), 1)


def test_not_a_number_is_refused(model: LlamaForCausalLM, probe: WeightProbe) -> None:
    with pytest.raises(Refusal, match=r"RLC0708: .* nan nats"):
        probe.check(probe.fitting(model.state_dict()), [float("nan")] * 12, 0)


def test_a_state_that_is_not_the_models_is_refused_by_name(model: LlamaForCausalLM, probe: WeightProbe) -> None:
    state = model.state_dict()
    missing = {name: tensor for name, tensor in state.items() if name != "model.norm.weight"}
    with pytest.raises(Refusal, match=r"model\.norm\.weight is missing"):
        probe.fitting(missing)
    with pytest.raises(Refusal, match=r"module\.model\.norm\.weight is unknown"):
        probe.fitting(state | {"module.model.norm.weight": state["model.norm.weight"]})
    with pytest.raises(Refusal, match=r"model\.norm\.weight has shape \(4,\) instead of \(16,\)"):
        probe.fitting(state | {"model.norm.weight": torch.zeros(4)})
    with pytest.raises(Refusal, match=r"is missing.* and \d+ more"):
        probe.fitting({})
