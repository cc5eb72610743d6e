"""A decoder for small models in float32 on a CPU: the numba loop of `decode_kernel` over weights laid out for
it.

It is preferred where a layer's weights stay in the processor's cache; larger models are faster through
`decode_fused`. A conversation's tokens and log-probabilities are the same bits in every batch.

Dimensions: as in `decode_kernel`; L tokens per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.runtime.engines import decode_kernel as kernel
from rlspec.runtime.engines.decode import Limits, Table
from rlspec.runtime.engines.decode_fused import can_fuse
from rlspec.runtime.engines.settled import settle

_WIDEST = 256  # above, a blocked matrix product of torch is the faster one
_LARGEST_VOCABULARY = 16384
_SCORED = 8  # spare slots, in which given tokens are scored


def can_compile(model: Any) -> bool:
    """Whether the model is small enough, in float32, on a CPU, and of a shape that the kernel's blocks
    divide."""
    if not can_fuse(model) or model.dtype != torch.float32 or model.device.type != "cpu":
        return False
    config = model.config
    head_width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return (
        config.hidden_size <= _WIDEST
        and config.intermediate_size <= 4 * _WIDEST
        and config.vocab_size <= _LARGEST_VOCABULARY
        and all(n % 4 == 0 for n in (config.hidden_size, config.intermediate_size, head_width))
    )


class CompiledDecoder:
    """A `LoopingDecoder`; see the module. `window` rows are worked on at once, so that their cache stays
    close."""

    window = 32

    def __init__(self, model: Any, slots: int, context: int) -> None:
        config = model.config
        self.model, self.slots = model, slots
        heads, key_heads = config.num_attention_heads, config.num_key_value_heads
        head_width = getattr(config, "head_dim", None) or config.hidden_size // heads
        normed = hasattr(model.model.layers[0].self_attn, "q_norm")
        self._sizes = (heads, key_heads, head_width, normed)
        blocks = -(-context // kernel.BLOCK)
        shape = (config.num_hidden_layers, slots + _SCORED, key_heads)
        with torch.no_grad():
            positions = torch.arange(context)[None]
            cos, sin = model.model.rotary_emb(torch.zeros(1, 1), positions)
        half = head_width // 2
        self._cache = (
            np.zeros((*shape, blocks, head_width, kernel.BLOCK), dtype=np.float32),
            np.zeros((*shape, blocks * kernel.BLOCK, head_width), dtype=np.float32),
            cos[0, :, :half].numpy().copy(),
            sin[0, :, :half].numpy().copy(),
        )
        rows = -(-max(slots, _SCORED) // kernel.ROWS) * kernel.ROWS
        projected = (heads + 2 * key_heads) * head_width
        widths = (config.hidden_size, config.hidden_size, projected, heads * head_width, 2 * config.intermediate_size)
        self._room = (
            *(np.zeros((rows, w), dtype=np.float32) for w in widths),
            np.zeros((2, blocks * kernel.BLOCK), np.float32),
        )
        self._gathered = np.zeros((rows, config.hidden_size), dtype=np.float32)
        self._logits = np.zeros((rows, config.vocab_size), dtype=np.float32)
        self.refresh()

    def refresh(self) -> None:
        body = self.model.model
        attentions, mlps = [b.self_attn for b in body.layers], [b.mlp for b in body.layers]

        def stack(parts: list[Tensor]) -> NDArray[np.float32]:
            return torch.stack([part.detach() for part in parts]).contiguous().numpy().copy()

        def products(*groups: list[Any]) -> NDArray[np.float32]:
            return stack([torch.cat([linear.weight.t() for linear in layer], 1) for layer in zip(*groups, strict=True)])

        def biases(*groups: list[Any]) -> NDArray[np.float32]:
            return stack(
                [
                    torch.cat([x.weight.new_zeros(x.weight.shape[0]) if x.bias is None else x.bias for x in layer])
                    for layer in zip(*groups, strict=True)
                ]
            )

        queries, keys, values, outs = (
            [getattr(a, name) for a in attentions] for name in ("q_proj", "k_proj", "v_proj", "o_proj")
        )
        gates, ups, downs = ([getattr(m, name) for m in mlps] for name in ("gate_proj", "up_proj", "down_proj"))
        width = self._sizes[2]
        if self._sizes[3]:
            norms = stack([torch.stack([a.q_norm.weight, a.k_norm.weight]) for a in attentions])
        else:
            norms = np.ones((len(attentions), 2, width), dtype=np.float32)
        self._weights = (
            body.embed_tokens.weight.detach().numpy().copy(),
            stack([b.input_layernorm.weight for b in body.layers]),
            products(queries, keys, values),
            biases(queries, keys, values),
            norms,
            products(outs),
            biases(outs),
            stack([b.post_attention_layernorm.weight for b in body.layers]),
            products(gates, ups),
            products(downs),
            body.norm.weight.detach().numpy().copy(),
            self.model.lm_head.weight.detach().t().contiguous().numpy().copy(),
            np.float32(self.model.config.rms_norm_eps),
        )

    def run(
        self, rows_M: NDArray[np.int64], table: Table, limits: Limits, version: int, temperature: float
    ) -> NDArray[np.int64]:
        count = len(rows_M)
        ended_M = np.zeros(count, dtype=np.int64)
        consumed, positions, sampling = (np.zeros(count, dtype=np.int64) for _ in range(3))
        arguments = (
            rows_M,
            (
                table.tokens_SC,
                table.uniforms_SC,
                table.logprobs_SC,
                table.versions_SC,
                table.length_S,
                table.read_S,
                table.turn_S,
            ),
            (limits.context, limits.turn, version, np.float32(1 / temperature)),
            limits.stops,
            self._weights,
            self._cache,
            self._sizes,
            self._room,
            (consumed, positions, ended_M, sampling, self._gathered, self._logits),
        )
        settle(kernel.run, *arguments)
        kernel.run(*arguments)
        return ended_M

    def read(self, slots_M: NDArray[np.int64], tokens_ML: NDArray[np.int64], start_M: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._states(slots_M, tokens_ML, start_M)[:, -1])

    def score(self, tokens_ML: NDArray[np.int64]) -> Tensor:
        parts = []
        for first in range(0, len(tokens_ML), _SCORED):
            part = tokens_ML[first : first + _SCORED]
            spare = self.slots + np.arange(len(part))
            parts.append(self._states(spare, part, np.zeros(len(part), dtype=np.int64)))
        return torch.from_numpy(np.concatenate(parts)).flatten(0, 1)

    def _states(
        self, slots_M: NDArray[np.int64], tokens_ML: NDArray[np.int64], start_M: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """(M, L, D) states behind every token."""
        rows, length = tokens_ML.shape
        states_MLD = np.empty((rows, length, self._room[1].shape[1]), dtype=np.float32)
        for n in range(length):
            tokens = np.ascontiguousarray(tokens_ML[:, n])
            arguments = (tokens, slots_M, start_M + n, rows, self._weights, self._cache, self._sizes, self._room)
            settle(kernel.forward, *arguments)
            kernel.forward(*arguments)
            states_MLD[:, n] = self._room[1][:rows]
        return states_MLD

    def head(self, states: Tensor) -> Tensor:
        return states @ torch.from_numpy(self._weights[11])

    def move(self, source: int, target: int, length: int) -> None:
        keys, values = self._cache[:2]
        blocks = -(-length // kernel.BLOCK)
        keys[:, target, :, :blocks] = keys[:, source, :, :blocks]
        values[:, target, :, :length] = values[:, source, :, :length]
