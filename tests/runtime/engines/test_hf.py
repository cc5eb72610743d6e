from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlspec.runtime.engines import decode_choice
from rlspec.runtime.engines.hf import HfEngine
from rlspec.runtime.refusal import Refusal

VOCABULARY, CONTEXT, STOP = 90, 64, 2
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 96,
    "initializer_range": 0.1,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 96, "bos_token_id": 0, "eos_token_id": 0}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_model(family: str, seed: int = 0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        if family == "llama":
            model = LlamaForCausalLM(LlamaConfig(**SHAPE, num_attention_heads=2, num_key_value_heads=1))
        elif family == "llama3":  # three query heads per key head, biases, scaled positions, one table of embeddings
            rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0}
            rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 24}
            shape = SHAPE | {"hidden_size": 48, "attention_bias": True, "tie_word_embeddings": True}
            model = LlamaForCausalLM(
                LlamaConfig(**shape, num_attention_heads=6, num_key_value_heads=2, rope_parameters=rope)
            )
        elif family == "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**SHAPE, **heads))
        elif family == "qwen3":
            model = Qwen3ForCausalLM(Qwen3Config(**SHAPE, **heads, head_dim=16, tie_word_embeddings=True))
        else:
            model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, initializer_range=0.1, **GPT2))
        for name, value in model.named_parameters():  # norms and biases that are not 1 and 0
            if "norm" in name or "bias" in name:
                value.data += 0.2 * torch.randn_like(value)
    return model.eval()


DECODERS = ("CompiledDecoder", "FusedDecoder", "TransformersDecoder")


@pytest.fixture
def use(monkeypatch):
    """Make engines take this decoder."""

    def choose(decoder: str) -> None:
        if decoder != "CompiledDecoder":
            monkeypatch.setattr(decode_choice, "can_compile", lambda model: False)
        if decoder == "TransformersDecoder":
            monkeypatch.setattr(decode_choice, "can_fuse", lambda model: False)

    return choose


def make_engine(model, capacity: int = 4, temperature: float = 1.0, max_new_tokens: int = 9, **more) -> HfEngine:
    return HfEngine(model, capacity, CONTEXT, temperature, max_new_tokens, [STOP], **more)


def talk(engine: HfEngine, fed: dict[str, list[list[int]]], seed: int = 0) -> dict[str, list]:
    """Have conversations: feed a message's worth of tokens whenever one is finished, refill free slots. Returns
    (token, logprob or None, version) per conversation."""
    record: dict[str, list] = {key: [] for key in fed}
    waiting, turn = list(fed), dict.fromkeys(fed, 0)
    uniforms = {key: np.random.default_rng([seed, n]).random(CONTEXT) for n, key in enumerate(sorted(fed))}

    def say(key: str) -> None:
        tokens = fed[key][turn[key]]
        turn[key] += 1
        record[key] += [(token, None, None) for token in tokens]
        engine.feed(key, tokens)

    def start() -> None:
        key = waiting.pop(0)
        engine.open(key, uniforms[key])
        say(key)

    while waiting and len(fed) - len(waiting) < engine.capacity:
        start()
    while finished := engine.poll():
        for message in finished:
            record[message.key] += list(zip(message.tokens, message.logprobs, message.versions, strict=True))
            if message.finish != "context_limit" and turn[message.key] < len(fed[message.key]):
                say(message.key)
                continue
            engine.close(message.key)
            if waiting:
                start()
    return record


def script(count: int, turns: int = 3, seed: int = 5) -> dict[str, list[list[int]]]:
    rng = np.random.default_rng(seed)
    return {
        f"c{n}": [rng.integers(3, VOCABULARY, rng.integers(1, 9)).tolist() for _ in range(turns)] for n in range(count)
    }


def expected(model, tokens: list[int], temperature: float = 1.0) -> np.ndarray:
    """(L, V) log-probabilities of what comes behind each token."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double()
    return torch.log_softmax(logits / temperature, -1).numpy()


def worst_gap(model, record: dict[str, list], temperature: float = 1.0) -> float:
    worst = 0.0
    for said in record.values():
        table = expected(model, [token for token, _, _ in said], temperature)
        gaps = [abs(table[n - 1, token] - lp) for n, (token, lp, _) in enumerate(said) if lp is not None]
        assert gaps
        worst = max(worst, *gaps)
    return worst


@pytest.mark.parametrize(
    ("family", "decoder"),
    [(f, d) for f in ("llama", "llama3", "qwen2", "qwen3") for d in DECODERS] + [("gpt2", "TransformersDecoder")],
)
def test_logprobs_are_the_models_before_and_after_new_weights(family, decoder, use):
    use(decoder)
    model, fed = make_model(family), script(9)
    engine = make_engine(model)
    assert type(engine._decoder).__name__ == decoder
    assert worst_gap(make_model(family), talk(engine, fed)) < 1e-5
    new = make_model(family, seed=1)
    engine.load_weights(new.state_dict(), version=7)
    assert engine.version == 7
    record = talk(engine, fed)
    assert worst_gap(new, record) < 1e-5
    assert {version for said in record.values() for _, _, version in said} == {None, 7}
    tokens = [token for token, _, _ in record["c0"]]
    given = engine.logprobs([tokens, tokens[:5], tokens[:1], []])
    assert [len(row) for row in given] == [len(tokens), 5, 1, 0]
    table = expected(new, tokens)
    assert math.isnan(given[0][0])
    assert max(abs(table[n - 1, tokens[n]] - given[0][n]) for n in range(1, len(tokens))) < 1e-5
    assert given[1][1:] == pytest.approx(given[0][1:5], abs=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_temperature_is_that_of_the_logprobs(decoder, use):
    use(decoder)
    model = make_model("llama")
    engine = make_engine(model, temperature=0.5)
    record = talk(engine, script(3))
    assert worst_gap(model, record, 0.5) < 2e-5
    engine.configure(2.0, 3)
    record = talk(engine, script(3))
    assert worst_gap(model, record, 2.0) < 1e-5
    tokens = [token for token, _, _ in record["c1"]]
    assert engine.logprobs([tokens])[0][5] == pytest.approx(expected(model, tokens, 2.0)[4, tokens[5]], abs=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_tokens_follow_the_uniforms(decoder, use):
    """The token at position p is the inverse distribution function of uniforms[p]."""
    use(decoder)
    model = make_model("qwen2")
    record = talk(make_engine(model), {"c0": [[5, 6, 7], [8, 9]]})
    tokens = [token for token, _, _ in record["c0"]]
    table = np.exp(expected(model, tokens))
    uniforms = np.random.default_rng([0, 0]).random(CONTEXT)
    sampled = [n for n, (_, lp, _) in enumerate(record["c0"]) if lp is not None]
    assert len(sampled) > 5
    for n in sampled:
        mass = np.cumsum(table[n - 1])
        assert tokens[n] == np.searchsorted(mass, uniforms[n] * mass[-1], side="right")


@pytest.mark.parametrize("decoder", DECODERS)
def test_extreme_uniforms_draw_tokens_that_have_mass(decoder, use):
    use(decoder)
    model = make_model("llama")
    head = model.lm_head.weight.data
    head.zero_()
    model.model.norm.weight.data.zero_()
    bias = torch.zeros(VOCABULARY)
    bias[[0, VOCABULARY - 1]] = -1e4  # no bias exists: give the logits through one feature instead
    head[:, 0] = bias
    model.model.norm.weight.data[0] = 1.0
    model.model.embed_tokens.weight.data[:, 0] = 50.0  # the feature is positive after the norm
    engine = make_engine(model, max_new_tokens=1)
    for n, uniform in enumerate((0.0, np.nextafter(1.0, 0.0))):
        engine.open(str(n), np.full(CONTEXT, uniform))
        engine.feed(str(n), [3, 4])
    drawn = {message.key: message.tokens[0] for _ in range(2) for message in engine.poll()}
    assert drawn == {"0": 1, "1": VOCABULARY - 2}


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_refilled_slot_is_like_a_fresh_engine(decoder, use):
    use(decoder)
    fed = script(11)
    together = talk(make_engine(make_model("llama"), capacity=3), fed)
    for n, key in enumerate(sorted(fed)):
        engine = make_engine(make_model("llama"), capacity=1)
        engine.open(key, np.random.default_rng([0, n]).random(CONTEXT))
        alone = []
        for tokens in fed[key]:
            alone += tokens
            engine.feed(key, tokens)
            (message,) = engine.poll()
            alone += message.tokens
        assert [token for token, _, _ in together[key]] == alone


def test_compiled_numbers_do_not_depend_on_the_batch():
    fed = script(13)
    alone: dict[str, list] = {}
    for capacity in (1, 2, 5, 13):
        record = talk(make_engine(make_model("qwen3"), capacity), fed)
        alone = alone or record
        assert record == alone, capacity


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_second_run_is_the_same(decoder, use):
    use(decoder)
    runs = [talk(make_engine(make_model("llama")), script(7)) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("decoder", DECODERS)
def test_tokens_may_be_fed_in_parts_and_in_long_stretches(decoder, use):
    use(decoder)
    model = make_model("llama")
    long = np.random.default_rng(1).integers(3, VOCABULARY, 30).tolist()
    whole, parts = make_engine(model, chunk=8), make_engine(model, chunk=64)
    for engine, cuts in ((whole, [long]), (parts, [long[:10], long[10:11], long[11:]])):
        for key in ("a", "b"):  # two rows at different positions
            engine.open(key, np.full(CONTEXT, 0.37))
        engine.feed("b", long[:3])
        engine.poll()
        for part in cuts:
            engine.feed("a", part)
    (first,), (second,) = ([m for m in engine.poll() if m.key == "a"] for engine in (whole, parts))
    assert first.tokens == second.tokens
    assert first.logprobs == pytest.approx(second.logprobs, abs=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_messages_end_by_stop_turn_and_context(decoder, use):
    use(decoder)
    model = make_model("llama")
    engine = make_engine(model, max_new_tokens=4)
    uniforms = np.full(CONTEXT, 0.5)
    engine.open("turn", uniforms)
    engine.feed("turn", [5, 6])
    (message,) = engine.poll()
    assert (message.finish, len(message.tokens)) == ("turn_limit", 4)
    assert STOP not in message.tokens
    engine.open("context", uniforms)
    engine.feed("context", [7] * (CONTEXT - 2))
    (message,) = engine.poll()
    assert (message.finish, len(message.tokens)) == ("context_limit", 2)
    for key, tokens in (("full", [7] * CONTEXT), ("over", [7] * (CONTEXT + 9))):
        engine.open(key, uniforms)
        engine.feed(key, tokens)
        assert [(m.key, m.finish, m.tokens) for m in engine.poll()] == [(key, "context_limit", [])]
        engine.close(key)
    stops = HfEngine(model, 1, CONTEXT, 1.0, 40, list(range(VOCABULARY)))
    stops.open("stop", uniforms)
    stops.feed("stop", [5, 6])
    (message,) = stops.poll()
    assert (message.finish, len(message.tokens)) == ("stop", 1)
    assert engine.poll() == []


@pytest.mark.parametrize("decoder", DECODERS)
def test_weights_may_change_while_conversations_go_on(decoder, use):
    """Every token is sampled, with its whole past, from the weights whose version it carries."""
    use(decoder)
    models = [make_model("llama", seed=n) for n in range(2)]
    engine = make_engine(make_model("llama", seed=9), max_new_tokens=6, capacity=3)
    engine.load_weights(models[0].state_dict(), 0)
    record: dict[str, list] = {}
    for n in range(3):
        engine.open(f"{n}", np.random.default_rng(n).random(CONTEXT))
        fed = list(range(3, 5 + 3 * n))
        engine.feed(f"{n}", fed)
        record[f"{n}"] = [(token, None, None) for token in fed]
    for step in range(12):
        for message in engine.poll():
            record[message.key] += list(zip(message.tokens, message.logprobs, message.versions, strict=True))
            if message.finish != "context_limit":
                engine.feed(message.key, [11, 12])
                record[message.key] += [(11, None, None), (12, None, None)]
        engine.load_weights(models[(step + 1) % 2].state_dict(), (step + 1) % 2)
    spans = set()
    for said in record.values():
        tables = [expected(model, [token for token, _, _ in said]) for model in models]
        for n, (token, logprob, version) in enumerate(said):
            if logprob is not None:
                spans.add(version)
                assert tables[version][n - 1, token] == pytest.approx(logprob, abs=1e-5)
    assert spans == {0, 1}


def test_a_conversation_does_not_notice_that_others_are_closed():
    fed = script(1, turns=4)["c0"]

    def run(others: bool) -> list[int]:
        engine, said = make_engine(make_model("llama")), []
        if others:
            engine.open("other", None, seed=1)
            engine.feed("other", [4, 5, 6])
        engine.open("c", np.random.default_rng(3).random(CONTEXT))
        for n, tokens in enumerate(fed):
            engine.feed("c", tokens)
            if others and n == 1:
                engine.close("other")  # awaits or not: its slot is taken by "c"
            while not (mine := [m for m in engine.poll() if m.key == "c"]):
                pass
            said += mine[0].tokens
        return said

    assert run(True) == run(False)


def test_seeds_stand_in_for_uniforms():
    def run(seed: int) -> list[int]:
        engine = make_engine(make_model("llama"))
        engine.open("a", None, seed)
        engine.feed("a", [5])
        return engine.poll()[0].tokens

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_wrong_use_is_an_error():
    engine = make_engine(make_model("llama"), capacity=1)
    uniforms = np.zeros(CONTEXT)
    for call in (lambda: engine.feed("a", [1]), lambda: engine.close("a")):
        with pytest.raises(KeyError):
            call()
    with pytest.raises(ValueError, match="uniforms"):
        engine.open("a", uniforms[:-1])
    engine.open("a", uniforms)
    with pytest.raises(KeyError, match="open already"):
        engine.open("a", uniforms)
    with pytest.raises(ValueError, match="slots"):
        engine.open("b", uniforms)
    for token in (-1, VOCABULARY):
        with pytest.raises(ValueError, match="vocabulary"):
            engine.feed("a", [3, token])
        with pytest.raises(ValueError, match="vocabulary"):
            engine.logprobs([[3, token]])
    with pytest.raises(ValueError, match="context"):
        engine.logprobs([[3] * (CONTEXT + 1)])
    engine.feed("a", [])
    with pytest.raises(ValueError, match="at least one token"):
        engine.poll()
    for wrong in ({"temperature": 0.0}, {"capacity": 0}, {"max_new_tokens": 0}, {"chunk": 1}):
        with pytest.raises(ValueError, match="needed"):
            make_engine(make_model("llama"), **wrong)
    with pytest.raises(ValueError, match="needed"):
        engine.configure(-1.0, 4)


def test_weights_that_do_not_fit_are_errors():
    engine, state = make_engine(make_model("llama")), make_model("llama").state_dict()
    name = "model.norm.weight"
    for wrong in (
        {n: v for n, v in state.items() if n != name},
        state | {"model.extra": state[name]},
        state | {name: state[name][:4]},
    ):
        with pytest.raises(ValueError, match="do not fit"):
            engine.load_weights(wrong, 1)
    assert engine.version == -1


def test_a_tied_head_need_not_be_sent():
    model, new = make_model("qwen3"), make_model("qwen3", seed=1)
    engine = make_engine(model)
    engine.load_weights({n: v for n, v in new.state_dict().items() if n != "lm_head.weight"}, 1)
    assert worst_gap(new, talk(engine, script(3))) < 1e-5


@pytest.mark.parametrize("decoder", DECODERS)
def test_broken_weights_are_noticed(decoder, use):
    use(decoder)
    engine, state = make_engine(make_model("llama")), make_model("llama").state_dict()
    engine.load_weights(state | {"model.norm.weight": torch.full((32,), float("nan"))}, 1)
    engine.open("a", np.zeros(CONTEXT))
    engine.feed("a", [3, 4])
    with pytest.raises(FloatingPointError, match="weights 1"):
        engine.poll()


def test_a_context_beyond_the_models_is_refused():
    with pytest.raises(Refusal, match="RLC0505"):
        HfEngine(make_model("llama"), 2, 97, 1.0, 4, [STOP])


def test_a_model_without_keys_and_values_is_refused():
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2)
    with pytest.raises(Refusal, match="RLC0505"):
        HfEngine(MambaForCausalLM(config).eval(), 2, CONTEXT, 1.0, 4, [STOP])
