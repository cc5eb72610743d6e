"""Which decoder a model gets: the fastest that is made for it and gives the model's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlspec.runtime.engines.decode import Decoder
from rlspec.runtime.engines.decode_compiled import CompiledDecoder, can_compile
from rlspec.runtime.engines.decode_fused import FusedDecoder, can_fuse
from rlspec.runtime.engines.decode_transformers import TransformersDecoder
from rlspec.runtime.refusal import Refusal

TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}  # nats


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


def make_decoder(model: Any, slots: int, context: int) -> Decoder:
    """The fastest decoder that gives the model's own log-probabilities on a probe.

    Raises:
        Refusal: RLC0505, neither does (layers whose state is no plain cache of keys and values).
    """
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
