"""What the `hf` engine needs of a model: read tokens into the cache, and say what comes next.

A decoder owns a key-value cache with one slot per conversation. `read` lets several slots consume the same
number of tokens at once, each at its own position, and returns a state per slot; `head` turns states into
logits, so that rows which are only fed never pay for the vocabulary. There are three (`decode_choice` takes one):

- `decode_compiled`: small Llama, Qwen2 and Qwen3 models in float32 on a CPU; the whole loop is one numba
  function;
- `decode_fused`: these families on any device, in any precision and size, with few large torch operations;
- `decode_transformers`: any causal language model, through its own forward.

Dimensions: S slots, M rows read at once, L tokens each, V vocabulary, C context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Table:
    """What the engine knows of its conversations, one row per slot."""

    tokens_SC: NDArray[np.int64]
    uniforms_SC: NDArray[np.float64]
    logprobs_SC: NDArray[np.float64]  # nats, where sampled
    versions_SC: NDArray[np.int64]  # weight version, where sampled
    length_S: NDArray[np.int64]  # tokens known
    read_S: NDArray[np.int64]  # tokens in the cache
    turn_S: NDArray[np.int64]  # where the message being sampled begins

    @staticmethod
    def empty(slots: int, context: int) -> Table:
        square, row = (slots, context), (slots,)
        return Table(
            np.zeros(square, dtype=np.int64),
            np.zeros(square, dtype=np.float64),
            np.zeros(square, dtype=np.float64),
            np.zeros(square, dtype=np.int64),
            *(np.zeros(row, dtype=np.int64) for _ in range(3)),
        )

    def move(self, source: int, target: int) -> None:
        """Copy one slot's row over another's."""
        for name in self.__slots__:
            column = getattr(self, name)
            column[target] = column[source]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a message ends: `stops` (n,) are token ids, the other numbers are in tokens."""

    context: int
    turn: int
    stops: NDArray[np.int64]


class Decoder(Protocol):
    """See the module. All calls run under `torch.inference_mode`."""

    def read(self, slots_M: NDArray[np.int64], tokens_ML: NDArray[np.int64], start_M: NDArray[np.int64]) -> Any:
        """Slot m consumes tokens_ML[m] at positions start_M[m] ... start_M[m] + L - 1; whatever the slot
        holds from there on is overwritten. Returns the states behind the last tokens, indexable by row."""

    def head(self, states: Any) -> Tensor:
        """Logits (M, V) in float32."""

    def score(self, tokens_ML: NDArray[np.int64]) -> Any:
        """States behind every token, (M * L, ...), without touching the cache."""

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one slot over another."""

    def refresh(self) -> None:
        """The model's weights were replaced in place."""


@runtime_checkable
class LoopingDecoder(Decoder, Protocol):
    """A decoder that samples by itself, many steps per call."""

    window: int  # rows that it likes to work on at once

    def run(
        self, rows_M: NDArray[np.int64], table: Table, limits: Limits, version: int, temperature: float
    ) -> NDArray[np.int64]:
        """Step these rows until at least one message ends. Returns (M,): 0 not ended, 1 stop, 2 turn limit, 3
        context limit."""
