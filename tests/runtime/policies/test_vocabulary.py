from __future__ import annotations

import json

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlspec.runtime.policies import tiny, vocabulary
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.worlds.protocol import Call, Message

ANYTHING = st.text(st.characters(exclude_categories=("Cs",)))
BITS = st.lists(
    st.sampled_from(
        [" ", "  ", "W101", "mug", '", "', '{"', "\ue000", "\ue001", "\ue0021", "<|im_end|>", "é", "\n", ".", "-", "'"]
    )
).map("".join)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANYTHING | BITS)
@example("\ue0020 \ue002\ue000 1\ue001")
@example("<0x41> a\x00b")
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_a_word_is_one_token_wherever_it_stands(tokenizer):
    (word,) = tokenizer("W101", add_special_tokens=False)["input_ids"]
    for text in ("cancel W101 please", '{"order_id": "W101"}', "W101.", "(W101)", '{"W101": "pending"}'):
        assert tokenizer(text, add_special_tokens=False)["input_ids"].count(word) == 1, text


def test_every_word_of_the_corpus_is_one_token(tokenizer, corpus):
    bytes_and_marks = set(range(3, 261))
    for dialogue in corpus[:50]:
        for message in dialogue.messages:
            assert not bytes_and_marks & set(tokenizer(message.text, add_special_tokens=False)["input_ids"]), message


def test_ids_that_are_keys_are_values(tokenizer):
    tokens = tokenizer(json.dumps({"status": "pending", "items": {"mug": "red"}}), add_special_tokens=False)
    shown = [tokenizer.decode([token]) for token in tokens["input_ids"]]
    assert shown[:6] == ['{"status": "', "pending", '", "items": {"', "mug", '": "', "red"]


def test_scaffolding_is_one_token_per_piece(renderer, corpus):
    opening = renderer.opening(corpus[0].system, corpus[0].tools, "hi")
    assert [len(piece.tokens) for piece in opening] == [1, 2 + len(renderer.tokenizer("hi")["input_ids"])]
    call = next(m for m in corpus[0].messages if m.call is not None and m.call.name == "get_order")
    assert len(renderer.agent(call).tokens) == 4  # head, id, tail, stop
    assert len(renderer.tool('{"ok": true}').tokens) == 3


def test_a_dialogue_is_short(renderer, corpus):
    lengths = [sum(len(piece.tokens) for piece in renderer.dialogue(d)) for d in corpus]
    assert sum(lengths) / len(lengths) < 110


def test_phrases_are_the_agents_only(corpus):
    template = tiny.TEMPLATE.read_text()
    with_phrases, without = (vocabulary.train(template, corpus, 4096, phrases) for phrases in (True, False))
    said = "May I have your name and zip code?"
    assert len(with_phrases(said)["input_ids"]) == 1
    assert len(without(said)["input_ids"]) == 9
    assert len(with_phrases("yes please")["input_ids"]) == 2


def test_a_phrase_is_not_found_inside_words(corpus):
    tokenizer = vocabulary.train(tiny.TEMPLATE.read_text(), corpus, 4096, phrases=True)
    inside = tokenizer("xMay I have your name and zip code?")["input_ids"]
    assert tokenizer.convert_tokens_to_ids("May I have your name and zip code?") not in inside


def test_a_small_vocabulary_keeps_its_size_and_its_bytes(corpus):
    tokenizer = vocabulary.train(tiny.TEMPLATE.read_text(), corpus, 300, phrases=True)
    assert len(tokenizer) <= 300
    text = "Jörg wants W139, ünknown"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_same_corpus_gives_the_same_tokenizer(corpus, tokenizer):
    again = vocabulary.train(tiny.TEMPLATE.read_text(), corpus, 4096, phrases=True)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_a_tool_that_the_task_names_is_called_by_the_same_token():
    told = "double each . tools : double ( x ) , add ( a b )"
    calls = [Call("double", {"x": 3}), Call("add", {"a": 0, "b": 6}), Call("submit", {"answer": 6})]
    messages = [Message("user", told)]
    for call in calls:
        messages += [Message("agent", "", call), Message("tool", "6")]
    corpus = [Dialogue("help", (), messages)] * 20
    tokenizer = vocabulary.train(tiny.TEMPLATE.read_text(), corpus, 4096, phrases=True)
    renderer = Renderer(tokenizer)
    seen = renderer.opening("help", (), told)[-1].tokens
    for name, message in zip(("double", "add"), messages[1::2], strict=False):
        (token,) = tokenizer(name, add_special_tokens=False)["input_ids"]
        assert token in seen
        assert token in renderer.agent(message).tokens
    shown = [tokenizer.decode([token]) for token in renderer.agent(messages[5]).tokens]
    assert shown[0] == '<tool_call>\n{"name": "submit", "arguments": {"answer": '
