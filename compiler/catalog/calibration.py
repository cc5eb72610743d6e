"""Calibration: what a kind of turn is worth, found from rollouts before the training that pays for it.

    signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
    stage calibrate : irc { signal = tier  outcome = outcome  episodes = 256trajs  threshold = 0.1 }
    reward r : real@turn = calibrate.weight[tier]

The weights are known after the stage has run; until then a formula that reads them is of type `real`, within the
stage's own bounds.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rlspec.compiler.catalog.base import Ref, Unit
from rlspec.compiler.catalog.stages import Stage, Work


class Irc(Stage):
    """Iterative reward calibration (MT-GRPO + IRC, Amity 2026): a kind of turn is worth its correlation with success,
    if that is strong enough, and nothing otherwise."""

    NAME: ClassVar[str] = "irc"
    RESULTS: ClassVar[dict[str, str]] = {"weight": "table(signal)"}
    RUNS: ClassVar[bool] = False

    signal: Annotated[str, Ref("signal"), Field(description="the enumerated turn signal whose choices are weighed")]
    outcome: Annotated[str, Ref("signal"), Field(description="the outcome of a trajectory that they are weighed by")]
    episodes: Annotated[
        int, Unit("trajs"), Field(ge=2, description="trajectories of the policy at the start, per round")
    ] = 256
    rounds: Annotated[int, Field(ge=1, description="most rounds until no weight has the wrong sign")] = 3
    threshold: Annotated[
        float, Field(ge=0, lt=1, description="a correlation of at most this size gives the weight 0")
    ] = 0.1
    scale: Annotated[float, Field(gt=0, description="weight of a correlation of 1")] = 1.0

    def bounds(self, result: str) -> tuple[float, float]:
        """A correlation lies in [-1, 1]."""
        return -self.scale, self.scale

    def work(self, inside: Stage | None = None) -> Work:
        return Work(self.rounds, self.episodes, judges=True)
