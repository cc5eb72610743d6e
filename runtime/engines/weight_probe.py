"""Did the weights arrive? transformers' account of what given weights say, to hold an engine's against.

A sync that does nothing, or updates all layers but one, raises nothing by itself: the sampler goes on under
old weights and the run looks like one that learns slowly. So after every update an engine scores one fixed
sequence, and the same tensors are run through transformers on the same sequence. The cost is a forward pass
of some fifty tokens.

    probe = WeightProbe("policy/", length=48)
    tensors = probe.fitting(state)           # exactly the model's parameters, or a refusal
    ...                                      # hand them to the engine
    probe.check(tensors, seen, version=3)  # seen: log-probabilities of probe.tokens

Dimension suffixes: P probe tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream

TOLERANCE = 1e-4  # nats; vLLM and transformers, both float32, were seen to differ by up to 1.3e-5
STILL = 1e-5  # nats; an update that should move the probe by more must move it


class WeightProbe:
    """The architecture of a checkpoint folder without its weights, and a fixed sequence of `length` >= 2
    tokens.

    `tokens`: the sequence, (P,). `names`: every name of a parameter, second names of tied ones included ->
    the name under which `fitting` returns its tensor. `config`: the checkpoint's configuration.
    """

    def __init__(self, folder: str | Path, length: int) -> None:
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
        self.config = self._model.config
        first_names = {parameter: name for name, parameter in self._model.named_parameters()}
        self.names = {
            name: first_names[parameter] for name, parameter in self._model.named_parameters(remove_duplicate=False)
        }
        self._known = set(self._model.state_dict())
        draws = stream(0, "weight probe").integers(int(self.config.vocab_size), size=length)
        self.tokens: list[int] = draws.tolist()
        self._before: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def take_weights(self) -> dict[str, Tensor]:
        """The folder's own weights, which are not kept here any longer. To be called once."""
        weights = {name: parameter.detach() for name, parameter in self._model.named_parameters()}
        _release_parameters(self._model)
        return weights

    def fitting(self, state: Mapping[str, Any]) -> dict[str, Tensor]:
        """The model's parameters out of `state`, tied ones once.

        Raises Refusal RLC0708 for a missing, unknown or misshapen one: vLLM keeps the old tensor for a layer
        that gets nothing, and fills a layer that gets a part with whatever is in memory.
        """
        wanted = dict(self._model.named_parameters())
        wrong = [f"{name} is missing" for name in wanted if name not in state]
        wrong += [f"{name} is unknown" for name in state if name not in self._known]
        wrong += [
            f"{name} has shape {tuple(state[name].shape)} instead of {tuple(parameter.shape)}"
            for name, parameter in wanted.items()
            if name in state and state[name].shape != parameter.shape
        ]
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise Refusal("RLC0708", f"the weights do not fit the model: {', '.join(wrong[:3])}{more}")
        return {name: state[name].detach() for name in wanted}

    def check(self, tensors: Mapping[str, Tensor], seen: Sequence[float], version: int) -> None:
        """`seen`: the engine's log-probabilities of `tokens` at temperature 1, (P,), the first not looked at.

        Raises Refusal RLC0708 when they are not those of `tensors`, and when an update so small that the
        tolerance would hide it should have moved them, but did not.
        """
        expected_P, seen_P = self._logprobs(tensors), np.asarray(seen, dtype=np.float64)[1:]
        before = self._before
        error = float(np.abs(seen_P - expected_P).max())
        due = 0.0 if before is None else float(np.abs(expected_P - before[0]).max())
        trouble = f"the weights of version {version} did not reach the sampler: its log-probabilities"
        if not error <= TOLERANCE:  # so that NaN is refused too
            raise Refusal("RLC0708", f"{trouble} of the probe are off by {error:.3g} nats")
        if before is not None and due > STILL and np.array_equal(seen_P, before[1]):
            raise Refusal("RLC0708", f"{trouble} of the probe stood still where {due:.3g} nats were due")
        self._before = (expected_P, seen_P)

    @torch.no_grad()
    def _logprobs(self, tensors: Mapping[str, Tensor]) -> NDArray[np.float64]:
        weights = {name: tensor.to("cpu", torch.float32) for name, tensor in tensors.items()}
        tokens_1P = torch.tensor([self.tokens])
        output = torch.func.functional_call(self._model, weights, (tokens_1P,), {"use_cache": False})
        logprobs_PV = torch.log_softmax(output.logits[0, :-1].double(), dim=-1)
        logprobs_P: NDArray[np.float64] = logprobs_PV.gather(1, tokens_1P[0, 1:, None])[:, 0].numpy()
        return logprobs_P


def _release_parameters(model: nn.Module) -> None:
    """Replace every parameter by one without storage, tied ones by the same; buffers stay."""
    empty: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                stand_in = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)
                module._parameters[name] = empty.setdefault(parameter, stand_in)
