"""Stages: what is done with the policy, one after the other.

    stage cold : sft { demonstrations = 4_000trajs  stop.loss = 0.06  refuse_above = 0.1 }
    stage train : grpo { tasks_per_step = 16tasks  group = 8trajs  steps = 130steps }
    stage exam : evaluate { before = [train]  after = [train]  trials = 4trajs }

`sft` is the cold start: a short warm-up on copying, then demonstrations, stopped by a loss measured on
demonstrations that are never learned from, and refused as a start for reinforcement learning when that loss
stays high. `grpo` is policy-gradient learning on groups of trajectories of one task; the advantage itself
is a formula of the spec, not a field here. `evaluate` changes nothing and measures success."""

from __future__ import annotations

from rlspec.compiler.catalog.base import Component, Ref, Struct, Unit
from rlspec.compiler.catalog.shop import Demonstrators
from rlspec.compiler.records import Field, Refused, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self
from rlspec.dsl.dataclass import dataclass

Schedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Work:
    """What a stage does at most: `steps`, each with so many trajectories, which `talks` with users and asks `judges`
    or not."""

    steps: int
    trajectories: int
    talks: bool = True
    judges: bool = False


class Stage(Component):
    """A stage. `TRAINS`: its weights are those that later stages start from. `RIDES`: it takes place inside the stage
    that its field `within` names, and its trajectories have formulas of their own, `on` its label."""

    KIND: ClassVar[str] = "stage"
    TRAINS: ClassVar[bool] = False
    RIDES: ClassVar[bool] = False

    def work(self, inside: Stage | None = None) -> Work:
        """Upper bounds for the budget; `inside` is the stage that it rides on."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does")


class Optimised(Stage):
    """What every stage that changes weights declares: AdamW and its schedule."""

    TRAINS: ClassVar[bool] = True

    lr: Annotated[float, Field(gt=0, description="peak learning rate")]
    schedule: Annotated[Schedule, Field(description="shape of the learning rate after its warm-up")]
    final_lr_share: Annotated[float, Field(ge=0, le=1, description="last learning rate as a share of lr")]
    lr_warmup: Annotated[int, Unit("steps"), Field(ge=0, description="steps of linear rise up to lr")]
    betas: Annotated[
        tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]],
        Field(description="AdamW's decay rates of the first and second moment"),
    ] = (0.9, 0.95)
    epsilon: Annotated[float, Field(gt=0, description="AdamW's epsilon")] = 1e-8
    weight_decay: Annotated[
        float, Field(ge=0, description="decoupled decay, of parameters with two or more dimensions only")
    ] = 0.0
    grad_clip: Annotated[float, Field(gt=0, description="largest L2 norm of the whole gradient")] = 1.0
    micro_batch: Annotated[
        int, Unit("tokens"), Field(ge=1, description="tokens per forward pass; cannot change the gradient")
    ] = 2_048


class Warmup(Struct):
    """Learning to copy: random sequences [x, marker, x], loss on the second x. Without it a small random
    model sits on a plateau for most of the demonstrations, until it can repeat an id that it has read."""

    max_steps: Annotated[int, Unit("steps"), Field(ge=0, description="cap of the warm-up; 0 leaves it out")] = 350
    until: Annotated[float, Field(gt=0, description="ends when the smoothed loss per copied token is below")] = 0.12
    smoothing: Annotated[float, Field(ge=0, lt=1, description="decay of the smoothed loss")] = 0.9
    batch: Annotated[int, Unit("trajs"), Field(ge=1, description="sequences per step")] = 64
    shortest: Annotated[int, Unit("tokens"), Field(ge=1, description="shortest x")] = 12
    longest: Annotated[int, Unit("tokens"), Field(ge=1, description="longest x")] = 32
    lr: Annotated[float, Field(gt=0, description="learning rate, constant")] = 4e-3

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest = {self.shortest} is more than longest = {self.longest}")
        return self


class Stop(Struct):
    """When a cold start has learned enough, or will learn no more: measured on the held-out
    demonstrations."""

    loss: Annotated[float, Field(gt=0, description="stop at this loss per agent token, in nats")] = 0.06
    every: Annotated[int, Unit("steps"), Field(ge=1, description="steps between two measurements")] = 25
    patience: Annotated[int, Field(ge=1, description="measurements without a new best that end an attempt")] = 12


def reachable(stop: Stop, refuse_above: float) -> None:
    """Raise ValueError where what meets the criterion to stop would be refused."""
    if stop.loss > refuse_above:
        raise ValueError(
            f"stop.loss = {stop.loss} is above refuse_above = {refuse_above}: what meets the criterion would be refused"
        )


class Sft(Optimised):
    """Supervised cold start on demonstrations; the loss is the mean over the agent's tokens alone."""

    NAME: ClassVar[str] = "sft"

    demonstrations: Annotated[int, Unit("trajs"), Field(ge=1, description="demonstrations to learn from")] = 4_000
    held_out: Annotated[
        int, Unit("trajs"), Field(ge=1, description="further demonstrations, only to measure the loss on")
    ] = 128
    mixture: Annotated[Demonstrators, Field(description="who demonstrates, in which shares")] = Demonstrators()
    batch: Annotated[int, Unit("trajs"), Field(ge=1, description="demonstrations per step")] = 32
    max_steps: Annotated[int, Unit("steps"), Field(ge=1, description="cap of steps per attempt")] = 1_000
    lr: Annotated[float, Field(gt=0, description="peak learning rate")] = 4e-3
    schedule: Annotated[Schedule, Field(description="shape of the learning rate after its warm-up")] = "linear"
    final_lr_share: Annotated[float, Field(ge=0, le=1, description="last learning rate as a share of lr")] = 0.1
    lr_warmup: Annotated[int, Unit("steps"), Field(ge=0, description="steps of linear rise up to lr")] = 10
    warmup: Annotated[Warmup, Field(description="the copying warm-up before the demonstrations")] = Warmup()
    stop: Annotated[Stop, Field(description="when an attempt ends")] = Stop()
    refuse_above: Annotated[
        float, Field(gt=0, description="a start whose held-out loss at its end is above is not used")
    ] = 0.1
    attempts: Annotated[int, Field(ge=1, description="starts from other random weights before giving up")] = 3

    @model_validator(mode="after")
    def _fits(self) -> Self:
        reachable(self.stop, self.refuse_above)
        if self.batch > self.demonstrations:
            raise ValueError(f"batch = {self.batch} is more than demonstrations = {self.demonstrations}")
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(self.max_steps, self.batch, talks=False)


class Kl(Struct):
    """The pull towards the policy that the stage started from. Estimators of KL(policy || start) from one
    sample, with r = log start - log policy: k1 = -r, k2 = r^2 / 2, k3 = exp(r) - 1 - r (J. Schulman,
    "Approximating KL divergence", 2020). In the loss, k2 has the gradient of the KL in expectation, k3
    nearly so close to the start, and k1 has a gradient of mean zero; in the reward, k1 is the unbiased
    one."""

    coefficient: Annotated[float, Field(ge=0, description="weight of the term; 0 turns it off")] = 0.0
    estimator: Annotated[Literal["k1", "k2", "k3"], Field(description="estimator per token")] = "k3"
    place: Annotated[
        Literal["loss", "reward"],
        Field(description="add it to the loss, or take its sum over a trajectory from the reward"),
    ] = "loss"


class Grpo(Optimised):
    """Group-relative policy optimisation: clipped ratio against the sampler's own log-probabilities
    (Schulman et al. 2017; Shao et al. 2024), advantages from the spec's formula."""

    NAME: ClassVar[str] = "grpo"

    tasks_per_step: Annotated[int, Unit("tasks"), Field(ge=1, description="tasks drawn per step")] = 16
    group: Annotated[int, Unit("trajs"), Field(ge=2, description="trajectories per task")] = 8
    steps: Annotated[int, Unit("steps"), Field(ge=1, description="rounds of rollout and learning")] = 130
    updates_per_step: Annotated[
        int, Field(ge=1, description="optimiser steps per step, over disjoint parts made of whole groups")
    ] = 2
    lr: Annotated[float, Field(gt=0, description="peak learning rate")] = 3e-4
    schedule: Annotated[Schedule, Field(description="shape of the learning rate after its warm-up")] = "constant"
    final_lr_share: Annotated[float, Field(ge=0, le=1, description="last learning rate as a share of lr")] = 0.1
    lr_warmup: Annotated[int, Unit("steps"), Field(ge=0, description="steps of linear rise up to lr")] = 5
    clip_low: Annotated[float, Field(ge=0, lt=1, description="the ratio is clipped below 1 - clip_low")] = 0.2
    clip_high: Annotated[float, Field(ge=0, description="the ratio is clipped above 1 + clip_high")] = 0.2
    dual_clip: Annotated[
        float,
        Field(ge=0, description="largest loss per unit of negative advantage (Ye et al. 2020); 0 turns it off"),
    ] = 0.0
    kl: Annotated[Kl, Field(description="the pull towards the policy that the stage started from")] = Kl()
    aggregation: Annotated[
        Literal["token", "sequence", "trajectory"],
        Field(
            description="what weighs equally: every agent token of the update; every trajectory, by the mean "
            "over its tokens; every trajectory, by the sum over its tokens"
        ),
    ] = "token"
    temperature: Annotated[float, Field(gt=0, description="sampling temperature of rollouts")] = 1.0
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="longest agent message")] = 48
    on_dead_groups: Annotated[
        Literal["skip", "keep"],
        Field(
            description="groups without a difference in reward: leave them out of the forward pass (they "
            "stay in the denominators, and no KL pulls on them), or keep them"
        ),
    ] = "skip"
    checkpoint_every: Annotated[int, Unit("steps"), Field(ge=1, description="steps between checkpoints")] = 10
    evaluate_every: Annotated[
        int, Unit("steps"), Field(ge=0, description="steps between evaluations inside the stage; 0 for none")
    ] = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if 0 < self.dual_clip <= 1 + self.clip_high:
            raise ValueError(f"dual_clip = {self.dual_clip} must be above 1 + clip_high = {1 + self.clip_high}, or 0")
        if self.updates_per_step > self.tasks_per_step:
            raise ValueError(
                f"updates_per_step = {self.updates_per_step} is more than the {self.tasks_per_step} groups of a step"
            )
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(self.steps, self.tasks_per_step * self.group, judges=True)


class Evaluate(Stage):
    """Success on tasks of a split, several trials per task: pass^k is the chance that k trials of one task
    all succeed (Yao et al. 2024, tau-bench)."""

    NAME: ClassVar[str] = "evaluate"

    before: Annotated[
        tuple[Annotated[str, Ref("stage")], ...], Field(description="stages before which it is measured")
    ] = ()
    after: Annotated[
        tuple[Annotated[str, Ref("stage")], ...],
        Field(description="stages after which it is measured, and inside which where they say evaluate_every"),
    ] = ()
    on: Annotated[
        tuple[Annotated[str, Ref("env")], ...],
        Field(description="environments whose tasks are measured, also such as training never draws from; none: all"),
    ] = ()
    after_training: Annotated[
        bool,
        Field(description="whether it is also measured after every stage that changes weights, whatever their names"),
    ] = False
    user: Annotated[
        str,
        Ref("user"),
        Field(description="who talks to the agent here, instead of the users that training has; none: the same"),
    ] = ""
    split: Annotated[Literal["train", "test"], Field(description="which tasks")] = "test"
    phrasing: Annotated[Literal["train", "held_out"], Field(description="which of the user's phrasings")] = "held_out"
    tasks: Annotated[int, Unit("tasks"), Field(ge=1, description="number of tasks, the first of the split")] = 64
    trials: Annotated[int, Unit("trajs"), Field(ge=1, description="trajectories per task")] = 4
    temperature: Annotated[float, Field(gt=0, description="sampling temperature")] = 1.0
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="longest agent message")] = 48
    pass_at: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(description="the k of each pass^k that is reported")
    ] = (1, 2, 3, 4)

    @model_validator(mode="after")
    def _enough_trials(self) -> Self:
        if self.pass_at and max(self.pass_at) > self.trials:
            raise Refused("RLC0514", "pass^{k} needs as many trials, trials = {trials}",
                                      {"k": max(self.pass_at), "trials": self.trials})  # fmt: skip
        return self

    def work(self, inside: Stage | None = None) -> Work:
        return Work(1, self.tasks * self.trials, judges=True)
