from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlspec.compiler.catalog.stages import Sft, Stop, Warmup
from rlspec.runtime.learning.learner import Learner, Optimisation
from rlspec.runtime.learning.rows import demonstration
from rlspec.runtime.learning.sft import ColdStart, LocalPupil
from rlspec.runtime.refusal import Refusal

ALPHABET, MARKER = range(4, 31), [2, 3]


def counting(n: int, seed: int):
    """Demonstrations in which the agent counts on from a number that is given."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        first, length = int(rng.integers(4, 20)), int(rng.integers(3, 8))
        tokens = [1, *range(first, first + length)]
        rows.append(demonstration(tokens, [False, False] + [True] * (length - 1)))
    return rows


def stage(**changed):
    settings = {
        "demonstrations": 64,
        "batch": 8,
        "held_out": 16,
        "max_steps": 150,
        "lr": 1e-2,
        "warmup": Warmup(max_steps=4, batch=4, shortest=3, longest=5, lr=1e-2),
        "stop": Stop(loss=0.2, every=5, patience=30),
        "refuse_above": 0.3,
        "attempts": 2,
    }
    return Sft(**(settings | changed))


@pytest.fixture
def begin(make_model):
    """begin(stage, seed): a cold start and its pupil."""

    def make(stage, seed=0, ranks=1):
        learner = Learner(make_model(), Optimisation.of(stage, 1))
        pupil = LocalPupil(learner, lambda attempt: make_model(seed=100 * seed + attempt).state_dict(), ranks)
        return ColdStart(stage, counting(64, 0), counting(16, 1), ALPHABET, MARKER, seed), pupil

    return make


def run_until_refused(start, pupil, seen):
    """The refusal that a cold start ends in; its positions are appended to `seen`."""
    with pytest.raises(Refusal) as refused:
        seen.extend(replace(position) for position in start.run(pupil))
    return refused.value


def test_it_stops_when_the_held_out_loss_meets_the_criterion(begin):
    start, pupil = begin(stage())
    trace = [(p.phase, p.step, p.held_out) for p in start.run(pupil)]
    assert trace[-1][0] == "accepted"
    assert trace[-1][1] < 150
    assert trace[-1][1] % 5 == 0
    assert trace[-1][2] == pupil.measure(start.held_out) <= 0.2
    assert all(h is None or h > 0.2 for _, _, h in trace[:-1])


def test_the_warmup_comes_first_and_is_capped(begin):
    start, pupil = begin(stage())
    phases = [p.phase for _, p in zip(range(8), start.run(pupil), strict=False)]
    assert phases == ["warmup"] * 3 + ["demonstrations"] * 5
    assert pupil.learner.optimisation.lr == 1e-2
    assert pupil.learner.updates == 4


def test_the_warmup_ends_early_once_copying_is_learned(begin):
    start, pupil = begin(stage(warmup=Warmup(max_steps=100, until=50.0, batch=4, shortest=3, longest=5)))
    assert next(start.run(pupil)).phase == "demonstrations"


def test_without_a_warmup_demonstrations_come_at_once(begin):
    start, pupil = begin(stage(warmup=Warmup(max_steps=0)))
    first = next(start.run(pupil))
    assert (first.phase, first.step) == ("demonstrations", 1)


def test_a_start_that_misses_its_criterion_is_refused_after_its_attempts(begin):
    start, pupil = begin(stage(max_steps=6, stop=Stop(loss=1e-3, every=3, patience=9), refuse_above=1e-3))
    seen = []
    refused = run_until_refused(start, pupil, seen)
    assert "RLC0709" in str(refused)
    assert "attempt 2 of 2" in str(refused)
    assert [(p.attempt, p.phase) for p in seen[:1] + seen[-1:]] == [(0, "warmup"), (1, "refused")]
    assert start.done
    with pytest.raises(Refusal):
        next(start.run(pupil))


def test_a_second_attempt_starts_from_other_weights_and_other_draws(begin):
    start, pupil = begin(stage(max_steps=2, stop=Stop(loss=1e-3, every=2, patience=9), refuse_above=1e-3))
    seen = []
    run_until_refused(start, pupil, seen)
    losses = {n: [p.loss for p in seen if p.attempt == n] for n in range(2)}
    assert losses[0][0] != losses[1][0]
    assert [r.tokens_T.tolist() for r in start.copies(0, 0)] != [r.tokens_T.tolist() for r in start.copies(1, 0)]


def test_patience_ends_an_attempt_that_no_longer_gets_better(begin):
    start, _ = begin(stage(stop=Stop(loss=0.01, every=1, patience=3), refuse_above=3.0, warmup=Warmup(max_steps=0)))

    class Stuck:
        measured = iter([2.0, 1.5, 1.6, 1.6, 1.5, 0.0])

        def restart(self, attempt): ...
        def begin(self, optimisation): ...
        def step(self, rows):
            return 1.0

        def measure(self, rows):
            return next(self.measured)

    last = list(start.run(Stuck()))[-1]
    assert (last.step, last.held_out, last.best, last.phase) == (5, 1.5, 1.5, "accepted")


@pytest.mark.parametrize("cut", [2, 4, 9, 17])
def test_a_start_that_was_cut_off_continues_bit_for_bit(begin, cut):
    whole, pupil = begin(stage(), ranks=2)
    expected = [p.loss for p in whole.run(pupil)]

    first, cut_pupil = begin(stage(), ranks=2)
    run = first.run(cut_pupil)
    losses = [next(run).loss for _ in range(cut)]
    position, (tensors, notes) = first.state(), cut_pupil.learner.state()

    second, resumed = begin(stage(), ranks=2)
    resumed.learner.load_state(tensors, notes)
    second.load_state(position)
    losses += [p.loss for p in second.run(resumed)]
    assert losses == expected
    for name, tensor in pupil.learner.weights().items():
        assert (tensor == resumed.learner.weights()[name]).all()


def test_copies_are_learned_in_the_second_half_only(begin):
    start, _ = begin(stage())
    for row in start.copies(0, 3):
        n = row.learned
        assert 3 <= n <= 5
        assert row.tokens_T[:n].tolist() == row.tokens_T[-n:].tolist()
        assert row.tokens_T[n:-n].tolist() == MARKER
        assert row.mask_T.tolist() == [False] * (n + 2) + [True] * n


def test_each_pass_shows_every_demonstration_once_in_its_own_order(begin):
    start, _ = begin(stage())
    passes = [[id(r) for step in range(8 * k, 8 * k + 8) for r in start.batch(0, step)] for k in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(map(id, start.demonstrations))
    assert passes[0] != passes[1]
