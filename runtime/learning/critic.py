"""The critic of `stage ppo`: a copy of the policy whose head gives one number, the return that it expects.

It is a learner of its own with the policy's machinery (global denominators, micro-batches, exchanged gradients, state).
The value of a token is read where its log-probability is, at the position before it: what is expected before the token
is said. A row to learn from holds the returns as `advantages_T` and the values as measured as `logprobs_T`.

    L agent tokens of a micro-batch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.compiler.catalog.critic import Ppo
from rlspec.runtime.learning.learner import Learner, Optimisation, wide
from rlspec.runtime.learning.loss import Aggregation, token_count
from rlspec.runtime.learning.rows import Collated, Row, collate, micro_batches
from rlspec.runtime.record.ledger import Ledger


class ValueNetwork(torch.nn.Module):
    """A causal language model's trunk and a linear head with one output, zero at first."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.trunk = model.base_model
        width = model.get_output_embeddings().in_features
        self.value = torch.nn.Linear(width, 1, dtype=next(model.parameters()).dtype)
        torch.nn.init.zeros_(self.value.weight)
        torch.nn.init.zeros_(self.value.bias)

    def forward(self, tokens_BT: Tensor, rows_L: Tensor, positions_L: Tensor) -> Tensor:
        """Values before the tokens at (row, position), (L,); at least float32."""
        hidden_BTD = self.trunk(input_ids=tokens_BT, use_cache=False).last_hidden_state
        values_L = self.value(hidden_BTD[rows_L, positions_L - 1])[:, 0]
        return values_L if values_L.dtype == torch.float64 else values_L.float()


class CriticLearner(Learner):
    """See the module. `model` is a policy that nobody else uses; its vocabulary head is left out."""

    def prepared(self, model: Any) -> Any:
        return wide(ValueNetwork(model).to(self.device).eval())

    def at_tokens(self, batch: Collated, temperature: float, entropy: bool = False) -> tuple[Tensor, Tensor]:
        with self.autocast():
            values_L = self.model(
                torch.from_numpy(batch.tokens_BT).to(self.device),
                torch.from_numpy(batch.rows_L).to(self.device),
                torch.from_numpy(batch.positions_L).to(self.device),
            )
        return values_L, torch.zeros_like(values_L)

    @torch.no_grad()
    def values(self, rows: Sequence[Row]) -> list[NDArray[np.float64]]:
        """The value of each token to learn from, in the order of `rows`, each of shape (learned,)."""
        numbered = [replace(row, group=n) for n, row in enumerate(rows)]
        found = [np.zeros(0)] * len(rows)
        for some in micro_batches(numbered, self.optimisation.micro_batch):
            values_L, _ = self.at_tokens(collate(some), 1.0)
            for row, part in zip(some, values_L.split([row.learned for row in some]), strict=True):
                found[row.group] = part.double().cpu().numpy()
        return found


@dataclass(frozen=True, slots=True)
class SquaredError:
    """Half the squared distance to the return. With `clip` = c > 0 the larger of that and of the same for the value
    held within c of the one measured (Schulman's implementation of PPO, 2017)."""

    clip: float = 0.0
    aggregation: Aggregation = "token"
    temperature: float = 1.0
    wants_entropy: bool = False

    def loss(
        self, logprobs_L: Tensor, entropy_L: Tensor, batch: Collated, weights_L: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`logprobs_L` are values here; see `rlspec.runtime.learning.loss.Objective`."""
        returns_L = torch.from_numpy(batch.advantages_L).to(logprobs_L)
        term_L = (logprobs_L - returns_L).square() / 2
        if self.clip > 0:
            measured_L = torch.from_numpy(batch.logprobs_L).to(logprobs_L)
            held_L = measured_L + (logprobs_L - measured_L).clamp(-self.clip, self.clip)
            term_L = torch.maximum(term_L, (held_L - returns_L).square() / 2)
        loss = (weights_L * term_L).sum()
        return loss, {"loss": loss.detach(), "tokens": token_count(logprobs_L)}


def optimisation_of(stage: Ppo) -> Optimisation:
    """The critic's optimiser: the stage's schedule and moments at a rate, and with a norm, of its own."""
    own = Optimisation.of(stage, stage.steps, stage.critic.updates_per_step)
    return replace(own, lr=stage.critic.lr, grad_clip=stage.critic.grad_clip)


def critic_row(ledger: Ledger, returns: Sequence[float], values: Sequence[float], group: int) -> Row:
    """A trajectory for the critic: every agent token, whether it carries credit or not."""
    mask_T = ledger.mask()
    returns_T = np.zeros(len(ledger))
    values_T = np.full(len(ledger), np.nan, dtype=np.float32)
    returns_T[mask_T], values_T[mask_T] = returns, values
    return Row(ledger.tokens(), mask_T, returns_T, values_T, group)


def explained_variance(rows: Sequence[Row]) -> float:
    """1 - Var(returns - values) / Var(returns) over all tokens, values as measured before learning: 1 for a critic that
    knew, 0 for one that said the mean; 0 where returns do not vary."""
    if not rows:
        return 0.0
    returns_L = np.concatenate([row.advantages_T[row.mask_T] for row in rows])
    values_L = np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float64)
    spread = float(np.var(returns_L)) if len(returns_L) else 0.0
    return 1.0 - float(np.var(returns_L - values_L)) / spread if spread > 0 else 0.0
