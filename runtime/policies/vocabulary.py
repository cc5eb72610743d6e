"""A tokenizer made for one corpus of dialogues: a word is a token wherever it stands, scaffolding is a token
each.

What a small model must learn first is to copy names and ids from what it has read into what it writes. That
works when a word is the same token after a space, after a quote and at a line's end. So words carry no space
here: the single space between two words is implied, everything else between words (", ", `": "`) is a token,
and

- every word of the corpus is one token; an unknown word is spelt in bytes between two marks, so any text
  survives;
- what the chat template writes around messages is one token per piece, and a whole system text with its tools
  is one;
- JSON is cut at its values: `{"order_id": "` and `", "status": "` are tokens, the values between them are
  words;
- the agent's recurring phrases are tokens (optional), cut at words that are values somewhere; the user's are
  words.

It is made of the stock parts of the `tokenizers` library, so that it loads anywhere without code of ours:
normalisation puts marks around words and drops the spaces between two of them, decoding does the reverse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlspec.runtime.policies.chat import Dialogue, Frame, frame, write
from rlspec.runtime.worlds.protocol import Message

BEGIN, END, ESCAPE = "\ue000", "\ue001", "\ue002"  # private-use characters; their own occurrences are escaped
STOP, START, PAD = "<|im_end|>", "<|im_start|>", "<|pad|>"
_CORE = r"[\p{L}\p{N}_#$@]"
_JOINT = r"[.\-'/]"  # inside a word when between two core characters: t-shirt, 12.50, don't

# What may be a value in JSON: a string, a number. Strings come first, so that nothing inside of one is taken
# for a number; a string before a colon is a key.
_JSON_VALUE = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')
_LONGEST_VALUE = 4  # words; a longer value is a sentence
_CALL_HEAD = re.compile(r'<tool_call>\n\{"name": "(?P<name>[^"]*)", "arguments": ')


def normalizer() -> Any:
    """Marks words and drops the single space between two."""
    word_begins = Regex(f"(?<!{_CORE})(?<!{_CORE}{_JOINT})(?={_CORE})")
    word_ends = Regex(f"(?<={_CORE})(?!{_CORE})(?!{_JOINT}{_CORE})")
    return normalizers.Sequence(
        [
            normalizers.Replace(ESCAPE, ESCAPE + "0"),
            normalizers.Replace(BEGIN, ESCAPE + "1"),
            normalizers.Replace(END, ESCAPE + "2"),
            normalizers.Replace(word_begins, BEGIN),
            normalizers.Replace(word_ends, END),
            normalizers.Replace(END + " " + BEGIN, END + BEGIN),
        ]
    )


def _decoder() -> Any:
    return decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(END + BEGIN, " "),
            decoders.Replace(BEGIN, ""),
            decoders.Replace(END, ""),
            decoders.Replace(ESCAPE + "1", BEGIN),
            decoders.Replace(ESCAPE + "2", END),
            decoders.Replace(ESCAPE + "0", ESCAPE),
        ]
    )


def bare(template: str, words: Sequence[str] = (), added: Sequence[AddedToken] = ()) -> PreTrainedTokenizerFast:
    """A tokenizer of 256 bytes, two marks, these words (marked as the normalizer does) and these added
    tokens."""
    vocabulary = [PAD, START, STOP, BEGIN, END, *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    table = {token: n for n, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.BPE(vocab=table, merges=[], byte_fallback=True, ignore_merges=True))
    tokenizer.normalizer = normalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"{BEGIN}[^{END}]*{END}"), "isolated")
    tokenizer.decoder = _decoder()
    special = [AddedToken(token, special=True, normalized=False) for token in (PAD, START, STOP)]
    tokenizer.add_tokens([*special, *added])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=STOP,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        chat_template=template,
        model_input_names=["input_ids", "attention_mask"],
    )


def train(template: str, corpus: Iterable[Dialogue], size: int, phrases: bool) -> PreTrainedTokenizerFast:
    """A tokenizer for this corpus of at most `size` tokens: bytes and format first, then scaffolding and
    words by how much they shorten the corpus."""
    dialogues = list(corpus)
    probe = bare(template)
    shape = frame(probe)
    format_pieces = _format(shape, probe, dialogues)
    split = _Splitter()
    texts = [(message, _text(message)) for dialogue in dialogues for message in dialogue.messages]
    constants: Counter[str] = Counter()
    values: set[str] = set()
    rest: Counter[str] = Counter()  # texts without JSON, by how often
    sentences: Counter[str] = Counter()  # JSON values that are sentences (reasons of errors)
    told = {word for message, text in texts if message.role == "user" for word in split.words(text)}
    for message, text in texts:  # first, what counts as a value anywhere
        if _has_json(message, text) and message.status != "error":
            for piece, is_value in _cut_json(text, set(), told, split):
                if is_value and len(split.words(piece)) <= _LONGEST_VALUE:
                    values.update(split.words(piece))
    for message, text in texts:
        if not _has_json(message, text):
            rest[text] += 1
            continue
        for piece, is_value in _cut_json(text, values, told, split):
            if not is_value:
                constants[piece] += 1
                continue
            rest[piece] += 1
            if message.status == "error" or len(split.words(piece)) > _LONGEST_VALUE:
                sentences[piece] += 1
    scaffolds = constants.copy()
    if phrases:
        spoken = Counter(text for m, text in texts if m.role != "user" and not _has_json(m, text))
        scaffolds += _phrases(spoken + sentences, values, split)
    atoms: Counter[str] = Counter()
    for text, n in (*rest.items(), *constants.items()):
        for atom in split(text):
            atoms[atom] += n
    room = size - 261 - len(format_pieces)
    seen = max(2, len(dialogues) // 500)  # a piece that is rarer is not scaffolding, but somebody's words
    worth = {
        piece: n * (len(split(piece)) - 1) for piece, n in scaffolds.items() if n >= seen and len(split(piece)) > 1
    }
    worth |= {atom: n * len(atom.encode()) for atom, n in atoms.items()}
    chosen = sorted(worth, key=lambda piece: (-worth[piece], piece))[: max(room, 0)]
    words = sorted(piece for piece in chosen if piece in atoms)
    pieces = sorted(piece for piece in chosen if piece not in atoms)
    added = [AddedToken(piece, special=True, normalized=False) for piece in format_pieces]
    added += [  # a piece that is whole words must not be found inside of longer ones
        AddedToken(piece, single_word=piece[0].isalnum() and not piece[-1].isspace(), normalized=False)
        for piece in pieces
    ]
    return bare(template, words, added)


def _text(message: Message) -> str:
    return write(message) if message.role == "agent" else message.text


def _format(shape: Frame, probe: Any, dialogues: Sequence[Dialogue]) -> list[str]:
    """What the template writes, cut where origins meet: no piece spans what the agent samples and what it is
    told."""
    pieces = {*shape.user, *shape.tool}
    heads = {(d.system, str(d.tools)): d for d in dialogues}
    for dialogue in heads.values():
        chat = [{"role": "system", "content": dialogue.system}, {"role": "user", "content": "\ue003"}]
        text = probe.apply_chat_template(chat, tools=list(dialogue.tools) or None, tokenize=False)
        before, _, _ = text.partition("\ue003")
        header = shape.user[0].lstrip("\n")
        pieces |= {before.removesuffix(header), header}
    return sorted(piece for piece in pieces if piece and piece not in (START, STOP))


class _Splitter:
    """A text's atoms, exactly as the tokenizer will see them: marked words, and what stands between."""

    def __init__(self) -> None:
        self._normalizer = normalizer()
        self._cut = re.compile(f"({BEGIN}[^{END}]*{END})")
        self._known: dict[str, list[str]] = {}

    def __call__(self, text: str) -> list[str]:
        if text not in self._known:
            marked = self._normalizer.normalize_str(text)
            self._known[text] = [atom for atom in self._cut.split(marked) if atom]
        return self._known[text]

    def words(self, text: str) -> list[str]:
        return [atom for atom in self(text) if atom[0] == BEGIN]


def _has_json(message: Message, text: str) -> bool:
    return message.call is not None or (message.role == "tool" and text[:1] in ("{", "["))


def _cut_json(text: str, values: set[str], told: set[str], split: _Splitter) -> Iterator[tuple[str, bool]]:
    """The text in order as (piece, is it a value). A call's own name is constant unless users speak of it (`told` are
    their words): then it is read and written as the same word. True, false and null are constant, and keys are, except
    those that are values elsewhere or have a digit: `{"W12": "pending"}` holds two values."""
    head = _CALL_HEAD.search(text)
    at = 0
    if head and all(word in told for word in split.words(head["name"])):
        start, at = head.span("name")
        yield text[:start], False
        yield head["name"], True
    for match in _JSON_VALUE.finditer(text, head.end() if head else 0):
        name = "string" if match.group("string") is not None else "number"
        start, stop = match.span(name)
        if start == stop or (match.group("key") and not _variable(split.words(match.group(name)), values)):
            continue
        if start > at:
            yield text[at:start], False
        yield match.group(name), True
        at = stop
    if at < len(text):
        yield text[at:], False


def _variable(words: Sequence[str], values: set[str]) -> bool:
    return any(word in values or any(c.isdigit() for c in word) for word in words)


def _phrases(spoken: Counter[str], values: set[str], split: _Splitter) -> Counter[str]:
    """Stretches of at least two words that hold no value (or whole texts of one), by how often they occur. A
    word is a value when it occurs as one in some JSON, or has a digit."""
    found: Counter[str] = Counter()
    for text, n in spoken.items():
        stretch = ""
        words = 0
        last = ""
        for atom in [*split(text), ""]:
            is_word = atom[:1] == BEGIN
            is_value = is_word and _variable([atom], values)
            if is_word and last[:1] == BEGIN:
                stretch += " "  # the implied space; towards a value it belongs to the phrase: "order " + ⟨#W1⟩
            if not atom or is_value:
                if words > 1 or stretch == text:
                    found[stretch] += n
                stretch, words = "", 0
            else:
                stretch += atom[1:-1] if is_word else atom
                words += is_word
            last = atom
    return found
