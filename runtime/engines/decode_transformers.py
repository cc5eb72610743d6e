"""Decoding through a model's own forward, for every causal language model whose state is keys and values.

The model sees an ordinary transformers cache; behind it lies one tensor per layer with a slot per
conversation, so rows at different positions go through one forward and nothing is padded, moved or read
twice.

Dimensions: S slots, M rows, L tokens each, K key heads, A head width, C context, T the longest row so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class _SlotLayer(DynamicLayer):
    """One layer's cache: writes what the model computes at the rows' positions, returns the rows' first T
    positions."""

    def __init__(self, owner: TransformersDecoder) -> None:
        super().__init__()
        self.owner = owner
        self.store: tuple[Tensor, Tensor] | None = None  # keys, values: (S, C, K, A)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self.store is None:
            self.store = tuple(  # type: ignore[assignment]
                torch.zeros(
                    self.owner.slots,
                    self.owner.context,
                    x.shape[1],
                    x.shape[3],
                    dtype=x.dtype,
                    device=x.device,
                )
                for x in (key_states, value_states)
            )
        assert self.store is not None
        slots_M1, at_ML, stop = self.owner.slots_M1, self.owner.at_ML, self.owner.stop
        result = []
        for store, new in zip(self.store, (key_states, value_states), strict=True):
            store[slots_M1, at_ML] = new.transpose(1, 2)
            result.append(store[slots_M1[:, 0], :stop].transpose(1, 2))
        return result[0], result[1]

    def get_seq_length(self) -> int:
        return self.owner.stop - self.owner.at_ML.shape[1]


class TransformersDecoder:
    """A `Decoder` over any `AutoModelForCausalLM`. States are logits already."""

    def __init__(self, model: Any, slots: int, context: int) -> None:
        self.model, self.slots, self.context = model, slots, context
        layers = model.config.get_text_config().num_hidden_layers
        self.cache = Cache(layers=[_SlotLayer(self) for _ in range(layers)])
        self.slots_M1 = self.at_ML = torch.zeros(1, 1, dtype=torch.int64)
        self.stop = 0

    def read(self, slots_M: NDArray[np.int64], tokens_ML: NDArray[np.int64], start_M: NDArray[np.int64]) -> Tensor:
        rows, length = tokens_ML.shape
        device = self.model.device
        at = start_M[:, None] + np.arange(length)
        self.stop = int(at.max()) + 1
        self.at_ML = torch.as_tensor(at, device=device)
        self.slots_M1 = torch.as_tensor(slots_M, device=device)[:, None]
        unseen = torch.as_tensor(np.arange(self.stop) > at[:, :, None], device=device)
        mask = torch.zeros(rows, 1, length, self.stop, dtype=self.model.dtype, device=device)
        mask.masked_fill_(unseen[:, None], torch.finfo(mask.dtype).min)
        output = self.model(
            input_ids=torch.as_tensor(tokens_ML, device=device),
            attention_mask=mask,
            position_ids=self.at_ML,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]

    def head(self, states: Tensor) -> Tensor:
        return states.float()

    def score(self, tokens_ML: NDArray[np.int64]) -> Tensor:
        ids = torch.as_tensor(tokens_ML, device=self.model.device)
        return self.model(input_ids=ids, use_cache=False).logits.flatten(0, 1)

    def move(self, source: int, target: int, length: int) -> None:
        for layer in self.cache.layers:
            for store in layer.store or ():
                store[target, :length] = store[source, :length]

    def refresh(self) -> None:
        """The model is its own weights."""
