"""What an engine is: tokens in; tokens, their log-probabilities and the weight version that sampled them out.

A conversation is opened once and then alternates: the caller feeds the tokens that the agent has not seen yet (prompt,
user, tool results), the engine samples the agent's next message and reports it. The engine keeps whatever it needs
(a KV cache slot, a token list) under the caller's key, so nothing is prefilled twice and no text is encoded twice.
Many conversations are in flight at once; `poll` advances them all and returns those messages that are finished.

    engine.load_weights(state_dict, version=0)
    engine.open("t3/r1", uniforms)                       # uniforms: one float64 in [0, 1) per position of the context
    engine.feed("t3/r1", prompt_tokens)
    for message in engine.poll(): ...                    # Sampled(key, tokens, logprobs, versions, finish)
    engine.feed("t3/r1", tool_result_tokens)
    engine.close("t3/r1")

Sampling is at a declared temperature, without top-p, top-k or penalties, so that the log-probabilities (in nats, of the
distribution that was sampled from, at that temperature) are those that the trainer recomputes. Weights may be replaced
between calls of `poll`, also while messages are half sampled: every token knows its version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Finish = Literal["stop", "turn_limit", "context_limit"]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One finished agent message of K tokens, the stop token included when `finish` is "stop".

    `turn_limit`: `max_new_tokens` were sampled without a stop token; `context_limit`: the context is full.
    """

    key: str
    tokens: list[int]  # (K,)
    logprobs: list[float]  # (K,) nats
    versions: list[int]  # (K,) weight version of each token
    finish: Finish


class Engine(Protocol):
    """See the module. Keys are the caller's; using an unknown or open key wrongly raises KeyError."""

    @property
    def version(self) -> int:
        """Version of the weights in use, -1 before the first `load_weights`."""

    @property
    def capacity(self) -> int:
        """How many conversations may be open at once."""

    def configure(self, temperature: float, max_new_tokens: int) -> None:
        """Sampling settings of the messages that are asked for from now on."""

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Replace all weights (Hugging Face parameter names -> torch tensors); cached state of older weights that
        would make later log-probabilities wrong is dropped or recomputed."""

    def open(self, key: str, uniforms: NDArray[np.float64] | None, seed: int = 0) -> None:
        """Start a conversation. Its token at position p (0-based in the context) is drawn with `uniforms[p]` by
        inverse distribution function where the engine can (hf); engines with their own sampler use `seed`."""

    def feed(self, key: str, tokens: Sequence[int]) -> None:
        """Append tokens that the agent sees, and ask for its next message."""

    def poll(self) -> list[Sampled]:
        """Advance all conversations that await a message until at least one is finished; [] when none awaits."""

    def close(self, key: str) -> None:
        """Forget a conversation (also one that awaits a message)."""

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of given tokens (each given its prefix; the first is NaN) under the weights in use: the
        probe by which a weight update is checked."""
