from __future__ import annotations

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from transformers import GPT2Config, GPT2LMHeadModel

from rlspec.compiler.catalog.stages import Grpo, Sft
from rlspec.runtime.learning.learner import Learner, Optimisation
from rlspec.runtime.learning.loss import Clipped, Denominators, Likelihood
from rlspec.runtime.learning.rows import live, shards
from rlspec.runtime.refusal import Refusal

OBJECTIVES = [
    Clipped(0.2, 0.2, aggregation="token"),
    Clipped(0.2, 0.3, dual_clip=3.0, aggregation="sequence", temperature=0.7),
    Clipped(0.2, 0.2, kl_coefficient=0.1, kl_estimator="k3", aggregation="trajectory"),
]


def on_policy(learner, rows, temperature, noise=0.3):
    """The rows with log-probabilities near the learner's own, so that ratios spread around 1."""
    rng = np.random.default_rng(7)
    found = learner.logprobs([row.tokens_T for row in rows], temperature)
    return [
        replace(row, logprobs_T=(own_T + rng.normal(0, noise, len(row))).astype(np.float32))
        for row, own_T in zip(rows, found, strict=True)
    ]


def largest_gap(a, b):
    return max(float((a[name] - b[name]).abs().max()) for name in a)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.aggregation)
def test_the_gradient_does_not_depend_on_micro_batches_or_ranks(objective, make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    rows = on_policy(learner, make_rows(12, reference=True), objective.temperature)
    denominators = Denominators.of(rows)
    longest = max(map(len, rows))
    learner.optimisation = replace(optimisation, micro_batch=12 * longest)
    whole, whole_sums = learner.gradients(rows, objective, denominators)
    largest = max(float(g.abs().max()) for g in whole.values())
    assert largest > 1e-3
    for rows_each in (6, 3, 1):
        for ranks in (1, 2):
            learner.optimisation = replace(optimisation, micro_batch=rows_each * longest)
            found = [learner.gradients(some, objective, denominators) for some in shards(rows, ranks)]
            total = {name: sum(g[name] for g, _ in found) for name in whole}
            assert largest_gap(total, whole) < 1e-6 * max(1.0, largest)
            assert sum(s["loss"] for _, s in found) == pytest.approx(whole_sums["loss"], abs=1e-6)


@pytest.mark.parametrize("objective", [*OBJECTIVES, Likelihood()], ids=lambda o: type(o).__name__)
def test_the_gradient_is_that_of_finite_differences(objective, make_rows, optimisation):
    # GPT-2, because Llama's norm rounds to float32 even in a float64 model, which differences would only see
    # as noise.
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=31, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3)
    learner = Learner(GPT2LMHeadModel(config).double(), optimisation)
    rows = on_policy(learner, make_rows(6, reference=True), objective.temperature)
    gradient, _ = learner.gradients(rows, objective, Denominators.of(rows))
    rng = torch.Generator().manual_seed(0)
    direction = {name: torch.randn(p.shape, generator=rng, dtype=p.dtype) for name, p in learner.parameters.items()}
    step = 1e-6

    def loss_at(offset):
        with torch.no_grad():
            for name, parameter in learner.parameters.items():
                parameter.add_(offset * direction[name])
        value = learner.measure(rows, objective)["loss"]
        with torch.no_grad():
            for name, parameter in learner.parameters.items():
                parameter.sub_(offset * direction[name])
        return value

    slope = (loss_at(step) - loss_at(-step)) / (2 * step)
    along = sum(float((gradient[name] * direction[name]).sum()) for name in gradient)
    assert abs(slope) > 1e-3
    assert along == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("objective", [OBJECTIVES[0], Likelihood()], ids=lambda o: type(o).__name__)
def test_logits_at_tool_and_user_positions_carry_no_gradient(objective, make_model, make_rows, optimisation):
    """Perturb the last hidden states (hence the logits) everywhere but before agent tokens: the loss and its
    gradient do not move, and the gradient at those places is exactly zero."""
    learner = Learner(make_model(), optimisation)
    rows = make_rows(4)
    denominators = Denominators.of(rows)
    plain, plain_sums = learner.gradients(rows, objective, denominators)
    before_agent = {tuple(r.tokens_T.tolist()): np.append(r.mask_T[1:], False) for r in rows}
    reached = []

    def perturb(hidden_BTD, tokens_BT):
        learned_BT = torch.zeros(tokens_BT.shape, dtype=torch.bool)
        for b, tokens_T in enumerate(tokens_BT.tolist()):
            for known, mask_T in before_agent.items():
                if tuple(tokens_T[: len(known)]) == known:
                    learned_BT[b, : len(known)] = torch.from_numpy(mask_T)
        noise_BTD = torch.randn_like(hidden_BTD) * ~learned_BT[..., None]
        hidden_BTD.register_hook(lambda grad_BTD: reached.append((grad_BTD, learned_BT)))
        return hidden_BTD + 10 * noise_BTD

    inner = learner.head.hidden
    learner.head.hidden = lambda tokens_BT: perturb(inner(tokens_BT), tokens_BT)
    perturbed, perturbed_sums = learner.gradients(rows, objective, denominators)

    assert perturbed_sums == plain_sums
    assert largest_gap(perturbed, plain) == 0.0
    assert reached
    for grad_BTD, learned_BT in reached:
        assert grad_BTD[~learned_BT].abs().max() == 0.0
        assert (grad_BTD[learned_BT].abs().amax(dim=1) > 0).any()


def test_padding_changes_nothing(make_model, make_rows, optimisation):
    learner = Learner(make_model(), replace(optimisation, micro_batch=10_000))
    sequences = [row.tokens_T for row in make_rows(5)]
    together = learner.logprobs(sequences)
    for sequence, found in zip(sequences, together, strict=True):
        np.testing.assert_allclose(learner.logprobs([sequence])[0], found, rtol=0, atol=1e-5)


def test_logprobs_come_in_the_order_of_the_sequences(make_model, optimisation):
    learner = Learner(make_model(), optimisation)
    found = learner.logprobs([[1, 2, 3], [4], [], [5, 6, 7, 8, 9]])
    assert [len(f) for f in found] == [3, 1, 0, 5]
    assert [int(np.isnan(f).sum()) for f in found] == [1, 1, 0, 1]
    table_TV = torch.log_softmax(learner.model(torch.tensor([[1, 2, 3]])).logits[0], dim=-1)
    np.testing.assert_allclose(found[0][1:], [table_TV[0, 2].item(), table_TV[1, 3].item()], atol=1e-5)


def test_dead_rows_can_be_skipped(make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    rows = [replace(row, advantages_T=np.zeros(len(row))) if row.group == 1 else row for row in make_rows(12)]
    denominators = Denominators.of(rows)
    kept, _ = learner.gradients(rows, OBJECTIVES[0], denominators)
    skipped, sums = learner.gradients(live(rows), OBJECTIVES[0], denominators)
    assert sums["tokens"] == sum(row.learned for row in rows if row.group != 1)
    assert largest_gap(kept, skipped) < 1e-6


def test_a_rank_without_rows_adds_zeros(make_model, optimisation):
    learner = Learner(make_model(), optimisation)
    gradient, sums = learner.gradients([], Likelihood(), Denominators(10, 2))
    assert sums == {}
    assert gradient.keys() == learner.parameters.keys()
    assert all(float(g.abs().max()) == 0.0 for g in gradient.values())


def test_apply_adds_ranks_clips_and_follows_adamw(make_model, make_rows, optimisation):
    ours = Learner(make_model(), replace(optimisation, grad_clip=0.05, weight_decay=0.1))
    theirs = make_model()
    gradient, _ = ours.gradients(make_rows(4), Likelihood(), Denominators.of(make_rows(4)))
    metrics = ours.apply([gradient, gradient])
    for name, parameter in theirs.named_parameters():
        parameter.grad = 2 * gradient[name]
    norm = float(torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.05))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-6)
    assert norm > 0.05
    assert metrics["lr"] == pytest.approx(1e-3 / 3)
    matrices = [p for p in theirs.parameters() if p.ndim >= 2]
    others = [p for p in theirs.parameters() if p.ndim < 2]
    torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=1e-3 / 3,
        betas=(0.9, 0.95),
    ).step()
    assert largest_gap(ours.weights(), theirs.state_dict()) < 1e-7


def test_a_gradient_that_is_not_finite_is_refused_and_nothing_is_changed(make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    before = learner.weights()
    gradient, _ = learner.gradients(make_rows(4), Likelihood(), Denominators(1, 1))
    gradient["lm_head.weight"][0, 0] = float("nan")
    with pytest.raises(Refusal, match="RLC0708"):
        learner.apply([gradient])
    assert largest_gap(learner.weights(), before) == 0.0
    assert learner.updates == 0


def test_gradients_of_another_model_are_refused_by_name(make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    gradient, _ = learner.gradients(make_rows(4), Likelihood(), Denominators(1, 1))
    gradient["lm_head.bias"] = gradient.pop("lm_head.weight")
    with pytest.raises(ValueError, match=r"lm_head\.bias"):
        learner.apply([gradient])


@pytest.mark.parametrize("tied", [False, True])
def test_a_resumed_learner_is_bit_identical(tied, make_model, make_rows, optimisation):
    def steps(learner, numbers):
        return [learner.step(make_rows(8, seed=n), OBJECTIVES[0], ranks=2) for n in numbers]

    straight = Learner(make_model(tie_word_embeddings=tied), optimisation)
    steps(straight, range(3))
    tensors, notes = straight.state()
    tensors = load(save(tensors))
    expected = steps(straight, range(3, 6))

    resumed = Learner(make_model(seed=9, tie_word_embeddings=tied), replace(optimisation, lr=0.5, betas=(0.1, 0.2)))
    resumed.load_state(tensors, notes)
    assert steps(resumed, range(3, 6)) == expected
    assert largest_gap(resumed.weights(), straight.weights()) == 0.0
    assert resumed.updates == straight.updates == 6


def test_a_learner_saved_before_its_first_update_resumes(make_model, make_rows, optimisation):
    first = Learner(make_model(), optimisation)
    tensors, notes = first.state()
    second = Learner(make_model(seed=9), optimisation)
    second.load_state(tensors, notes)
    for learner in (first, second):
        learner.step(make_rows(4), Likelihood())
    assert largest_gap(first.weights(), second.weights()) == 0.0


def test_the_state_of_another_model_is_refused(make_model, make_rows, optimisation):
    tensors, notes = Learner(make_model(num_hidden_layers=1), optimisation).state()
    with pytest.raises(Refusal, match=r"RLC0706.*layers\.1"):
        Learner(make_model(), optimisation).load_state(tensors, notes)


def _one_rank(rank, pipe, model, optimisation, updates):
    """What a rank in a process of its own does: its shard's gradient, everybody's list, the same update."""
    torch.set_num_threads(1)
    learner = Learner(model, optimisation)
    for rows in updates:
        gradient, _ = learner.gradients(shards(rows, 2)[rank], OBJECTIVES[0], Denominators.of(rows))
        pipe.send({name: tensor.numpy() for name, tensor in gradient.items()})
        shared = pipe.recv()
        learner.apply([{name: torch.from_numpy(array) for name, array in g.items()} for g in shared])
    pipe.send({name: tensor.numpy() for name, tensor in learner.weights().items()})


def test_two_processes_get_the_weights_that_one_process_gets(make_model, make_rows, optimisation):
    updates = [make_rows(10, seed=n) for n in range(3)]
    alone = Learner(make_model(), optimisation)
    for rows in updates:
        alone.step(rows, OBJECTIVES[0], ranks=2)

    context = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for rank in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_one_rank, args=(rank, theirs, make_model(), optimisation, updates))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for _ in updates:
        gradients = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send(gradients)
    for pipe in pipes:
        weights = {name: torch.from_numpy(array) for name, array in pipe.recv().items()}
        assert largest_gap(alone.weights(), weights) == 0.0
    for process in processes:
        process.join(30)
        assert process.exitcode == 0


def test_weights_load_into_the_model_class_under_hugging_face_names(make_model, make_rows, optimisation):
    learner = Learner(make_model(tie_word_embeddings=True), optimisation)
    learner.step(make_rows(4), Likelihood())
    fresh = make_model(seed=5, tie_word_embeddings=True)
    fresh.load_state_dict(learner.weights(), strict=True)
    tokens = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(fresh(tokens).logits, learner.model(tokens).logits, rtol=0, atol=0)
    before = learner.weights()
    learner.step(make_rows(4), Likelihood())
    assert largest_gap(before, learner.weights()) > 0, "weights() must be a copy"


def test_bfloat16_autocast_follows_float32(make_model, make_rows, optimisation):
    rows = make_rows(8)
    exact, _ = Learner(make_model(), optimisation).gradients(rows, Likelihood(), Denominators.of(rows))
    rough, _ = Learner(make_model(), optimisation, precision="bfloat16").gradients(
        rows, Likelihood(), Denominators.of(rows)
    )
    flat = lambda g: torch.cat([t.flatten() for t in g.values()])  # noqa: E731
    assert all(t.dtype == torch.float32 for t in rough.values())
    assert float(torch.cosine_similarity(flat(exact), flat(rough), dim=0)) > 0.99
    assert largest_gap(exact, rough) > 0.0


def test_the_first_update_of_a_policy_on_its_own_samples_has_ratio_one(make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    rows = on_policy(learner, make_rows(8), temperature=0.7, noise=0.0)
    metrics = learner.step(rows, replace(OBJECTIVES[0], temperature=0.7))
    assert metrics["max_logprob_gap"] < 1e-5
    assert metrics["ratio"] == pytest.approx(1.0, abs=1e-5)


def test_an_update_makes_rewarded_tokens_likelier_and_punished_ones_less(make_model, make_rows, optimisation):
    learner = Learner(make_model(), optimisation)
    good, bad = on_policy(learner, make_rows(2), 1.0, noise=0.0)
    rows = [replace(good, advantages_T=np.ones(len(good))), replace(bad, advantages_T=-np.ones(len(bad)))]
    before = learner.logprobs([row.tokens_T for row in rows])
    learner.step(rows, OBJECTIVES[0])
    after = learner.logprobs([row.tokens_T for row in rows])
    moved = [float((b - a)[row.mask_T].sum()) for a, b, row in zip(before, after, rows, strict=True)]
    assert moved[0] > 0 > moved[1]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.9 * 2 / 3 + 0.1, 0.9 / 3 + 0.1, 0.1]),
        ("cosine", [1 / 3, 2 / 3, 1, 0.9 * 0.75 + 0.1, 0.9 * 0.25 + 0.1, 0.1]),
    ],
)
def test_the_schedule_rises_and_falls(schedule, expected, optimisation):
    optimisation = replace(optimisation, lr=1.0, schedule=schedule, updates=6)
    assert [optimisation.rate(n) for n in range(6)] == pytest.approx(expected)
    assert optimisation.rate(100) == pytest.approx(expected[-1])


def test_a_stage_counts_its_schedule_in_updates():
    stage = Grpo(steps=10, updates_per_step=2, lr_warmup=3)
    found = Optimisation.of(stage, stage.steps, stage.updates_per_step)
    assert (found.updates, found.lr_warmup, found.lr) == (20, 6, 3e-4)
    warmup = Optimisation.of_warmup(Sft())
    assert (warmup.schedule, warmup.lr, warmup.updates) == ("constant", 4e-3, 350)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_tokens_are_measured_as_the_whole_softmax_has_them(temperature, make_model, make_rows, optimisation):
    model = make_model()
    rows = [*make_rows(5), replace(make_rows(1)[0], mask_T=np.zeros(len(make_rows(1)[0]), dtype=np.bool_))]
    learner = Learner(model, replace(optimisation, micro_batch=2 * max(map(len, rows))))
    found = learner.measured(rows, temperature)
    own = learner.logprobs([row.tokens_T for row in rows], temperature)
    for row, (logprobs_L, entropy_L), own_T in zip(rows, found, own, strict=True):
        with torch.no_grad():
            logits_TV = model(input_ids=torch.from_numpy(row.tokens_T.astype(np.int64))[None]).logits[0] / temperature
        table_TV = torch.log_softmax(logits_TV.double(), dim=1)
        at = np.flatnonzero(row.mask_T)
        wanted = -(table_TV.exp() * table_TV).sum(dim=1).numpy()[at - 1]
        assert entropy_L == pytest.approx(wanted, abs=1e-5)
        assert logprobs_L == pytest.approx(own_T[at].astype(np.float64), abs=1e-5)
    assert len(found[-1][0]) == 0
