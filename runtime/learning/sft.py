"""The cold start: copying warm-up, then demonstrations, until a measured loss says that it is enough.

The loop owns no model. It is given a `Pupil` that takes optimiser steps and measures, so that the executor
can spread
both over any number of ranks:

    start = ColdStart(stage, demonstrations, held_out, alphabet, marker, seed)
    for progress in start.run(pupil):          # one entry per optimiser step
        ...
    # the pupil now holds accepted weights; a Refusal (RLC0709) came instead if no attempt met the spec

Every draw is from a named random stream, so the loop's whole position is `state()`, a few numbers; with the
pupil's own state it continues bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlspec.runtime.learning.learner import Learner, Optimisation
from rlspec.runtime.learning.loss import Likelihood, per_token
from rlspec.runtime.learning.rows import Row, demonstration
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.streams import stream

if TYPE_CHECKING:
    from rlspec.compiler.catalog.diagnosticians import Diagnostician
    from rlspec.compiler.catalog.stages import Sft

Phase = Literal["warmup", "demonstrations", "accepted", "refused"]


class Pupil(Protocol):
    """What learns: one learner, or several ranks in step."""

    def restart(self, attempt: int) -> None:
        """Take random weights derived from the attempt's number, 0 being the first."""

    def begin(self, optimisation: Optimisation) -> None:
        """A fresh optimiser and schedule over the weights as they are."""

    def step(self, rows: Sequence[Row]) -> float:
        """One optimiser step on the mean loss per learned token of these rows; returns that loss, in nats."""

    def measure(self, rows: Sequence[Row]) -> float:
        """The mean loss per learned token, without learning, in nats."""


@dataclass(slots=True)
class Position:
    """Where a cold start is. `step` counts within the phase; `loss` is the last step's, `smoothed` the
    warm-up's running mean; `held_out` the last measurement, `best` the attempt's smallest, `stale` the
    measurements since."""

    attempt: int = 0
    phase: Phase = "warmup"
    step: int = 0
    loss: float | None = None
    smoothed: float | None = None
    held_out: float | None = None
    best: float | None = None
    stale: int = 0


class ColdStart:
    """See the module. `alphabet` are the token ids that the warm-up draws from, `marker` the ids between
    the copies."""

    def __init__(
        self,
        stage: Sft | Diagnostician,
        demonstrations: Sequence[Row],
        held_out: Sequence[Row],
        alphabet: Sequence[int],
        marker: Sequence[int],
        seed: int,
    ) -> None:
        if len(demonstrations) < stage.batch or not held_out:
            raise ValueError("a cold start needs a batch of demonstrations and some held-out ones")
        self.stage, self.demonstrations, self.held_out = stage, demonstrations, held_out
        self.alphabet, self.marker, self.seed = alphabet, marker, seed
        self.at = Position()
        self._begun = False
        self._order: tuple[tuple[int, int], NDArray[np.int64]] | None = None

    @property
    def done(self) -> bool:
        """Accepted or refused."""
        return self.at.phase in ("accepted", "refused")

    def state(self) -> dict[str, Any]:
        """JSON; belongs to the pupil's state of the same moment."""
        return asdict(self.at)

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue where `state()` was taken; the pupil must have been brought to its own state of that
        moment."""
        self.at = Position(**state)
        self._begun = True

    def run(self, pupil: Pupil) -> Iterator[Position]:
        """Learn until accepted; the position after every optimiser step. May be left and taken up again
        between any two.

        Raises:
            Refusal RLC0709: the last attempt ended at a held-out loss above `refuse_above`.
        """
        if not self._begun:
            self._start_attempt(pupil)
        while not self.done:
            if self.at.phase == "warmup":
                self._warm_up(pupil)
            else:
                self._learn(pupil)
            yield self.at
        if self.at.phase == "refused":
            raise Refusal(
                "RLC0709",
                f"attempt {self.at.attempt + 1} of {self.stage.attempts} ended at a held-out loss of "
                f"{self.at.held_out:.3f} nats per agent token; the spec refuses above "
                f"{self.stage.refuse_above}",
                "allow more max_steps or attempts, or make the policy smaller",
            )

    def _start_attempt(self, pupil: Pupil) -> None:
        self._begun = True
        pupil.restart(self.at.attempt)
        if self.stage.warmup.max_steps > 0:
            pupil.begin(Optimisation.of_warmup(self.stage))
        else:
            self._start_demonstrations(pupil)

    def _start_demonstrations(self, pupil: Pupil) -> None:
        self.at.phase, self.at.step = "demonstrations", 0
        pupil.begin(Optimisation.of(self.stage, self.stage.max_steps))

    def _warm_up(self, pupil: Pupil) -> None:
        warmup, at = self.stage.warmup, self.at
        at.loss = pupil.step(self.copies(at.attempt, at.step))
        keep = warmup.smoothing if at.smoothed is not None else 0.0
        at.smoothed = keep * (at.smoothed or 0.0) + (1 - keep) * at.loss
        at.step += 1
        if at.smoothed < warmup.until or at.step >= warmup.max_steps:
            self._start_demonstrations(pupil)

    def _learn(self, pupil: Pupil) -> None:
        stage, at = self.stage, self.at
        at.loss = pupil.step(self.batch(at.attempt, at.step))
        at.step += 1
        last = at.step >= stage.max_steps
        if at.step % stage.stop.every and not last:
            return
        at.held_out = pupil.measure(self.held_out)
        better = at.best is None or at.held_out < at.best
        at.best = at.held_out if better else at.best
        at.stale = 0 if better else at.stale + 1
        # The weights in hand are what is accepted, so their own loss counts, not the best one seen.
        if at.held_out <= stage.stop.loss or last or at.stale >= stage.stop.patience:
            self._end_attempt(pupil, accepted=at.held_out <= stage.refuse_above)

    def _end_attempt(self, pupil: Pupil, accepted: bool) -> None:
        if accepted:
            self.at.phase = "accepted"
        elif self.at.attempt + 1 < self.stage.attempts:
            self.at = Position(attempt=self.at.attempt + 1)
            self._start_attempt(pupil)
        else:
            self.at.phase = "refused"

    def copies(self, attempt: int, step: int) -> list[Row]:
        """A warm-up batch: [x, marker, x] with x drawn evenly from the alphabet, to be learned in the
        second x."""
        warmup = self.stage.warmup
        rng = stream(self.seed, "sft", "copies", attempt, step)
        rows = []
        for length in rng.integers(warmup.shortest, warmup.longest + 1, size=warmup.batch):
            x = rng.choice(np.asarray(self.alphabet), size=length).tolist()
            seen = [*x, *self.marker]
            rows.append(demonstration(seen + x, [False] * len(seen) + [True] * len(x)))
        return rows

    def batch(self, attempt: int, step: int) -> list[Row]:
        """The demonstrations of a step: every pass goes through them in an order of its own; an incomplete
        last batch of a pass is left out."""
        per_pass = len(self.demonstrations) // self.stage.batch
        number, part = divmod(step, per_pass)
        if self._order is None or self._order[0] != (attempt, number):
            rng = stream(self.seed, "sft", "order", attempt, number)
            self._order = ((attempt, number), rng.permutation(len(self.demonstrations)))
        chosen = self._order[1][part * self.stage.batch : (part + 1) * self.stage.batch]
        return [self.demonstrations[n] for n in chosen]


class LocalPupil:
    """A pupil in this process: one learner that plays `ranks` ranks. `make(attempt)` gives fresh random
    weights."""

    def __init__(self, learner: Learner, make: Callable[[int], Mapping[str, Tensor]], ranks: int = 1) -> None:
        self.learner, self.make, self.ranks = learner, make, ranks

    def restart(self, attempt: int) -> None:
        self.learner.load_weights(self.make(attempt))

    def begin(self, optimisation: Optimisation) -> None:
        self.learner.begin(optimisation)

    def step(self, rows: Sequence[Row]) -> float:
        return self.learner.step(rows, Likelihood(), self.ranks)["nll"]

    def measure(self, rows: Sequence[Row]) -> float:
        return per_token(self.learner.measure(rows, Likelihood()))["nll"]
