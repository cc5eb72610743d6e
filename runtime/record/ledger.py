"""The token ledger: what was said in one trajectory, as the tokens that were really seen and sampled.

Append-only. Text is never encoded twice: the agent's tokens are those that the engine sampled, with the
log-probabilities and the weight version that it reported; everything else (system, user, tool results, and the
template's scaffolding around messages) is appended once, when it is first shown. The loss mask, the turns and every
reward level are views of this record, so they cannot disagree with it.

    ledger = Ledger()
    ledger.append("system", tokens=[1, 2, 3])
    ledger.append("user", tokens=[4, 5])
    ledger.append("agent", tokens=[6, 7], logprobs=[-0.1, -0.7], version=3)   # opens turn 0
    ledger.mask()          # [0, 0, 0, 0, 0, 1, 1]

Token counts are in tokens, log-probabilities in nats at the sampling temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["system", "user", "agent", "tool", "attempt"]
KINDS: tuple[Kind, ...] = ("system", "user", "agent", "tool", "attempt")


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, stop) of one origin; `attempt` is what the agent said in an earlier attempt, which it is shown.
    `turn` is the agent's turn that they belong to, -1 before the first; `version` is the weight version that sampled
    them, -1 when nobody did."""

    kind: Kind
    start: int
    stop: int
    turn: int
    version: int = -1


@dataclass(slots=True)
class Ledger:
    """One trajectory's tokens. Only `append` changes it."""

    _tokens: list[int] = field(default_factory=list)
    _logprobs: list[float] = field(default_factory=list)
    _spans: list[Span] = field(default_factory=list)
    _turns: int = 0

    def append(
        self, kind: Kind, tokens: Sequence[int], logprobs: Sequence[float] | None = None, version: int = -1
    ) -> None:
        """Add a span. Agent spans open a new turn and need one log-probability per token; others take none.

        Raises:
            ValueError: log-probabilities missing, superfluous, or of another length than the tokens.
        """
        if kind not in KINDS:
            raise ValueError(f"unknown kind of span: {kind!r}")
        if (kind == "agent") != (logprobs is not None):
            raise ValueError("exactly the agent's tokens carry log-probabilities")
        if logprobs is not None and len(logprobs) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens but {len(logprobs)} log-probabilities")
        if kind == "agent":
            self._turns += 1
        start = len(self._tokens)
        self._tokens.extend(int(t) for t in tokens)
        self._logprobs.extend(logprobs if logprobs is not None else [float("nan")] * len(tokens))
        self._spans.append(Span(kind, start, len(self._tokens), self._turns - 1, version))

    def __len__(self) -> int:
        return len(self._tokens)

    def __reduce__(self) -> tuple[Any, tuple[bytes, bytes, list[tuple[Any, ...]], int]]:
        """Ledgers cross processes as two arrays, not as thousands of numbers."""
        spans = [(s.kind, s.start, s.stop, s.turn, s.version) for s in self._spans]
        return _restored, (
            np.asarray(self._tokens, dtype=np.int64).tobytes(),
            np.asarray(self._logprobs, dtype=np.float64).tobytes(),
            spans,
            self._turns,
        )

    @property
    def turns(self) -> int:
        """Number of agent turns so far."""
        return self._turns

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(self._spans)

    def tokens(self) -> NDArray[np.int32]:
        """All token ids, shape (T,)."""
        return np.asarray(self._tokens, dtype=np.int32)

    def logprobs(self) -> NDArray[np.float32]:
        """The sampler's log-probabilities, shape (T,), NaN where nothing was sampled."""
        return np.asarray(self._logprobs, dtype=np.float32)

    def mask(self) -> NDArray[np.bool_]:
        """True exactly on the agent's tokens, shape (T,)."""
        mask = np.zeros(len(self._tokens), dtype=np.bool_)
        for span in self._spans:
            if span.kind == "agent":
                mask[span.start : span.stop] = True
        return mask

    def turn_slices(self) -> list[slice]:
        """The agent's tokens of each turn, in order."""
        return [slice(s.start, s.stop) for s in self._spans if s.kind == "agent"]


def _restored(tokens: bytes, logprobs: bytes, spans: list[tuple[Any, ...]], turns: int) -> Ledger:
    return Ledger(
        np.frombuffer(tokens, dtype=np.int64).tolist(),
        np.frombuffer(logprobs, dtype=np.float64).tolist(),
        [Span(*span) for span in spans],
        turns,
    )
