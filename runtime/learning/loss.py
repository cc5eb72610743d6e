"""Losses over agent tokens: clipped policy gradient with an optional KL term, and likelihood.

A loss is a sum over tokens of weight times term. The weights hold the denominators, which are counted over
*all* rows of an update, on all ranks, before its first micro-batch; so neither the micro-batch split nor
the number of ranks can change a gradient, and leaving out a row without advantage changes nothing.

    objective = Clipped.of(stage)
    denominators = Denominators.of(rows_of_the_whole_update)
    weights_L = token_weights(objective.aggregation, denominators, batch.lengths_L)
    loss, sums = objective.loss(logprobs_L, entropy_L, batch, weights_L)

    L agent tokens of a micro-batch; all log-probabilities in nats
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.runtime.learning.rows import Collated, Row

if TYPE_CHECKING:
    from rlspec.compiler.catalog.stages import Grpo

Aggregation = Literal["token", "sequence", "trajectory"]
Estimator = Literal["k1", "k2", "k3"]

# |log ratio| beyond which the ratio stays put: a float32 infinity times an advantage of 0 is not a number.
_FINITE = 20.0


@dataclass(frozen=True, slots=True)
class Denominators:
    """What one update consists of: `tokens` agent tokens in `trajectories` trajectories."""

    tokens: int
    trajectories: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Denominators:
        """Count over all rows of an update, dead ones and those of other ranks included."""
        learned = [row.learned for row in rows]
        return cls(sum(learned), len(learned))


def token_weights(
    aggregation: Aggregation, denominators: Denominators, lengths_L: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Weight of each agent token in the loss, (L,).

    `token`: 1 / all agent tokens. `sequence`: 1 / (trajectories * agent tokens of its own trajectory), the
    mean over trajectories of their mean. `trajectory`: 1 / trajectories, the mean over trajectories of
    their sum, which is the policy gradient without a length bias (Liu et al. 2025, "Understanding
    R1-Zero-like training", section 3.1)."""
    match aggregation:
        case "token":
            return np.full(len(lengths_L), 1.0 / max(denominators.tokens, 1))
        case "sequence":
            return 1.0 / (denominators.trajectories * lengths_L.astype(np.float64))
        case "trajectory":
            return np.full(len(lengths_L), 1.0 / max(denominators.trajectories, 1))


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: Estimator) -> Tensor:
    """KL(policy || reference) at each sampled token, same shape. Not negative for k2 and k3.

    Source: J. Schulman, "Approximating KL divergence", 2020, with r = reference - policy.
    """
    log_ratio = reference - logprobs
    match estimator:
        case "k1":
            return -log_ratio
        case "k2":
            return log_ratio.square() / 2
        case "k3":
            return torch.expm1(log_ratio) - log_ratio


def kl_of_trajectory(row: Row, estimator: Estimator) -> float:
    """Sum over a trajectory's agent tokens of the estimate between sampler and reference, float64: what,
    times the coefficient, is taken from its reward when the KL's place is the reward.

    Raises:
        ValueError: the row has no reference log-probabilities.
    """
    if row.reference_T is None:
        raise ValueError("the row has no reference log-probabilities")
    sampled_L = torch.from_numpy(row.logprobs_T[row.mask_T].astype(np.float64))
    reference_L = torch.from_numpy(row.reference_T[row.mask_T].astype(np.float64))
    return float(kl_estimate(sampled_L, reference_L, estimator).sum())


class Objective(Protocol):
    """What a learner minimises. `temperature` is the one at which log-probabilities are taken."""

    @property
    def aggregation(self) -> Aggregation: ...

    @property
    def temperature(self) -> float: ...

    @property
    def wants_entropy(self) -> bool: ...

    def loss(
        self, logprobs_L: Tensor, entropy_L: Tensor, batch: Collated, weights_L: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum over the batch's tokens, and sums for the metrics (see `merge`)."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Imitation: minus the log-probability, times the row's advantage (1 for a demonstration)."""

    aggregation: Aggregation = "token"
    temperature: float = 1.0
    wants_entropy: bool = False

    def loss(
        self, logprobs_L: Tensor, entropy_L: Tensor, batch: Collated, weights_L: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        advantages_L = torch.from_numpy(batch.advantages_L).to(logprobs_L)
        loss = -(weights_L * advantages_L * logprobs_L).sum()
        return loss, {"loss": loss.detach(), "nll": -logprobs_L.detach().sum(), "tokens": token_count(logprobs_L)}


@dataclass(frozen=True, slots=True)
class Clipped:
    """-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A) + coefficient * KL per token, with ratio = policy
    / sampler (Schulman et al. 2017, equation 7). With `dual_clip` = c > 0 the loss of a negative advantage
    is at most c * |A| (Ye et al. 2020, "Mastering complex control in MOBA games", equation 5)."""

    clip_low: float
    clip_high: float
    dual_clip: float = 0.0
    kl_coefficient: float = 0.0
    kl_estimator: Estimator = "k3"
    aggregation: Aggregation = "token"
    temperature: float = 1.0
    wants_entropy: bool = True

    @classmethod
    def of(cls, stage: Grpo) -> Clipped:
        """The loss that a stage declares. A KL that is placed in the reward is no part of it."""
        return cls(
            clip_low=stage.clip_low,
            clip_high=stage.clip_high,
            dual_clip=stage.dual_clip,
            kl_coefficient=stage.kl.coefficient if stage.kl.place == "loss" else 0.0,
            kl_estimator=stage.kl.estimator,
            aggregation=stage.aggregation,
            temperature=stage.temperature,
        )

    def loss(
        self, logprobs_L: Tensor, entropy_L: Tensor, batch: Collated, weights_L: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        advantages_L = torch.from_numpy(batch.advantages_L).to(logprobs_L)
        log_ratio_L = logprobs_L - torch.from_numpy(batch.logprobs_L).to(logprobs_L)
        ratio_L = log_ratio_L.clamp(-_FINITE, _FINITE).exp()
        clipped_L = ratio_L.clamp(1 - self.clip_low, 1 + self.clip_high)
        term_L = torch.maximum(-ratio_L * advantages_L, -clipped_L * advantages_L)
        negative_L = advantages_L < 0
        if self.dual_clip > 0:
            term_L = torch.where(negative_L, torch.minimum(term_L, -self.dual_clip * advantages_L), term_L)
        loss = (weights_L * term_L).sum()
        with torch.no_grad():
            live_L = advantages_L != 0
            sums = {
                "policy_loss": loss.detach(),
                "tokens": token_count(logprobs_L),
                "entropy": entropy_L.sum(),
                "clipped_low": (negative_L & (ratio_L < 1 - self.clip_low)).sum(),
                "clipped_high": (live_L & ~negative_L & (ratio_L > 1 + self.clip_high)).sum(),
                "ratio": ratio_L.sum(),
                "sampler_kl": kl_estimate(-log_ratio_L, torch.zeros_like(log_ratio_L), "k3").sum(),
                "max_logprob_gap": log_ratio_L.abs().max(),
            }
        if self.kl_coefficient > 0:
            if batch.reference_L is None:
                raise ValueError("KL in the loss needs reference log-probabilities on every row")
            kl_L = kl_estimate(logprobs_L, torch.from_numpy(batch.reference_L).to(logprobs_L), self.kl_estimator)
            loss = loss + self.kl_coefficient * (weights_L * kl_L).sum()
            sums["reference_kl"] = kl_L.detach().sum()
        return loss, {"loss": loss.detach(), **sums}


def token_count(values_L: Tensor) -> Tensor:
    """How many tokens there are, as a sum for the metrics."""
    return torch.tensor(float(len(values_L)), dtype=torch.float64)


Sums = dict[str, float]
"""Sums over tokens, except `loss` and `policy_loss` (already weighted) and names that begin with `max_`."""

_WEIGHTED = ("loss", "policy_loss", "tokens")


def merge(sums: Sequence[Mapping[str, float]]) -> Sums:
    """Sums of several micro-batches, ranks or updates as one, in the order given."""
    merged: Sums = {}
    for some in sums:
        for name, value in some.items():
            if name.startswith("max_"):
                merged[name] = max(merged.get(name, value), value)
            else:
                merged[name] = merged.get(name, 0.0) + value
    return merged


def per_token(sums: Mapping[str, float]) -> Sums:
    """Metrics from sums: means over agent tokens, `loss` and `policy_loss` as they are, maxima as they
    are."""
    tokens = max(sums.get("tokens", 0.0), 1.0)
    return {
        name: value if name in _WEIGHTED or name.startswith("max_") else value / tokens for name, value in sums.items()
    }
