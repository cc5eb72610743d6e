"""Proximal policy optimisation with a critic.

    stage train : ppo { critic { lr = 1e-3  updates_per_step = 2 } }
    advantage A : real@token = std.ppo(R, train.value)

The stage measures what its critic expects of every agent token, before the step's first update; which advantage is
made of it is a formula of the spec. The critic learns the return that belongs to that formula: its `gae` before any
whitening, plus the value."""

from __future__ import annotations

from rlspec.compiler.catalog.base import Struct, Unit
from rlspec.compiler.catalog.stages import Grpo
from rlspec.compiler.records import Field
from rlspec.dsl.annotations import Annotated, ClassVar


class Critic(Struct):
    """A network of the policy's shape that starts as its copy, with one number in the place of the vocabulary, 0 at
    first. It shares no weights with the policy, so an error of values of any size cannot move what the agent says."""

    lr: Annotated[float, Field(gt=0, description="peak learning rate; its schedule is the stage's")] = 1e-3
    updates_per_step: Annotated[
        int, Field(ge=1, description="optimiser steps per step, over disjoint parts made of whole groups")
    ] = 2
    head_start: Annotated[
        int, Unit("steps"), Field(ge=0, description="first steps of the stage in which the critic alone learns")
    ] = 0
    clip: Annotated[
        float,
        Field(ge=0, description="how far a value may move from the one measured before it gains nothing; 0: freely"),
    ] = 0.0
    grad_clip: Annotated[float, Field(gt=0, description="largest L2 norm of the critic's whole gradient")] = 1.0


class Ppo(Grpo):
    """Policy optimisation with a critic (Schulman et al. 2017): everything of `grpo`, and a network that learns what
    follows each token. Groups are needed only where a formula compares their members."""

    NAME: ClassVar[str] = "ppo"
    MEASURES: ClassVar[dict[str, str]] = {"value": "real@token"}

    group: Annotated[int, Unit("trajs"), Field(ge=1, description="trajectories per task")] = 8
    critic: Annotated[Critic, Field(description="the network that learns values")] = Critic()
