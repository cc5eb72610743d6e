"""Calibration: what a kind of turn is worth, found from rollouts before the training that pays for it.

    signal tier : {gold, soft, read, state, msg, err, dup}@turn = tiers.tier
    stage calibrate : irc { signal = tier  outcome = outcome  episodes = 256trajs  threshold = 0.1 }
    reward r : real@turn = calibrate.weight[tier]

The weights are known after the stage has run; until then a formula that reads them is of type `real`, within the
stage's own bounds.
"""

from __future__ import annotations

from rlspec.compiler.catalog.base import Ref, Unit
from rlspec.compiler.catalog.stages import Stage, Work
from rlspec.compiler.records import Field, model_validator
from rlspec.dsl.annotations import Annotated, ClassVar, Literal, Self


class Irc(Stage):
    """Iterative reward calibration (MT-GRPO + IRC, Amity 2026): a kind of turn is worth its correlation with success,
    if that is strong enough, and nothing otherwise.

    Each round adds episodes of the policy as it is then, correlates "occurs in the trajectory" with the outcome
    (point-biserial; a kind that occurs in all or in none has no evidence and weighs 0), scores the episodes by the
    spec's own formulas with that table, and looks at the mean advantage on the turns of each kind: where its sign is
    not the weight's, that is a mismatch. The search ends without one, once mean reward and outcome agree well enough,
    or after the last round."""

    NAME: ClassVar[str] = "irc"
    RESULTS: ClassVar[dict[str, str]] = {"weight": "table(signal)"}

    signal: Annotated[str, Ref("signal"), Field(description="the enumerated turn signal whose choices are weighed")]
    outcome: Annotated[str, Ref("signal"), Field(description="the outcome of a trajectory that they are weighed by")]
    episodes: Annotated[
        int, Unit("trajs"), Field(ge=2, description="trajectories of the policy at the start, per round")
    ] = 256
    group: Annotated[int, Unit("trajs"), Field(ge=2, description="trajectories per task; divides the episodes")] = 8
    temperature: Annotated[float, Field(gt=0, description="sampling temperature of the episodes")] = 1.0
    max_new_tokens: Annotated[int, Unit("tokens"), Field(ge=1, description="longest agent message")] = 48
    rounds: Annotated[int, Field(ge=1, description="most rounds until no weight has the wrong sign")] = 3
    threshold: Annotated[
        float, Field(ge=0, lt=1, description="a correlation of at most this size gives the weight 0")
    ] = 0.1
    scale: Annotated[float, Field(gt=0, description="weight of a correlation of 1")] = 1.0

    on_mismatch: Annotated[
        Literal["drop", "halve", "keep"],
        Field(
            description="what a weight becomes whose realised advantage has another sign: 0, half of it, or what the "
            "next round's evidence says"
        ),
    ] = "drop"
    agreement: Annotated[
        float,
        Field(ge=-1, lt=1, description="the search ends only when the correlation of mean reward and outcome is above"),
    ] = 0.0

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.episodes % self.group:
            raise ValueError(f"episodes = {self.episodes} is not a multiple of group = {self.group}")
        return self

    def bounds(self, result: str) -> tuple[float, float]:
        """A correlation lies in [-1, 1]."""
        return -self.scale, self.scale

    def work(self, inside: Stage | None = None) -> Work:
        return Work(self.rounds, self.episodes, judges=True)
