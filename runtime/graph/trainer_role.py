"""The trainer role: one data-parallel rank of the learner, and what it needs around it (policy, demonstrations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlspec.compiler.catalog.critic import Ppo
from rlspec.compiler.catalog.policies import Tiny
from rlspec.compiler.catalog.stages import Grpo, Optimised, Sft
from rlspec.compiler.plan import Plan
from rlspec.runtime.demonstrations import demonstrate, lexicon
from rlspec.runtime.learning.coach import Coach
from rlspec.runtime.learning.critic import CriticLearner, SquaredError, optimisation_of
from rlspec.runtime.learning.learner import Learner, Optimisation, Precision
from rlspec.runtime.learning.loss import Clipped, Denominators, Likelihood, Objective, Sums, merge, per_token
from rlspec.runtime.learning.rows import Row, demonstration, shards
from rlspec.runtime.policies import tiny
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.policies.loading import load, resolve_device
from rlspec.runtime.record.durable import writing
from rlspec.runtime.streams import derived_seed


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's share of an update: the gradient of all parameters in their order, flat (one array crosses processes
    in one piece, thirty tensors in thirty), and the sums for the metrics."""

    gradient: NDArray[Any]
    sums: Sums


PROBE_TOKENS = 24


class TrainerRole:
    """See the module. `prepare` comes before everything that learns."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self.ranks = sum(role.role == "trainer" for role in plan.graph.roles)
        self._stages = {stage.label: stage.component() for stage in plan.stages}
        self._learner: Learner | None = None
        self._directory = ""
        self._demonstrations: list[Row] = []
        self._reference: Learner | None = None
        self._critic: CriticLearner | None = None
        self._coach: Coach | None = None

    # --------------------------------------------------------------------------------------------- the policy

    def demonstrate(self, label: str, first: int, count: int) -> list[Dialogue]:
        """This rank's share of a stage's demonstrations (and held-out ones): those on tasks `first`, `first + 1` ..."""
        stage = self._stages.get(label)
        return demonstrate(self.plan, label, stage if isinstance(stage, Sft) else Sft(), first, count)

    def build_policy(self, directory: str, dialogues: Sequence[list[Dialogue]]) -> None:
        """Make the embedded policy's folder from the demonstrations' text, and from what else the worlds say."""
        config = self.plan.policy.component()
        assert isinstance(config, Tiny)
        corpus = [*(d for share in dialogues for d in share), *lexicon(self.plan)]
        tiny.build(config, corpus, Path(directory), self.plan.seed)

    def prepare(self, directory: str) -> None:
        """Load the policy's folder into this rank's learner."""
        fields = self.plan.policy.fields
        model, tokenizer = load(Path(directory), "float32", fields["device"])
        self._directory, self.renderer = directory, Renderer(tokenizer)
        self.device = resolve_device(fields["device"])
        first = next((s for s in self._stages.values() if isinstance(s, Optimised)), None)
        optimisation = Optimisation.of(first if first is not None else Grpo(), 1)
        precision: Precision = "float32" if fields["precision"] == "float32" else "bfloat16"
        self._learner = Learner(model, optimisation, str(self.device), precision)

    @property
    def learner(self) -> Learner:
        if self._learner is None:
            raise RuntimeError("trainer role used before `prepare`")
        return self._learner

    def save_policy(self, directory: str) -> None:
        """The policy as it is, in Hugging Face layout."""
        with writing(Path(directory)):
            self.learner.model.save_pretrained(directory)
            self.renderer.tokenizer.save_pretrained(directory)

    # ----------------------------------------------------------------------------------------- the cold start

    def hold_demonstrations(self, dialogues: Sequence[list[Dialogue]]) -> tuple[int, list[int], list[int], float]:
        """Render all demonstrations to rows and keep them, so that steps name them by number.

        Returns:
            How many there are; the token ids that the agent says and is told, which are those it has to copy; the
            marker between copies in the warm-up; mean tokens of a demonstration.
        """
        self._demonstrations = []
        said: dict[bool, set[int]] = {True: set(), False: set()}  # by the agent, to the agent
        for dialogue in (d for share in dialogues for d in share):
            tokens: list[int] = []
            mask: list[bool] = []
            for piece in self.renderer.dialogue(dialogue):
                tokens += piece.tokens
                mask += [piece.kind == "agent"] * len(piece.tokens)
                if piece.kind != "system":
                    said[piece.kind == "agent"].update(piece.tokens)
            self._demonstrations.append(demonstration(tokens, mask))
        stop = self.renderer.stop_token
        alphabet = sorted((said[True] & said[False]) - set(self.renderer.tokenizer.all_special_ids) - {stop})
        lengths = np.mean([len(row) for row in self._demonstrations])
        return len(self._demonstrations), alphabet, [stop, stop], float(lengths)

    def restart(self, attempt: int) -> None:
        """Random weights of an attempt: those of the policy's folder first, then others."""
        from transformers import AutoConfig, AutoModelForCausalLM

        if attempt == 0 or not isinstance(self.plan.policy.component(), Tiny):
            model, _ = load(Path(self._directory), "float32", "cpu")
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derived_seed(self.plan.seed, "policy", "weights", attempt))
                model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(self._directory))
        self.learner.load_weights(model.state_dict())

    def begin(self, optimisation: Optimisation) -> None:
        """A fresh optimiser and schedule."""
        self.learner.begin(optimisation)

    def imitate(self, items: Sequence[int] | Sequence[Row]) -> Part:
        """This rank's part of one step of imitation, on demonstrations by number or on rows."""
        rows = self._rows(items)
        return self._part(shards(rows, self.ranks)[self.rank], Likelihood(), Denominators.of(rows))

    def measure(self, items: Sequence[int] | Sequence[Row]) -> Sums:
        """This rank's sums of the loss on its share of these rows, without learning."""
        mine = shards(self._rows(items), self.ranks)[self.rank]
        return self.learner.measure(mine, Likelihood()) if mine else {"tokens": 0.0, "nll": 0.0}

    def _rows(self, items: Sequence[Any]) -> list[Row]:
        return [self._demonstrations[i] if isinstance(i, int) else i for i in items]

    # --------------------------------------------------------------------------------------- policy gradient

    def begin_stage(self, label: str) -> None:
        """Start a training stage: a fresh optimiser, and the policy to stay near to where a KL is declared."""
        stage = self._stages[label]
        assert isinstance(stage, Grpo)
        self.learner.begin(Optimisation.of(stage, stage.steps, stage.updates_per_step))
        if stage.kl.coefficient > 0:
            self._keep_reference(self.learner.weights())
        self._critic = None
        if isinstance(stage, Ppo):
            self._begin_critic(optimisation_of(stage), self.learner.weights())

    def _begin_critic(self, optimisation: Optimisation, weights: Mapping[str, Tensor] | None = None) -> None:
        """A critic with a fresh optimiser, its trunk a copy of these weights."""
        model, _ = load(Path(self._directory), "float32", str(self.device))
        if weights is not None:
            model.load_state_dict(weights, strict=True)
        self._critic = CriticLearner(model, optimisation, str(self.device), self.learner.precision)

    @property
    def critic(self) -> CriticLearner:
        if self._critic is None:
            raise RuntimeError("the stage has no critic, or has not begun")
        return self._critic

    def values(self, rows: Sequence[Row]) -> list[NDArray[Any]]:
        """What the critic expects before each agent token of the rows, see `CriticLearner.values`."""
        return self.critic.values(rows)

    def critic_gradients(self, label: str, rows: Sequence[Row], denominators: Denominators) -> Part:
        """This rank's part of an update of the critic."""
        stage = self._stages[label]
        assert isinstance(stage, Ppo)
        return self._part(rows, SquaredError(stage.critic.clip), denominators, self.critic)

    def critic_apply(self, parts: Sequence[Part]) -> dict[str, float]:
        """Add all ranks' parts in order and take the critic's step."""
        applied = self.critic.apply([self._gradient(part, self.critic) for part in parts])
        return per_token(merge([part.sums for part in parts])) | applied

    def _keep_reference(self, weights: Mapping[str, Tensor]) -> None:
        model, _ = load(Path(self._directory), "float32", str(self.device))
        self._reference = Learner(model, self.learner.optimisation, str(self.device), self.learner.precision)
        self._reference.load_weights(weights)

    def reference_weights(self) -> dict[str, Tensor]:
        """Weights of the reference policy, empty without one: part of a checkpoint."""
        return self._reference.weights() if self._reference is not None else {}

    def reference_logprobs(self, sequences: Sequence[Any], temperature: float) -> list[Any]:
        """The reference policy's log-probabilities (nats) of sequences of tokens, (T,) each."""
        assert self._reference is not None
        return self._reference.logprobs(sequences, temperature)

    def measured(self, rows: Sequence[Row], temperature: float) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Log-probabilities and entropies (nats) of the rows' agent tokens, see `Learner.measured`."""
        return self.learner.measured(rows, temperature)

    def gradients(self, label: str, rows: Sequence[Row], denominators: Denominators) -> Part:
        """This rank's part of an update: the rows of its shard, denominators of the whole update."""
        stage = self._stages[label]
        assert isinstance(stage, Grpo)
        return self._part(rows, Clipped.of(stage), denominators)

    def _part(
        self, rows: Sequence[Row], objective: Objective, denominators: Denominators, learner: Learner | None = None
    ) -> Part:
        gradient, sums = (learner or self.learner).gradients(rows, objective, denominators)
        return Part(np.concatenate([g.cpu().numpy().ravel() for g in gradient.values()]), sums)

    def _gradient(self, part: Part, learner: Learner | None = None) -> dict[str, Tensor]:
        """A part's gradient by name again."""
        flat = torch.from_numpy(part.gradient.copy())  # what came from another process cannot be written to
        shapes = {name: parameter.shape for name, parameter in (learner or self.learner).parameters.items()}
        cut = flat.split([shape.numel() for shape in shapes.values()])
        return {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), cut, strict=True)}

    def timings(self) -> dict[str, float]:
        """Seconds that this rank spent on log-probabilities, backward and optimiser since it was last asked."""
        spent = dict(self.learner.seconds)
        self.learner.seconds = dict.fromkeys(spent, 0.0)
        return spent

    def apply(self, parts: Sequence[Part]) -> dict[str, float]:
        """Add all ranks' parts in order and take the step; metrics per token of the whole update."""
        applied = self.learner.apply([self._gradient(part) for part in parts])
        return per_token(merge([part.sums for part in parts])) | applied

    # --------------------------------------------------------------------------------------- the diagnostician

    def coach_begin(self, label: str, directory: str) -> dict[str, float]:
        """Make the policy of a `diagnostician` stage, in its folder, and read its triples; what they are like. It
        learns on this rank alone."""
        self._coach = Coach(self.plan, label, Path(directory))
        return self._coach.about()

    def coach_learn(self, steps: int) -> list[dict[str, Any]]:
        """At most so many steps; where the learning stands after each. No more come when it is over."""
        assert self._coach is not None
        return self._coach.learn(steps)

    def coach_end(self) -> dict[str, float]:
        """Save it, examine it on the triples that were held out, and forget it."""
        assert self._coach is not None
        coach, self._coach = self._coach, None
        coach.save()
        return coach.examine()

    # -------------------------------------------------------------------------------------- weights and state

    def weights(self) -> dict[str, Tensor]:
        """All weights, by Hugging Face name."""
        return self.learner.weights()

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Replace all weights; the optimiser is left as it is."""
        self.learner.load_weights(weights)

    def probe(self, temperature: float = 1.0) -> tuple[list[int], list[float]]:
        """A fixed short sequence and its log-probabilities (nats) under the weights as they are."""
        size = len(self.renderer.tokenizer)
        tokens = [(7 + 31 * i) % size for i in range(PROBE_TOKENS)]
        return tokens, [float(v) for v in self.learner.logprobs([tokens], temperature)[0]]

    def checksum(self) -> str:
        """SHA-256 of the weights' bytes: equal on all ranks after every update."""
        import hashlib

        digest = hashlib.sha256()
        critic = {f"critic/{n}": t for n, t in self._critic.weights().items()} if self._critic is not None else {}
        for name, tensor in sorted((self.learner.weights() | critic).items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that a checkpoint needs of the learner."""
        tensors, notes = self.learner.state()
        tensors |= {f"reference/{n}": t for n, t in self.reference_weights().items()}
        if self._critic is not None:
            values, notes["critic"] = self._critic.state()
            tensors |= {f"critic/{n}": t for n, t in values.items()}
        return tensors, notes

    def load_state(self, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        reference = {n.removeprefix("reference/"): t for n, t in tensors.items() if n.startswith("reference/")}
        critic = {n.removeprefix("critic/"): t for n, t in tensors.items() if n.startswith("critic/")}
        own = {n: t for n, t in tensors.items() if not n.startswith(("reference/", "critic/"))}
        self.learner.load_state(own, notes)
        if critic:
            self._begin_critic(self.learner.optimisation)
            self.critic.load_state(critic, notes["critic"])
        if reference:
            self._keep_reference(reference)
