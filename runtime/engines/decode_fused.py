"""Fused decoding for models that are built like Llama: few, large operations per token instead of many small
ones.

The weights are read from the modules directly: queries, keys and values are one matrix product, gate and up
another; queries of one key head are attended as a block, so grouped-query attention never copies the cache.
The modules' own weights become views of the fused matrices, so there is one copy in memory and loading new
weights needs no fusing.

Dimensions: S slots, M rows, L tokens each, N = M * L, D width, H query heads, K key heads, G = H / K, A head
width, F feed-forward width, V vocabulary, C context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def can_fuse(model: Any) -> bool:
    """Whether the modules are those that this file reads; `make_decoder` then compares numbers as well."""
    config = model.config
    windows = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILIES
        and config.hidden_act == "silu"
        and not windows
        and not getattr(config, "mlp_bias", False)
        and rope.get("rope_type", "default") in ("default", "linear", "llama3", "yarn")
    )


@dataclass(slots=True)
class _Layer:
    before: Tensor  # (D,) weight of the norm before attention
    qkv: Tensor  # ((H + 2K) A, D)
    qkv_bias: Tensor | None
    query_norm: Tensor | None  # (A,)
    key_norm: Tensor | None
    out: Tensor  # (H A, D): transposed, for addmm
    out_bias: Tensor | None
    between: Tensor  # (D,)
    gate_up: Tensor  # (2F, D)
    down: Tensor  # (F, D): transposed


def _fuse(*linears: Any) -> tuple[Tensor, Tensor | None]:
    """One weight (and bias) for several linear modules, whose own weights become views of it."""
    fused = torch.cat([linear.weight.data for linear in linears])
    bias = torch.cat([linear.bias.data for linear in linears]) if linears[0].bias is not None else None
    at = 0
    for linear in linears:
        size = linear.weight.shape[0]
        linear.weight.data = fused[at : at + size]
        if bias is not None:
            linear.bias.data = bias[at : at + size]
        at += size
    return fused, bias


class FusedDecoder:
    """A `Decoder` for Llama, Mistral without a window, Qwen2 and Qwen3. The model's weights must be replaced
    in place (`load_state_dict` does)."""

    def __init__(self, model: Any, slots: int, context: int) -> None:
        config = model.config
        self.model = model
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.head_width: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        device, dtype = model.device, model.dtype
        with torch.inference_mode(False), torch.no_grad():
            self._read_weights()
            self._rotations(context)
            shape = (config.num_hidden_layers, 2, slots, self.key_heads, context, self.head_width)
            self.cache = torch.zeros(shape, device=device, dtype=dtype)

    def _rotations(self, length: int) -> None:
        """Tables of rotary positions for this many positions."""
        positions = torch.arange(length, device=self.model.device)[None]
        like = torch.zeros(1, 1, device=self.model.device, dtype=self.model.dtype)
        cos, sin = self.model.model.rotary_emb(like, positions)
        half = self.head_width // 2
        # rotate_half(x) is x with its halves swapped, the first one negated: the sign is kept in the sines
        self.cos_CA: Tensor = cos[0]
        self.sin_CA: Tensor = torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)

    def _read_weights(self) -> None:
        body = self.model.model
        self.layers: list[_Layer] = []
        for block in body.layers:
            attention, mlp = block.self_attn, block.mlp
            qkv, qkv_bias = _fuse(attention.q_proj, attention.k_proj, attention.v_proj)
            gate_up, _ = _fuse(mlp.gate_proj, mlp.up_proj)
            query_norm, key_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
            out_bias = attention.o_proj.bias
            self.layers.append(
                _Layer(
                    before=block.input_layernorm.weight.data,
                    qkv=qkv,
                    qkv_bias=qkv_bias,
                    query_norm=None if query_norm is None else query_norm.weight.data,
                    key_norm=None if key_norm is None else key_norm.weight.data,
                    out=attention.o_proj.weight.data.t(),
                    out_bias=None if out_bias is None else out_bias.data,
                    between=block.post_attention_layernorm.weight.data,
                    gate_up=gate_up,
                    down=mlp.down_proj.weight.data.t(),
                )
            )
        self.embedding = body.embed_tokens.weight.data
        self.norm = body.norm.weight.data
        self.head_VD = self.model.lm_head.weight.data

    def refresh(self) -> None:
        """Nothing is copied, so nothing is stale."""

    def move(self, source: int, target: int, length: int) -> None:
        self.cache[:, :, target, :, :length] = self.cache[:, :, source, :, :length]

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.head_VD).float()

    def read(self, slots_M: NDArray[np.int64], tokens_ML: NDArray[np.int64], start_M: NDArray[np.int64]) -> Tensor:
        rows, length = tokens_ML.shape
        device = self.embedding.device
        stop = int(start_M.max()) + length
        aligned = bool((start_M == start_M[0]).all())
        first, last = int(slots_M[0]), int(slots_M[-1])
        dense = last - first + 1 == rows and bool((np.diff(slots_M) == 1).all())
        if aligned:
            start = int(start_M[0])
            cos_sin = self.cos_CA[start:stop], self.sin_CA[start:stop]
            if rows > 1 and length > 1:
                cos_sin = cos_sin[0].repeat(rows, 1), cos_sin[1].repeat(rows, 1)
        else:
            at_N = torch.as_tensor((start_M[:, None] + np.arange(length)).reshape(-1), device=device)
            cos_sin = self.cos_CA[at_N], self.sin_CA[at_N]
        mask = None
        if not aligned or length > 1:
            keys = np.arange(stop)
            seen = keys <= (start_M[:, None] + np.arange(length))[:, :, None]  # (M, L, stop)
            seen = np.repeat(seen[:, None, None], self.heads // self.key_heads, axis=2)
            mask = torch.as_tensor(seen.reshape(rows, 1, -1, stop), device=device)  # (M, 1, G L, stop)
        slots = slice(first, last + 1) if dense else torch.as_tensor(slots_M, device=device)
        at_ML = None
        if not aligned:
            at_ML = torch.as_tensor(start_M[:, None] + np.arange(length), device=device)
            slot_M1 = torch.as_tensor(slots_M, device=device)[:, None]
        heads, key_heads, width = self.heads, self.key_heads, self.head_width

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache = self.cache[layer]
            k, v = k.view(rows, length, key_heads, width), v.reshape(rows, length, key_heads, width)
            if at_ML is None:
                cache[0, slots, :, start:stop] = k.transpose(1, 2)
                cache[1, slots, :, start:stop] = v.transpose(1, 2)
            else:
                cache[0].transpose(1, 2)[slot_M1, at_ML] = k
                cache[1].transpose(1, 2)[slot_M1, at_ML] = v
            keys, values = cache[0, slots, :, :stop], cache[1, slots, :, :stop]
            grouped = q.view(rows, length, key_heads, -1, width).permute(0, 2, 3, 1, 4)
            grouped = grouped.reshape(rows, key_heads, -1, width)  # (M, K, G L, A)
            out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
            out = out.view(rows, key_heads, -1, length, width).permute(0, 3, 1, 2, 4)
            return out.reshape(rows * length, heads * width)

        tokens = torch.as_tensor(tokens_ML.reshape(-1), device=device)
        states = self._layers(tokens, cos_sin, attend)
        return states if length == 1 else states.view(rows, length, -1)[:, -1]

    def score(self, tokens_ML: NDArray[np.int64]) -> Tensor:
        rows, length = tokens_ML.shape
        if length > self.cos_CA.shape[0]:
            self._rotations(length)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (x.reshape(rows, length, -1, self.head_width).transpose(1, 2) for x in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return out.transpose(1, 2).reshape(rows * length, -1)

        tokens = torch.as_tensor(tokens_ML.reshape(-1), device=self.embedding.device)
        cos_sin = self.cos_CA[:length].repeat(rows, 1), self.sin_CA[:length].repeat(rows, 1)
        return self._layers(tokens, cos_sin, attend)

    def _layers(
        self,
        tokens_N: Tensor,
        cos_sin_NA: tuple[Tensor, Tensor],
        attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
    ) -> Tensor:
        """States (N, D) after the last norm. `attend` gets rotated q (N, H, A) and k (N, K, A), and v (N, K
        A)."""
        heads, key_heads, width = self.heads, self.key_heads, self.head_width
        cos, sin = cos_sin_NA[0][:, None], cos_sin_NA[1][:, None]
        x = F.embedding(tokens_N, self.embedding)
        size = (x.shape[-1],)
        for number, layer in enumerate(self.layers):
            qkv = F.linear(F.rms_norm(x, size, layer.before, self.eps), layer.qkv, layer.qkv_bias)
            qk = qkv[:, : (heads + key_heads) * width].view(-1, heads + key_heads, width)
            if layer.query_norm is not None and layer.key_norm is not None:
                q = F.rms_norm(qk[:, :heads], (width,), layer.query_norm, self.eps)
                k = F.rms_norm(qk[:, heads:], (width,), layer.key_norm, self.eps)
                qk = torch.cat([q, k], 1)
            swapped = qk.unflatten(-1, (2, width // 2)).flip(-2).flatten(-2)
            qk = torch.addcmul(qk * cos, swapped, sin)
            out = attend(number, qk[:, :heads], qk[:, heads:], qkv[:, (heads + key_heads) * width :])
            x = torch.addmm(x, out, layer.out)
            if layer.out_bias is not None:
                x = x + layer.out_bias
            gate, up = F.linear(F.rms_norm(x, size, layer.between, self.eps), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, F.silu(gate) * up, layer.down)
        return F.rms_norm(x, size, self.norm, self.eps)
