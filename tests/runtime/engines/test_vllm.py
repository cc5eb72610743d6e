"""The vLLM engine against transformers: log-probabilities, versions, limits, updates in flight, and in a Ray
actor.

One engine serves all tests of this file but the last, which makes one in a process of its own: vLLM takes ten
seconds to start and keeps process-wide state.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlspec.runtime.engines.protocol import Sampled
from rlspec.runtime.engines.vllm import VllmEngine
from rlspec.runtime.refusal import Refusal

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed: make env-vllm", allow_module_level=True)

pytestmark = pytest.mark.vllm

VOCABULARY, STOP, TEMPERATURE = 701, 3, 0.7
CAPACITY, CONTEXT, TURN = 16, 200, 24
State = dict[str, torch.Tensor]


def tiny_model(*, tied: bool, head_size: int = 32) -> LlamaForCausalLM:
    """Three layers of width 64, with weights large enough for a distribution that is far from flat."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=head_size,
        max_position_embeddings=1024,
        tie_word_embeddings=tied,
        initializer_range=0.15,
    )
    return LlamaForCausalLM(config).float().eval()


def moved(state: State, scale: float, seed: int = 1) -> State:
    generator = torch.Generator().manual_seed(seed)
    new = {name: value + scale * torch.randn(value.shape, generator=generator) for name, value in state.items()}
    if "lm_head.weight" in state and torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"]):
        new["lm_head.weight"] = new["model.embed_tokens.weight"]
    return new


class Reference:
    """transformers' log-probabilities of a context under given weights, (T, V), float64."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.model = model
        self.base = {name: value.clone() for name, value in model.state_dict().items()}

    def __call__(self, state: State, tokens: list[int], temperature: float = TEMPERATURE) -> torch.Tensor:
        self.model.load_state_dict(state)
        with torch.no_grad():
            return torch.log_softmax(self.model(torch.tensor([tokens])).logits[0].double() / temperature, dim=-1)

    def error(
        self,
        prompt: list[int],
        message: Sampled,
        states: dict[int, State],
        temperature: float = TEMPERATURE,
    ) -> float:
        """Largest difference, in nats, between a message's log-probabilities and those of each token's
        version."""
        context, worst = prompt + message.tokens, 0.0
        rows = {version: self(states[version], context, temperature) for version in set(message.versions)}
        for k, token in enumerate(message.tokens):
            expected = rows[message.versions[k]][len(prompt) + k - 1, token].item()
            worst = max(worst, abs(message.logprobs[k] - expected))
        return worst


def prompt_of(length: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(4, VOCABULARY, size=length).tolist()


def global_numpy_state() -> list[int]:
    return np.random.get_state(legacy=False)["state"]["key"].tolist()


def drain(engine: VllmEngine) -> dict[str, Sampled]:
    messages: dict[str, Sampled] = {}
    while batch := engine.poll():
        messages |= {message.key: message for message in batch}
    return messages


@pytest.fixture(scope="module")
def reference() -> Reference:
    torch.set_num_threads(1)
    return Reference(tiny_model(tied=True))


@pytest.fixture(scope="module")
def made(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    """The engine of this file, from a checkpoint whose own generation config would ruin the sampling."""
    folder = tmp_path_factory.mktemp("policy")
    reference.model.save_pretrained(folder)
    spoiled = {"do_sample": True, "top_k": 1, "repetition_penalty": 2.0, "eos_token_id": list(range(4, 300))}
    (folder / "generation_config.json").write_text(json.dumps(spoiled))
    states = torch.get_rng_state(), random.getstate(), global_numpy_state()
    preload, set_num_threads = os.environ.get("LD_PRELOAD"), torch.set_num_threads
    engine = VllmEngine(
        folder,
        capacity=CAPACITY,
        context=CONTEXT,
        max_new_tokens=TURN,
        stop_tokens=[STOP],
        temperature=TEMPERATURE,
    )
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert states[2] == global_numpy_state()
    assert os.environ.get("LD_PRELOAD") == preload
    assert torch.set_num_threads is set_num_threads
    assert engine.version == -1
    assert engine.capacity == CAPACITY
    yield engine
    engine.shutdown()


@pytest.fixture
def engine(made: VllmEngine, reference: Reference) -> Iterator[VllmEngine]:
    """The engine under the folder's weights as version 0, and without conversations afterwards."""
    made.load_weights(reference.base, 0)
    yield made
    for key in list(made._conversations):
        made.close(key)
    assert not made._engine.has_unfinished_requests()


def test_sampled_logprobs_are_those_of_transformers_before_and_after_an_update(
    engine: VllmEngine, reference: Reference
) -> None:
    states = {0: reference.base, 1: moved(reference.base, 0.02)}
    for version, state in states.items():
        engine.load_weights(state, version)
        prompts = {f"{version}/{i}": prompt_of(20 + 7 * i, i) for i in range(8)}
        for i, (key, prompt) in enumerate(prompts.items()):
            engine.open(key, None, seed=i)
            engine.feed(key, prompt)
        messages = drain(engine)
        assert {v for message in messages.values() for v in message.versions} == {version}
        assert max(reference.error(prompts[key], messages[key], states) for key in prompts) < 5e-5
        for key in prompts:
            engine.close(key)


def test_an_update_in_flight_labels_every_token_with_the_weights_that_sampled_it(
    engine: VllmEngine, reference: Reference
) -> None:
    states = {0: reference.base, 1: moved(reference.base, 0.05)}
    # Together longer than vLLM's token budget of a step, so that the preempted ones come back in several.
    prompts = {str(i): prompt_of(160, 50 + i) for i in range(CAPACITY - 1)}
    prompts["short"] = prompt_of(CONTEXT - 5, 99)
    for i, (key, prompt) in enumerate(prompts.items()):
        engine.open(key, None, seed=i)
        engine.feed(key, prompt)
    messages = {message.key: message for message in engine.poll()}
    assert all(set(message.versions) == {0} for message in messages.values())
    engine.load_weights(states[1], 1)
    messages |= drain(engine)
    assert messages.keys() == prompts.keys()
    assert all(message.versions == sorted(message.versions) for message in messages.values())
    assert sum(set(message.versions) == {0, 1} for message in messages.values()) > CAPACITY // 2
    assert max(reference.error(prompts[m.key], m, states) for m in messages.values()) < 5e-5


def test_an_update_to_the_same_weights_changes_no_token(engine: VllmEngine, reference: Reference) -> None:
    spoken = []
    for update in (False, True):
        for i in range(4):
            engine.open(str(i), None, seed=i)
            engine.feed(str(i), prompt_of(30, i))
        engine.open("short", None)
        engine.feed("short", prompt_of(CONTEXT - 5, 99))
        messages = {message.key: message for message in engine.poll()}
        assert len(messages) < 5
        if update:
            engine.load_weights(reference.base, 7)
        messages |= drain(engine)
        spoken.append({key: message.tokens for key, message in messages.items()})
        for key in [*map(str, range(4)), "short"]:
            engine.close(key)
    assert spoken[0] == spoken[1]


@pytest.mark.parametrize("reset", [True, False])
def test_a_shared_prefix_is_not_served_from_the_old_weights(
    engine: VllmEngine, reference: Reference, monkeypatch: pytest.MonkeyPatch, reset: bool
) -> None:
    # vLLM does not reset its prefix cache on an update: without the engine's reset the log-probabilities are
    # wrong, and the scored probe cannot tell, because scoring does not read the cache.
    states = {0: reference.base, 1: moved(reference.base, 0.05)}
    prompt = prompt_of(160, 5)
    engine.open("old", None)
    engine.feed("old", prompt)
    drain(engine)
    if not reset:
        monkeypatch.setattr(engine._engine, "reset_prefix_cache", lambda **_: True)
    engine.load_weights(states[1], 1)
    engine.open("new", None)
    engine.feed("new", prompt)
    error = reference.error(prompt, drain(engine)["new"], states)
    monkeypatch.undo()
    engine.load_weights(reference.base, 0)
    if reset:
        assert error < 5e-5
    else:
        assert error > 1e-2


def test_a_sync_that_does_nothing_is_refused(
    engine: VllmEngine, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine._engine, "collective_rpc", lambda *_, **__: [None])
    with pytest.raises(Refusal, match=r"RLC0708.*version 1 did not reach the sampler.*off by"):
        engine.load_weights(moved(reference.base, 0.02), 1)


def test_a_small_update_that_does_nothing_is_refused(
    engine: VllmEngine, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = moved(reference.base, 3e-7)
    engine.load_weights(small, 1)
    monkeypatch.setattr(engine._engine, "collective_rpc", lambda *_, **__: [None])
    with pytest.raises(Refusal, match=r"RLC0708.*stood still where \S+ nats were due"):
        engine.load_weights(moved(small, 3e-7, seed=2), 2)


@pytest.mark.parametrize("left_out", ["lm_head", "layers.1.mlp.down_proj", "model.norm"])
def test_a_sync_that_leaves_a_layer_out_is_refused(
    engine: VllmEngine, reference: Reference, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    whole = engine._engine.collective_rpc

    def partial(method: str, kwargs: dict) -> list:
        return whole(
            method,
            kwargs={"weights_iterator": (w for w in kwargs["weights_iterator"] if left_out not in w[0])},
        )

    monkeypatch.setattr(engine._engine, "collective_rpc", partial)
    with pytest.raises(Refusal, match="RLC0708"):
        engine.load_weights(moved(reference.base, 0.05), 1)


def test_the_weights_are_copied(engine: VllmEngine, reference: Reference) -> None:
    state = {name: value.clone() for name, value in reference.base.items()}
    engine.load_weights(state, 1)
    for value in state.values():
        value.add_(1.0)
    prompt = prompt_of(40, 3)
    engine.open("a", None)
    engine.feed("a", prompt)
    assert reference.error(prompt, drain(engine)["a"], {1: reference.base}) < 5e-5


def test_scored_tokens_are_those_of_transformers(engine: VllmEngine, reference: Reference) -> None:
    sequences = [prompt_of(length, length) for length in (CONTEXT, 1, 2, 33)] + [[]]
    scored = engine.logprobs(sequences)
    assert [len(row) for row in scored] == [len(row) for row in sequences]
    for tokens, row in zip(sequences, scored, strict=True):
        assert all(np.isnan(row[:1]))
        expected = reference(reference.base, tokens or [0])[:-1].gather(
            1, torch.tensor(tokens[1:], dtype=torch.long)[:, None]
        )
        np.testing.assert_allclose(row[1:], expected[:, 0].numpy(), atol=5e-5)


def test_a_full_engine_scores_while_messages_go_on(engine: VllmEngine, reference: Reference) -> None:
    prompts = {str(i): prompt_of(30, i) for i in range(CAPACITY)}
    for i, (key, prompt) in enumerate(prompts.items()):
        engine.open(key, None, seed=i)
        engine.feed(key, prompt)
    many = [prompt_of(40, i) for i in range(20)]
    assert len(engine.logprobs(many)) == 20
    messages = drain(engine)
    assert messages.keys() == prompts.keys()
    assert max(reference.error(prompts[key], messages[key], {0: reference.base}) for key in prompts) < 5e-5


def test_turns_continue_the_same_context_and_prefill_new_tokens_only(
    engine: VllmEngine, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, cached = engine._engine.step, list[int]()

    def watched() -> list:
        outputs = step()
        cached.extend(output.num_cached_tokens for output in outputs)
        return outputs

    monkeypatch.setattr(engine._engine, "step", watched)
    context: list[int] = []
    engine.open("talk", None, seed=4)
    for turn in range(4):
        fed = prompt_of(40 if turn == 0 else 9, turn)
        engine.feed("talk", fed)
        (message,) = engine.poll()
        context += fed
        assert reference.error(context, message, {0: reference.base}) < 5e-5
        context += message.tokens
    # Whole blocks of the earlier turns came from the cache (the last token of a context is never cached).
    assert cached[0] == 0
    assert all(later >= 32 for later in cached[1:])
    assert cached == sorted(cached)
    assert engine.poll() == []


def test_stop_tokens_and_limits_end_messages(engine: VllmEngine, reference: Reference) -> None:
    eager = {name: value.clone() for name, value in reference.base.items()}
    prompt = prompt_of(30, 1)
    # A stop token that is the likeliest everywhere: its row of the tied embedding points where the contexts
    # point.
    with torch.no_grad():
        reference.model.load_state_dict(eager)
        hidden = reference.model.model(torch.tensor([prompt])).last_hidden_state[0, -1]
    eager["model.embed_tokens.weight"][STOP] = 3 * hidden / hidden.norm()
    eager["lm_head.weight"] = eager["model.embed_tokens.weight"]
    engine.load_weights(eager, 1)
    engine.open("stop", None)
    engine.feed("stop", prompt)
    (message,) = engine.poll()
    assert (message.tokens, message.finish, message.versions) == ([STOP], "stop", [1])

    engine.load_weights(reference.base, 2)
    engine.open("turn", None)
    engine.feed("turn", prompt)
    (message,) = engine.poll()
    assert (len(message.tokens), message.finish) == (TURN, "turn_limit")
    engine.feed("turn", [])
    (message,) = engine.poll()
    assert len(message.tokens) == TURN

    engine.open("context", None)
    engine.feed("context", prompt_of(CONTEXT - 3, 1))
    (message,) = engine.poll()
    assert (len(message.tokens), message.finish) == (3, "context_limit")
    engine.feed("context", [5, 6])
    assert engine.poll() == [Sampled("context", [], [], [], "context_limit")]


def test_a_seed_gives_the_same_tokens_alone_and_in_a_crowd(engine: VllmEngine) -> None:
    engine.open("9", None, seed=11)
    engine.feed("9", prompt_of(25, 0))
    alone = drain(engine)["9"].tokens
    engine.close("9")
    for i in range(CAPACITY):
        engine.open(str(i), None, seed=11)
        engine.feed(str(i), prompt_of(25, 0))
    crowd = drain(engine)
    assert crowd["9"].tokens == alone
    assert len({tuple(message.tokens) for message in crowd.values()}) >= CAPACITY - 1


def test_temperature_and_length_can_be_set_between_messages(engine: VllmEngine, reference: Reference) -> None:
    prompt = prompt_of(40, 8)
    engine.open("a", None)
    engine.configure(1.0, 5)
    try:
        engine.feed("a", prompt)
        (message,) = engine.poll()
        (scored,) = engine.logprobs([prompt + message.tokens])
    finally:
        engine.configure(TEMPERATURE, TURN)
    assert len(message.tokens) == 5
    assert reference.error(prompt, message, {0: reference.base}, temperature=1.0) < 5e-5
    np.testing.assert_allclose(scored[len(prompt) :], message.logprobs, atol=5e-5)


def test_tokens_are_drawn_from_the_distribution_that_is_reported(engine: VllmEngine, reference: Reference) -> None:
    # Mean surprisal against entropy: top-k, penalties or another temperature would move it by many errors.
    prompt = prompt_of(CONTEXT - 1, 2)
    logprobs = reference(reference.base, prompt)[-1]
    entropy = -(logprobs.exp() * logprobs).sum().item()
    surprisals: list[float] = []
    for wave in range(40):
        for i in range(CAPACITY):
            engine.open(str(i), None, seed=wave * CAPACITY + i)
            engine.feed(str(i), prompt)
        surprisals += [-message.logprobs[0] for message in drain(engine).values()]
        for i in range(CAPACITY):
            engine.close(str(i))
    standard_error = np.std(surprisals) / len(surprisals) ** 0.5
    assert abs(np.mean(surprisals) - entropy) < 4 * standard_error


def test_the_process_keeps_its_random_state(engine: VllmEngine, reference: Reference) -> None:
    before = torch.get_rng_state()
    engine.open("a", None)
    engine.feed("a", prompt_of(20, 0))
    drain(engine)
    engine.logprobs([prompt_of(20, 0)])
    engine.load_weights(reference.base, 3)
    assert torch.equal(before, torch.get_rng_state())


def test_closing_aborts_the_message_in_flight(engine: VllmEngine) -> None:
    for key in ("kept", "closed"):
        engine.open(key, None)
        engine.feed(key, prompt_of(20, 0))
    engine.close("closed")
    assert drain(engine).keys() == {"kept"}
    engine.open("closed", None)
    engine.feed("closed", prompt_of(20, 0))
    assert drain(engine).keys() == {"closed"}
    engine.feed("kept", prompt_of(CONTEXT, 0))
    engine.close("kept")
    assert engine.poll() == []


def test_misuse_is_refused(engine: VllmEngine, reference: Reference) -> None:
    engine.open("a", None)
    with pytest.raises(KeyError):
        engine.open("a", None)
    for call in (lambda: engine.feed("b", [5]), lambda: engine.close("b")):
        with pytest.raises(KeyError):
            call()
    for token in (VOCABULARY, -1):
        with pytest.raises(ValueError, match="vocabulary"):
            engine.feed("a", [token])
    engine.feed("a", [])
    with pytest.raises(ValueError, match="at least one token"):
        engine.poll()
    engine.feed("a", [5])
    engine.feed("a", [6, 7])
    engine.open("full", None)
    engine.feed("full", prompt_of(CONTEXT, 0))
    assert engine.poll() == [Sampled("full", [], [], [], "context_limit")]
    engine.close("full")
    assert engine._conversations["a"].tokens == [5, 6, 7]
    with pytest.raises(KeyError):
        engine.feed("a", [5])
    with pytest.raises(ValueError, match="to score"):
        engine.logprobs([prompt_of(CONTEXT + 1, 0)])
    for i in range(CAPACITY - 1):
        engine.open(str(i), None)
    with pytest.raises(ValueError, match="slots are in use"):
        engine.open("one too many", None)
    with pytest.raises(Refusal, match=r"RLC0708.*model.norm.weight is missing"):
        engine.load_weights({n: v for n, v in reference.base.items() if n != "model.norm.weight"}, 1)
    assert engine.version == 0
    assert len(drain(engine)) == 1


def test_heads_without_a_kernel_are_refused(made: VllmEngine, tmp_path: Path) -> None:
    tiny_model(tied=True, head_size=16).save_pretrained(tmp_path)
    with pytest.raises(Refusal, match=r"RLC0710.*heads have size 16"):
        VllmEngine(tmp_path, 1, 8, 1.0, 1, [])


def test_in_a_ray_actor_with_weights_through_the_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temperature 1, and an untied output layer: what the engine above is not."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    reference = Reference(tiny_model(tied=False))
    reference.model.save_pretrained(tmp_path)
    states = {0: reference.base, 1: moved(reference.base, 0.02)}
    prompts = {str(i): prompt_of(20 + i, i) for i in range(4)}

    class Sampler:
        def __init__(self, folder: str) -> None:
            self.engine = VllmEngine(folder, 4, 96, 1.0, 16, [STOP])

        def sample(self, state: State, version: int) -> tuple[list[Sampled], list[list[float]]]:
            self.engine.load_weights(state, version)
            for i, (key, prompt) in enumerate(prompts.items()):
                self.engine.open(key, None, seed=i)
                self.engine.feed(key, prompt)
            messages: list[Sampled] = []
            while batch := self.engine.poll():
                messages += batch
            for key in prompts:
                self.engine.close(key)
            return messages, self.engine.logprobs(list(prompts.values()))

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        configure_logging=False,
    )
    try:
        actor = ray.remote(num_cpus=1)(Sampler).remote(str(tmp_path))
        for version, state in states.items():
            call = actor.sample.remote(ray.put(state), version)
            messages, scored = ray.get(call, timeout=120)
            assert {m.key for m in messages} == prompts.keys()
            assert {v for m in messages for v in m.versions} == {version}
            assert max(reference.error(prompts[m.key], m, states, temperature=1.0) for m in messages) < 5e-5
            for tokens, row in zip(prompts.values(), scored, strict=True):
                rows = reference(state, tokens, temperature=1.0)[:-1]
                expected = rows.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
                np.testing.assert_allclose(row[1:], expected.numpy(), atol=5e-5)
    finally:
        ray.shutdown()
