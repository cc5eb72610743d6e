"""The critic: what it learns, that ranks and micro-batches change nothing, and that it goes on to the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checking import checked, plan_of
from rlspec.compiler.catalog.critic import Critic, Ppo
from rlspec.runtime.launch import launch
from rlspec.runtime.learning.critic import CriticLearner, SquaredError, explained_variance, optimisation_of
from rlspec.runtime.learning.rows import Row, collate
from rlspec.runtime.record.store import read

SPEC = (Path(__file__).parents[2] / "ppo.rlspec").read_text()
STAGE = Ppo(steps=50, lr_warmup=0, critic=Critic(lr=1e-2, grad_clip=10.0))


def returns_of(rows: list[Row], level: float) -> list[Row]:
    """Rows whose return falls along the trajectory, measured as 0 so far."""
    out = []
    for n, row in enumerate(rows):
        returns_T = np.where(row.mask_T, level + n % 2 + np.linspace(1, 0, len(row)), 0.0)
        out.append(replace(row, advantages_T=returns_T, logprobs_T=np.zeros(len(row), dtype=np.float32)))
    return out


def test_it_starts_at_zero_and_learns_the_returns(make_model: Any, make_rows: Any) -> None:
    critic = CriticLearner(make_model(), optimisation_of(STAGE))
    rows = returns_of(make_rows(), 2.0)
    assert all(np.all(values == 0.0) for values in critic.values(rows))
    losses = [critic.step(rows, SquaredError())["loss"] for _ in range(40)]
    assert losses[-1] < 0.1 * losses[0]
    measured = [
        replace(row, logprobs_T=_at(row, values)) for row, values in zip(rows, critic.values(rows), strict=True)
    ]
    assert explained_variance(rows) == 0.0
    assert explained_variance(measured) > 0.5


def _at(row: Row, values: Any) -> Any:
    out = np.zeros(len(row), dtype=np.float32)
    out[row.mask_T] = values
    return out


def test_a_value_depends_on_what_precedes_its_token_alone(make_model: Any, make_rows: Any) -> None:
    critic = CriticLearner(make_model(), optimisation_of(STAGE))
    row = returns_of(make_rows(), 1.0)[0]
    critic.step([row], SquaredError())
    last = int(np.flatnonzero(row.mask_T)[-1])
    changed_T = row.tokens_T.copy()
    changed_T[last:] = (changed_T[last:] + 1) % 8
    other = replace(row, tokens_T=changed_T)
    before, after = critic.values([row])[0], critic.values([other])[0]
    assert np.array_equal(before, after)
    assert np.any(before != 0)


def test_micro_batches_and_ranks_change_nothing(make_model: Any, make_rows: Any) -> None:
    rows = returns_of(make_rows(), 1.0)
    found = []
    for micro_batch, ranks in ((4096, 1), (8, 1), (4096, 3)):
        critic = CriticLearner(make_model().double(), optimisation_of(replace_field(micro_batch)))
        critic.step(rows, SquaredError(clip=0.5), ranks)
        found.append(torch.cat([w.ravel() for w in critic.weights().values()]))
    assert torch.allclose(found[0], found[1], atol=1e-10)
    assert torch.allclose(found[0], found[2], atol=1e-10)


def replace_field(micro_batch: int) -> Ppo:
    return STAGE.model_copy(update={"micro_batch": micro_batch})


def test_a_clipped_value_gains_nothing_beyond_the_clip(make_model: Any, make_rows: Any) -> None:
    """Measured 0, return 3, value 1: outside the clip of 0.2 the gradient of the held value is 0, and the larger loss
    is the held one's."""
    values_L = torch.tensor([1.0, 0.1], requires_grad=True)
    rows = returns_of(make_rows(), 3.0)[:1]
    batch = replace(collate(rows), advantages_L=np.array([3.0, 3.0]), logprobs_L=np.zeros(2, dtype=np.float32))
    loss, _ = SquaredError(clip=0.2).loss(values_L, values_L, batch, torch.ones(2))
    loss.backward()
    assert values_L.grad is not None
    assert values_L.grad.tolist() == pytest.approx([0.0, -2.9])
    assert loss.item() == pytest.approx((2.8**2 + 2.9**2) / 2)


def test_what_it_learns_is_the_unwhitened_advantage_plus_the_value() -> None:
    text = SPEC.replace("A : real@token = std.gae(", "A : real@token = 2 * std.gae(")
    source = plan_of(text).sources[0]
    assert source.returns == "critic.returns"
    steps = source.program.steps
    at = steps[source.program.outputs["critic.returns"]]
    assert at.op == "add"
    assert [steps[a].op for a in at.args] == ["gae", "input"]


TURN_GAE = "std.gae(std.at_turn_end(R), train.value, gamma = 1, lambda = "


@pytest.mark.parametrize(
    "advantage",
    ["real@turn = zscore(R over (traj, turn))", f"real@token = {TURN_GAE}1) + {TURN_GAE}0.5)"],
)
def test_a_critic_needs_one_advantage_of_its_values(advantage: str) -> None:
    start = SPEC.index("advantage A : ") + len("advantage A : ")
    text = SPEC[:start] + advantage + SPEC[SPEC.index("\n", start):]  # fmt: skip
    assert "RLC0534" in [d.code for d in checked(text).errors]


class Crash(Exception):
    """The process is gone."""


class Watching:
    """A reporter that breaks off after so many lines of the training stage."""

    def __init__(self, lines: int) -> None:
        self.left = lines
        self.seen: list[dict[str, Any]] = []

    def begin(self, what: str, total: int | None) -> None: ...

    def note(self, text: str) -> None: ...

    def line(self, metrics: Any) -> None:
        self.seen.append(dict(metrics))
        self.left -= 1
        if self.left == 0:
            raise Crash


def test_a_run_with_a_critic_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    small = SPEC[: SPEC.index("  stage coldstart")] + SPEC[SPEC.index("  stage train") :]
    small = small.replace("width = 32  layers = 2", "width = 16  layers = 1")
    small = small.replace("checkpoint_every = 2", "checkpoint_every = 1").replace("steps = 4steps", "steps = 3steps")
    plan = plan_of(small)
    straight, broken, again = Watching(99), Watching(2), Watching(99)
    launch(plan, small, tmp_path / "straight", "local", straight)
    with pytest.raises(Crash):
        launch(plan, small, tmp_path / "broken", "local", broken)
    launch(plan, small, tmp_path / "broken", "local", again, resume=True)
    lines = (tmp_path / "straight" / "metrics.jsonl").read_bytes()
    assert (tmp_path / "broken" / "metrics.jsonl").read_bytes() == lines
    assert straight.seen[1]["train.value"] != 0.0
    assert all(m["value_loss"] > 0 and m["explained_variance"] <= 1 for m in straight.seen)
    stored = read(max((tmp_path / "straight" / "trajectories").glob("train*.parquet")))
    for t in stored:  # gamma = lambda = 1: what is still to come, to the last turn's reward
        rewards, ends = t.scores["R"], np.cumsum([s.stop - s.start for s in t.ledger.turn_slices()])
        expected = np.concatenate([[sum(rewards[k:])] * n for k, n in enumerate(np.diff(ends, prepend=0))])
        assert t.scores["critic.returns"] == pytest.approx(expected.tolist(), abs=1e-9)
