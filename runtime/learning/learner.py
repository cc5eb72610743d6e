"""The learner: one data-parallel rank, a model with its optimiser.

    learner = Learner(model, Optimisation.of(stage))
    denominators = Denominators.of(rows)                      # of the whole update, before anything is
    computed shard = shards(rows, ranks)[rank] gradient, sums = learner.gradients(shard, objective,
    denominators) metrics = learner.apply([gradient_of_rank_0, gradient_of_rank_1, ...])

Ranks exchange gradients, not sums of sums: every rank adds the same list in the same order, so ranks stay
equal bit for bit, and one process that works through the shards of N ranks one by one gets the weights that
N processes get.

Master weights, gradients and moments are float32 (or float64 where the model is). With `precision =
"bfloat16"` the forward pass runs under autocast."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.runtime.learning.logprobs import Head
from rlspec.runtime.learning.loss import Denominators, Objective, Sums, merge, per_token, token_weights
from rlspec.runtime.learning.rows import Collated, Row, collate, micro_batches, shards
from rlspec.runtime.refusal import Refusal

if TYPE_CHECKING:
    from rlspec.compiler.catalog.diagnosticians import Diagnostician
    from rlspec.compiler.catalog.stages import Optimised, Sft

Precision = Literal["float32", "bfloat16"]
Gradient = dict[str, Tensor]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Optimisation:
    """AdamW and its schedule, counted in updates (optimiser steps)."""

    lr: float
    schedule: Literal["constant", "linear", "cosine"]
    final_lr_share: float
    lr_warmup: int
    updates: int
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float
    grad_clip: float
    micro_batch: int

    @classmethod
    def of(cls, stage: Optimised, steps: int, updates_per_step: int = 1) -> Optimisation:
        """What a stage of `steps` steps declares."""
        return cls(
            lr=stage.lr,
            schedule=stage.schedule,
            final_lr_share=stage.final_lr_share,
            lr_warmup=stage.lr_warmup * updates_per_step,
            updates=steps * updates_per_step,
            betas=stage.betas,
            epsilon=stage.epsilon,
            weight_decay=stage.weight_decay,
            grad_clip=stage.grad_clip,
            micro_batch=stage.micro_batch,
        )

    @classmethod
    def of_warmup(cls, stage: Sft | Diagnostician) -> Optimisation:
        """The copying warm-up of a cold start: the stage's optimiser at a constant rate of its own."""
        changed = {"lr": stage.warmup.lr, "schedule": "constant"}
        return cls(**{**asdict(cls.of(stage, stage.warmup.max_steps)), **changed})

    def rate(self, update: int) -> float:
        """Learning rate of the update with this number, counted from 0: a linear rise to `lr` at number
        `lr_warmup`, then the schedule down to `final_lr_share * lr` at the last."""
        if update < self.lr_warmup:
            return self.lr * (update + 1) / (self.lr_warmup + 1)
        if self.schedule == "constant":
            return self.lr
        share = min((update - self.lr_warmup) / max(self.updates - 1 - self.lr_warmup, 1), 1.0)
        fall = share if self.schedule == "linear" else (1 - math.cos(math.pi * share)) / 2
        return self.lr * (1 - (1 - self.final_lr_share) * fall)


def wide(model: Any) -> Any:
    """The model with master weights: float32, or wider where it is."""
    return model.float() if any(p.dtype not in (torch.float32, torch.float64) for p in model.parameters()) else model


class Learner:
    """See the module. The model is put into evaluation mode: dropout would make the trainer's policy
    another one than the sampler's."""

    def __init__(
        self,
        model: Any,
        optimisation: Optimisation,
        device: str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        self.device, self.precision = device, precision
        self.model = self.prepared(model)
        self.seconds = {"logprobs": 0.0, "backward": 0.0, "optimiser": 0.0}
        self.parameters: dict[str, Tensor] = {
            name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad
        }
        self.begin(optimisation)

    def prepared(self, model: Any) -> Any:
        """What is learned, from the policy that is given: here the policy itself."""
        found = wide(model.to(self.device).eval())
        self.head = Head(found)
        return found

    def begin(self, optimisation: Optimisation) -> None:
        """Start a stage: a fresh optimiser and schedule over the weights as they are."""
        self.optimisation = optimisation
        self.updates = 0
        decayed = [p for p in self.parameters.values() if p.ndim >= 2]
        others = [p for p in self.parameters.values() if p.ndim < 2]
        self._adam = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": optimisation.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=optimisation.lr,
            betas=optimisation.betas,
            eps=optimisation.epsilon,
        )

    def autocast(self) -> torch.autocast:
        """The precision of forward passes."""
        enabled = self.precision == "bfloat16"
        return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16, enabled=enabled)

    def at_tokens(self, batch: Collated, temperature: float, entropy: bool = False) -> tuple[Tensor, Tensor]:
        """What the objective is about at each token to learn from, (L,): its log-probability; and the entropy of its
        distribution, where it is asked for."""
        with self.autocast():
            return self.head.logprobs(
                torch.from_numpy(batch.tokens_BT).to(self.device),
                torch.from_numpy(batch.rows_L).to(self.device),
                torch.from_numpy(batch.positions_L).to(self.device),
                temperature=temperature,
                entropy=entropy,
            )

    def gradients(self, rows: Sequence[Row], objective: Objective, denominators: Denominators) -> tuple[Gradient, Sums]:
        """This rank's part of an update's gradient, by parameter name (zeros where nothing flowed), and its
        sums for the metrics. `denominators` are those of the whole update. Weights are not changed."""
        self._adam.zero_grad(set_to_none=True)
        sums: list[Sums] = []
        for some in micro_batches(rows, self.optimisation.micro_batch):
            began = time.perf_counter()
            batch = collate(some)
            logprobs_L, entropy_L = self.at_tokens(batch, objective.temperature, objective.wants_entropy)
            weights_L = torch.from_numpy(token_weights(objective.aggregation, denominators, batch.lengths_L))
            loss, counted = objective.loss(logprobs_L, entropy_L, batch, weights_L.to(logprobs_L))
            halfway = time.perf_counter()
            loss.backward()
            sums.append({name: float(value) for name, value in counted.items()})
            self.seconds["logprobs"] += halfway - began
            self.seconds["backward"] += time.perf_counter() - halfway
        gradient = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
            for name, p in self.parameters.items()
        }
        self._adam.zero_grad(set_to_none=True)
        return gradient, merge(sums)

    def apply(self, gradients: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """Add the ranks' gradients in the order given, clip, and take one optimiser step.

        Returns:
            `grad_norm` (L2, before clipping), `lr` of this update.

        Raises:
            Refusal RLC0708: the gradient is not finite. Weights and optimiser are then untouched.
        """
        self._check_names(gradients)
        began = time.perf_counter()
        for name, parameter in self.parameters.items():
            total = gradients[0][name].to(parameter.device, parameter.dtype, copy=True)
            for gradient in gradients[1:]:
                total += gradient[name].to(parameter.device, parameter.dtype)
            parameter.grad = total
        squares = [p.grad.double().square().sum() for p in self.parameters.values() if p.grad is not None]
        norm = math.sqrt(float(torch.stack(squares).sum()))
        if not math.isfinite(norm):
            self._adam.zero_grad(set_to_none=True)
            raise Refusal("RLC0708", f"the gradient of update {self.updates} is not finite", "lower the learning rate")
        if norm > self.optimisation.grad_clip:
            for parameter in self.parameters.values():
                if parameter.grad is not None:
                    parameter.grad.mul_(self.optimisation.grad_clip / norm)
        rate = self.optimisation.rate(self.updates)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        self.updates += 1
        self.seconds["optimiser"] += time.perf_counter() - began
        return {"grad_norm": norm, "lr": rate}

    def step(self, rows: Sequence[Row], objective: Objective, ranks: int = 1) -> dict[str, float]:
        """One whole update in this process, which plays all ranks one after the other. Metrics per token.

        With `ranks` = N the weights are those of N processes that hold one shard each.
        """
        denominators = Denominators.of(rows)
        found = [self.gradients(shard, objective, denominators) for shard in shards(rows, ranks)]
        applied = self.apply([gradient for gradient, _ in found])
        return per_token(merge([sums for _, sums in found])) | applied

    def _check_names(self, gradients: Sequence[Mapping[str, Tensor]]) -> None:
        if not gradients:
            raise ValueError("an update needs at least one rank's gradient")
        for gradient in gradients:
            if gradient.keys() != self.parameters.keys():
                odd = sorted(gradient.keys() ^ self.parameters.keys())
                raise ValueError(f"gradient and model differ in parameters: {', '.join(odd[:4])}")

    @torch.no_grad()
    def measure(self, rows: Sequence[Row], objective: Objective) -> Sums:
        """The objective over rows, without learning; denominators are those of these rows."""
        denominators = Denominators.of(rows)
        sums: list[Sums] = []
        for some in micro_batches(rows, self.optimisation.micro_batch):
            batch = collate(some)
            logprobs_L, entropy_L = self.at_tokens(batch, objective.temperature, objective.wants_entropy)
            weights_L = torch.from_numpy(token_weights(objective.aggregation, denominators, batch.lengths_L))
            _, counted = objective.loss(logprobs_L, entropy_L, batch, weights_L.to(logprobs_L))
            sums.append({name: float(value) for name, value in counted.items()})
        return merge(sums)

    @torch.no_grad()
    def logprobs(
        self, sequences: Sequence[Sequence[int] | NDArray[np.int32]], temperature: float = 1.0
    ) -> list[NDArray[np.float32]]:
        """Log-probabilities (nats) of each sequence's tokens given their prefix, under the weights as they
        are; the first of each is NaN. In the order of `sequences`, each of shape (T,)."""
        found = [np.full(len(sequence), np.nan, dtype=np.float32) for sequence in sequences]
        rows = []
        for n, sequence in enumerate(sequences):
            tokens_T = np.asarray(sequence, dtype=np.int32)
            unused_T = np.zeros(len(tokens_T))
            mask_T = np.arange(len(tokens_T)) > 0
            rows.append(Row(tokens_T, mask_T, unused_T, unused_T.astype(np.float32), group=n))
        for some in micro_batches(rows, self.optimisation.micro_batch):
            logprobs_L, _ = self.at_tokens(collate(some), temperature)
            for row, part in zip(some, logprobs_L.split([row.learned for row in some]), strict=True):
                found[row.group][1:] = part.float().cpu().numpy()
        return found

    @torch.no_grad()
    def measured(
        self, rows: Sequence[Row], temperature: float = 1.0
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Log-probability of each token to learn from and entropy of its distribution (nats, at the temperature),
        under the weights as they are; in the order of `rows`, each of shape (learned,). The logits exist in chunks of
        tokens only, see `rlspec.runtime.learning.logprobs`."""
        numbered = [replace(row, group=n) for n, row in enumerate(rows)]
        empty = np.zeros(0)
        found = [(empty, empty)] * len(rows)
        for some in micro_batches(numbered, self.optimisation.micro_batch):
            began = time.perf_counter()
            logprobs_L, entropy_L = self.at_tokens(collate(some), temperature, entropy=True)
            sizes = [row.learned for row in some]
            for row, *parts in zip(some, logprobs_L.split(sizes), entropy_L.split(sizes), strict=True):
                logprobs, entropy = (part.double().cpu().numpy() for part in parts)
                found[row.group] = (logprobs, entropy)
            self.seconds["logprobs"] += time.perf_counter() - began
        return found

    def weights(self) -> dict[str, Tensor]:
        """All weights under their Hugging Face names, copied to the CPU: what an engine loads. Tied weights
        appear under both names."""
        return {name: t.detach().cpu().clone() for name, t in self.model.state_dict().items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Replace all weights, as `weights()` gives them; the optimiser is left as it is.

        Raises:
            RuntimeError: names or shapes differ from the model's.
        """
        self.model.load_state_dict(weights, strict=True)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that the next update depends on: tensors for safetensors (no two share memory) and
        JSON."""
        tensors = {f"model/{name}": t.detach().cpu().clone() for name, t in self._model_tensors().items()}
        for name, parameter in self.parameters.items():
            moments = self._adam.state.get(parameter, {})
            for key in ("exp_avg", "exp_avg_sq"):
                if key in moments:
                    tensors[f"adam/{key}/{name}"] = moments[key].detach().cpu().clone()
        notes = {"format": _FORMAT, "updates": self.updates, "optimisation": asdict(self.optimisation)}
        return tensors, notes

    def load_state(self, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
        """Continue from `state()`, bit for bit.

        Raises:
            Refusal RLC0706: the state belongs to another model: names or shapes differ.
        """
        own = self._model_tensors()
        expected = {f"model/{name}": t.shape for name, t in own.items()}
        if notes["updates"] > 0:
            for key in ("exp_avg", "exp_avg_sq"):
                expected |= {f"adam/{key}/{name}": p.shape for name, p in self.parameters.items()}
        given = {name: t.shape for name, t in tensors.items()}
        if notes["format"] != _FORMAT or given != expected:
            odd = sorted(name for name in given.keys() | expected.keys() if given.get(name) != expected.get(name))
            raise Refusal("RLC0706", f"the learner's state does not fit the model: {', '.join(odd[:4])}")
        notes_opt = dict(notes["optimisation"])
        notes_opt["betas"] = tuple(notes_opt["betas"])
        self.begin(Optimisation(**notes_opt))
        self.updates = notes["updates"]
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[f"model/{name}"])
        if self.updates == 0:
            return
        for name, parameter in self.parameters.items():
            self._adam.state[parameter] = {
                "step": torch.tensor(float(self.updates)),
                "exp_avg": tensors[f"adam/exp_avg/{name}"].to(parameter.device, copy=True),
                "exp_avg_sq": tensors[f"adam/exp_avg_sq/{name}"].to(parameter.device, copy=True),
            }

    def _model_tensors(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers, tied ones once."""
        persistent = self.model.state_dict().keys()
        buffers = {name: b for name, b in self.model.named_buffers() if name in persistent}
        return dict(self.model.named_parameters()) | buffers
