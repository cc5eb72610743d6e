"""What the `hf` engine needs of a model: read tokens into the cache, and say what comes next.

A decoder owns a key-value cache with one slot per conversation. `read` lets several slots consume the same
number of tokens at once, each at its own position, and returns a state per slot; `head` turns states into
logits, so that rows which are only fed never pay for the vocabulary. There are three:

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
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.runtime.refusal import Refusal


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


def agrees(decoder: Decoder, model: Any, slots: int, context: int) -> float:
    """The largest difference, see `_gap`, between a decoder's and the model's own log-probabilities on a probe: a block
    and then single tokens, in two slots at different positions. The slots are left with the probe in them."""
    rng = np.random.default_rng(0)
    length = min(9, context)
    rows = min(2, slots)
    tokens_ML = rng.integers(0, model.config.vocab_size, size=(rows, length))
    with torch.inference_mode():
        ids = torch.as_tensor(tokens_ML, device=model.device)
        want = torch.log_softmax(model(input_ids=ids, use_cache=False).logits.float(), -1)
        worst = 0.0
        done = np.zeros(rows, dtype=np.int64)
        for row in range(rows):  # blocks of different lengths, so that the rows stand at different positions
            take = min(4 + row, length)
            state = decoder.read(np.array([row]), tokens_ML[row : row + 1, :take], np.array([0]))
            got = torch.log_softmax(decoder.head(state), -1)
            worst = max(worst, _gap(got[0], want[row, take - 1]))
            done[row] = take
        while (alive := np.flatnonzero(done < length)).size:
            state = decoder.read(alive, tokens_ML[alive, done[alive]][:, None], done[alive])
            got = torch.log_softmax(decoder.head(state), -1)
            at = torch.as_tensor(done[alive], device=want.device)
            rows_t = torch.as_tensor(alive, device=want.device)
            worst = max(worst, _gap(got, want[rows_t, at]))
            done[alive] += 1
    return worst


def _gap(got: Tensor, want: Tensor) -> float:
    """Largest difference in nats; of log-probabilities below -1, relative to them."""
    return float(((got - want).abs() / want.abs().clamp(min=1)).max())


TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}


def make_decoder(model: Any, slots: int, context: int) -> Decoder:
    """The fastest decoder that gives the model's own log-probabilities on a probe.

    Raises:
        Refusal: RLC0505, neither does (layers whose state is no plain cache of keys and values).
    """
    from rlspec.runtime.engines.decode_compiled import CompiledDecoder, can_compile
    from rlspec.runtime.engines.decode_fused import FusedDecoder, can_fuse
    from rlspec.runtime.engines.decode_transformers import TransformersDecoder

    tolerance = TOLERANCE.get(model.dtype, 0.3)
    candidates: list[type] = [TransformersDecoder]
    if can_fuse(model):
        candidates.insert(0, FusedDecoder)
    if can_compile(model):
        candidates.insert(0, CompiledDecoder)
    why = ""
    for candidate in candidates:
        try:
            decoder: Decoder = candidate(model, slots, context)
            difference = agrees(decoder, model, slots, context)
        except Exception as error:  # a foreign model's forward raises what it likes; the reason is passed on
            if candidate is not TransformersDecoder:
                raise
            raise _refuse(model, f"its forward fails on such a cache: {error}") from error
        if difference <= tolerance:
            return decoder
        why = f"its log-probabilities differ from the model's own by {difference:.2g} nats"
    raise _refuse(model, why)


def _refuse(model: Any, why: str) -> Refusal:
    reason = f"the hf engine cannot decode a {model.config.model_type} model step by step: {why}"
    return Refusal("RLC0505", reason, "use engine = vllm")
