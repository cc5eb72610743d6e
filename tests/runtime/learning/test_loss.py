from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlspec.compiler.catalog.stages import Grpo, Kl
from rlspec.runtime.learning.loss import (
    Clipped,
    Denominators,
    Likelihood,
    kl_estimate,
    kl_of_trajectory,
    merge,
    per_token,
    token_weights,
)
from rlspec.runtime.learning.rows import collate


def terms(objective, ratio, advantage, make_rows, reference=None):
    """Loss and its gradient in the log-probability for one token."""
    row = make_rows(1, reference=reference is not None)[0]
    mask_T = np.arange(len(row)) == 1
    old_T = np.full(len(row), -2.0, np.float32)
    row = replace(row, mask_T=mask_T, advantages_T=np.where(mask_T, advantage, 0.0), logprobs_T=old_T)
    if reference is not None:
        row = replace(row, reference_T=np.full(len(row), reference, np.float32))
    logprobs_L = torch.tensor([-2.0 + math.log(ratio)], dtype=torch.float64, requires_grad=True)
    loss, sums = objective.loss(logprobs_L, torch.zeros(1), collate([row]), torch.ones(1, dtype=torch.float64))
    loss.backward()
    return loss.item(), logprobs_L.grad.item(), sums


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 1.5, -1.5, -1.5),
        (1.1, 1.5, -1.65, -1.65),
        (1.5, 2.0, -2.6, 0.0),  # good and already more likely than 1 + clip_high
        (0.5, 2.0, -1.0, -1.0),  # good but less likely: the pessimistic side is not clipped
        (0.5, -2.0, 1.6, 0.0),  # bad and already less likely than 1 - clip_low
        (1.5, -2.0, 3.0, 3.0),
        (1.5, 0.0, 0.0, 0.0),
    ],
)
def test_clipping(ratio, advantage, loss, gradient, make_rows):
    found, slope, _ = terms(Clipped(clip_low=0.2, clip_high=0.3), ratio, advantage, make_rows)
    assert found == pytest.approx(loss, abs=1e-6)
    assert slope == pytest.approx(gradient, abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [(5.0, -2.0, 6.0, 0.0), (2.0, -2.0, 4.0, 4.0), (5.0, 2.0, -2.4, 0.0), (0.5, -2.0, 1.6, 0.0)],
)
def test_dual_clip_bounds_the_loss_of_a_negative_advantage_only(ratio, advantage, loss, gradient, make_rows):
    found, slope, _ = terms(Clipped(0.2, 0.2, dual_clip=3.0), ratio, advantage, make_rows)
    assert found == pytest.approx(loss, abs=1e-6)
    assert slope == pytest.approx(gradient, abs=1e-6)


def test_clip_metrics_count_only_tokens_whose_gradient_is_cut(make_rows):
    objective = Clipped(0.2, 0.2)
    cut_high = terms(objective, 1.5, 1.0, make_rows)[2]
    cut_low = terms(objective, 0.5, -1.0, make_rows)[2]
    free = terms(objective, 0.5, 1.0, make_rows)[2]
    assert [int(s["clipped_high"]) for s in (cut_high, cut_low, free)] == [1, 0, 0]
    assert [int(s["clipped_low"]) for s in (cut_high, cut_low, free)] == [0, 1, 0]
    assert float(cut_high["max_logprob_gap"]) == pytest.approx(math.log(1.5), abs=1e-6)


def test_a_huge_ratio_gives_a_finite_loss(make_rows):
    loss, gradient, _ = terms(Clipped(0.2, 0.2), 1e200, 0.0, make_rows)
    assert (loss, gradient) == (0.0, 0.0)


@settings(max_examples=100, deadline=None)
@given(st.floats(-8, -0.01), st.floats(-8, -0.01))
def test_kl_estimators_are_schulmans(policy, reference):
    r = reference - policy
    values = {"k1": -r, "k2": r * r / 2, "k3": math.exp(r) - 1 - r}
    for estimator, expected in values.items():
        found = kl_estimate(
            torch.tensor(policy, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64), estimator
        )
        assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_k1_and_k3_average_to_the_exact_kl():
    p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.5, 0.3]).double()
    exact = float((p * (p / q).log()).sum())
    for estimator in ("k1", "k3"):
        assert float((p * kl_estimate(p.log(), q.log(), estimator)).sum()) == pytest.approx(exact, abs=1e-12)


def test_k2_in_the_loss_has_the_gradient_of_the_kl():
    logits, q = (
        torch.tensor([0.4, -0.3, 0.1]).double().requires_grad_(),
        torch.tensor([0.2, 0.5, 0.3]).double(),
    )
    p = torch.softmax(logits, 0)
    exact = torch.autograd.grad((p * (p / q).log()).sum(), logits)[0]
    logp = torch.log_softmax(logits, 0)
    k2 = torch.autograd.grad((p.detach() * kl_estimate(logp, q.log(), "k2")).sum(), logits)[0]
    k1 = torch.autograd.grad((torch.softmax(logits, 0).detach() * torch.log_softmax(logits, 0)).sum(), logits)[0]
    torch.testing.assert_close(k2, exact)
    torch.testing.assert_close(k1, torch.zeros_like(k1), atol=1e-12, rtol=0)


def test_kl_is_added_to_the_loss_with_its_coefficient(make_rows):
    objective = Clipped(0.2, 0.2, kl_coefficient=0.5, kl_estimator="k2")
    loss, gradient, sums = terms(objective, 1.0, 1.5, make_rows, reference=-3.0)
    assert loss == pytest.approx(-1.5 + 0.5 * 0.5, abs=1e-6)
    assert gradient == pytest.approx(-1.5 + 0.5 * 1.0, abs=1e-6)
    assert float(sums["reference_kl"]) == pytest.approx(0.5, abs=1e-6)


def test_kl_needs_a_reference(make_rows):
    with pytest.raises(ValueError, match="reference"):
        terms(Clipped(0.2, 0.2, kl_coefficient=0.1), 1.0, 1.0, make_rows)


def test_kl_of_a_trajectory_sums_its_agent_tokens(make_rows):
    row = make_rows(1, reference=True)[0]
    expected = float(np.sum((row.logprobs_T - row.reference_T.astype(np.float64))[row.mask_T]))
    assert kl_of_trajectory(row, "k1") == pytest.approx(expected, abs=1e-9)


def test_weights_of_each_aggregation(make_rows):
    rows = make_rows(5)
    denominators = Denominators.of(rows)
    batch = collate(rows)
    lengths = [row.learned for row in rows]
    for aggregation, expected in {
        "token": [n / sum(lengths) for n in lengths],
        "sequence": [1 / 5] * 5,
        "trajectory": [n / 5 for n in lengths],
    }.items():
        weights_L = token_weights(aggregation, denominators, batch.lengths_L)
        of_row = np.bincount(batch.rows_L, weights_L)
        np.testing.assert_allclose(of_row, expected, rtol=1e-12)


def test_denominators_count_rows_without_an_agent_token(make_rows):
    rows = make_rows(3)
    silent = replace(rows[0], mask_T=np.zeros(len(rows[0]), dtype=np.bool_))
    assert Denominators.of([*rows, silent]) == Denominators(sum(r.learned for r in rows), 4)


def test_the_loss_is_what_the_stage_declares():
    stage = Grpo(clip_low=0.1, clip_high=0.28, dual_clip=3.0, aggregation="trajectory", temperature=0.8)
    assert Clipped.of(stage) == Clipped(0.1, 0.28, 3.0, 0.0, "k3", "trajectory", 0.8)
    in_loss = Grpo(kl=Kl(coefficient=0.01, estimator="k2"))
    in_reward = Grpo(kl=Kl(coefficient=0.01, estimator="k1", place="reward"))
    assert (Clipped.of(in_loss).kl_coefficient, Clipped.of(in_loss).kl_estimator) == (0.01, "k2")
    assert Clipped.of(in_reward).kl_coefficient == 0.0


def test_likelihood_is_minus_the_logprob(make_rows):
    batch = collate(make_rows(2))
    batch = replace(batch, advantages_L=np.ones(len(batch.advantages_L)))
    logprobs_L = -torch.rand(len(batch.rows_L), dtype=torch.float64)
    weights_L = torch.full_like(logprobs_L, 1 / len(logprobs_L))
    loss, sums = Likelihood().loss(logprobs_L, torch.zeros_like(logprobs_L), batch, weights_L)
    assert float(loss) == pytest.approx(-float(logprobs_L.mean()))
    assert per_token({k: float(v) for k, v in sums.items()})["nll"] == pytest.approx(float(loss))


def test_sums_merge_by_adding_and_maxima_by_the_larger():
    a = {"tokens": 2.0, "loss": 0.5, "entropy": 1.0, "max_logprob_gap": 0.1}
    b = {"tokens": 6.0, "loss": 0.25, "entropy": 3.0, "max_logprob_gap": 0.05}
    assert per_token(merge([a, b])) == {"tokens": 8.0, "loss": 0.75, "entropy": 0.5, "max_logprob_gap": 0.1}
