"""The chat format: how a dialogue becomes tokens, and how an agent's text becomes a message.

Text is a chat template's, tokens are a tokenizer's. Both are asked once, when a `Renderer` is made: it
renders a few probe dialogues, cuts out what the template writes around messages, and proves that pieces which
are encoded one by one and appended to a ledger are the tokens of the whole dialogue. After that no template
runs any more.

    renderer = Renderer(tokenizer)
    for piece in renderer.opening(world.system, world.tools, "hi , cancel #W12"):   # system, user
        ledger.append(piece.kind, piece.tokens)
    ...                                                       # the engine samples up to renderer.stop_token
    message = renderer.read(sampled.tokens)                   # -> Message(call=Call("get_order", {...}))
    ledger.append("tool", renderer.tool(observation.text).tokens)

Every piece of a user or tool ends with the generation prompt of the agent's next message. The agent's own
tokens are never encoded again. A template that rewrites the past (drops old thinking, say) is refused,
because then what was sampled is not what a later turn has seen.

Calls are written as in the Hermes and Qwen families: `<tool_call>\\n{"name": ..., "arguments":
{...}}\\n</tool_call>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rlspec.runtime.record.ledger import Kind
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import Call, Message

# A call is attempted where the tag begins a line or stands before an object; a tag that is only quoted is
# text.
_ATTEMPT = re.compile(r"^[ \t]*<tool_call>|<tool_call>(?=\s*\{)", re.MULTILINE)
_STRAY_CLOSE = re.compile(r"^[ \t]*</tool_call>", re.MULTILINE)
_CLOSE = "</tool_call>"


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one origin, ready for `Ledger.append`."""

    kind: Kind
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A whole talk in text: what demonstrations are made of."""

    system: str | None
    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Message] = field(default_factory=tuple)


def parse(text: str) -> Message:
    """Read an agent's message, the stop token already taken off.

    Returns a Message of the role "agent" that is one of three things: plain `text`; a `call` (then `text` is
    what was written before it); or `malformed`, the reason why an attempted call cannot be executed (then
    `text` is everything). Only the first call of a message counts; whatever follows it is dropped. A tag that
    is merely quoted within a line is text. Nothing that the agent writes raises an error.
    """
    attempt = _ATTEMPT.search(text)
    if attempt is None:
        if _STRAY_CLOSE.search(text):
            return Message("agent", text, malformed="a call is closed that was never opened")
        return Message("agent", text)
    body, closed, _ = text[attempt.end() :].partition(_CLOSE)
    call, reason = _call(body)
    if reason is None and not closed:
        reason = "the call is not closed"
    if reason is not None or call is None:
        return Message("agent", text, malformed=reason)
    return Message("agent", text[: attempt.start()].removesuffix("\n"), call=call)


def _call(body: str) -> tuple[Call | None, str | None]:
    """The call in a JSON text, or why there is none."""
    try:
        value = json.loads(body, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates are valid JSON but no text
    except RecursionError:
        return None, "the call nests too deeply"
    except UnicodeEncodeError:
        return None, "the call has half a surrogate pair"
    except ValueError as error:
        return None, f"the call is not JSON: {error}"
    if not isinstance(value, dict):
        return None, "the call is not an object"
    name, arguments = value.get("name"), value.get("arguments")
    if not isinstance(name, str) or not name:
        return None, "the call has no name"
    if not isinstance(arguments, dict):
        return None, "the call's arguments are not an object"
    return Call(name, arguments), None


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def write(message: Message) -> str:
    """The text of an agent's message; `parse(write(m))` is m for every well-formed m."""
    if message.call is None:
        return message.text
    name = json.dumps(message.call.name, ensure_ascii=False)
    arguments = json.dumps(message.call.arguments, ensure_ascii=False)
    block = f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'
    return f"{message.text}\n{block}" if message.text else block


@dataclass(frozen=True, slots=True)
class Frame:
    """What a template writes around messages. `stop` ends an agent's message and is sampled; `user` and
    `tool` are (before, after) and begin behind the stop text."""

    stop: str
    user: tuple[str, str]
    tool: tuple[str, str]
    trims: bool  # the template strips white space around contents


_MARK = "xqzprobe"
_PROBE_CALL = Call("probe", {"key": "value", "n": 1})
_PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "description": "p", "parameters": {"type": "object", "properties": {}}},
}


def as_chat(system: str | None, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The dialogue as `apply_chat_template` takes it. Malformed calls stay the text that they are."""
    chat: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    for message in messages:
        if message.role != "agent":
            chat.append({"role": message.role, "content": message.text})
            continue
        entry: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.call is not None:
            function = {"name": message.call.name, "arguments": message.call.arguments}
            entry["tool_calls"] = [{"type": "function", "function": function}]
        chat.append(entry)
    return chat


def _render(tokenizer: Any, chat: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
    text = tokenizer.apply_chat_template(
        chat, tools=list(tools) if tools else None, tokenize=False, add_generation_prompt=True
    )
    return str(text)


def _refuse(reason: str) -> Refusal:
    return Refusal(
        "RLC0505",
        f"the policy's chat template cannot be used: {reason}",
        "give the policy an append-only template",
    )


def frame(tokenizer: Any) -> Frame:
    """Find out what the tokenizer's chat template writes around messages, by probing it.

    Raises:
        Refusal: RLC0505, the template rewrites earlier messages, has no stop text, or writes calls in another
        format.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise _refuse("there is none")
    opening = [Message("user", f" {_MARK}u ")]
    call = Message("agent", "", call=_PROBE_CALL)
    tools = [_PROBE_TOOL]
    system = f"{_MARK}s"
    try:
        begin = _render(tokenizer, as_chat(system, opening), tools)
        spoken = _render(
            tokenizer,
            as_chat(system, [*opening, Message("agent", f"{_MARK}a"), Message("user", f" {_MARK}v ")]),
            tools,
        )
        called = _render(tokenizer, as_chat(system, [*opening, call, Message("tool", f" {_MARK}t ")]), tools)
    except Exception as error:  # jinja and templates raise what they like; the reason is passed on
        raise _refuse(f"it fails on a probe dialogue ({error})") from error
    trims = f" {_MARK}u " not in begin
    for name, text, said in (("message", spoken, f"{_MARK}a"), ("call", called, write(call))):
        if not text.startswith(begin + said):
            at = next((i for i, (x, y) in enumerate(zip(text, begin + said, strict=False)) if x != y), len(text))
            raise _refuse(
                f"with a {name} of the agent it writes {text[max(0, at - 30) : at + 40]!r} where the "
                f"dialogue so far and the text were {(begin + said)[max(0, at - 30) : at + 40]!r}"
            )
    after_message, after_call = spoken[len(begin + f"{_MARK}a") :], called[len(begin + write(call)) :]
    stop = _stop_text(tokenizer, after_message)
    if not after_call.startswith(stop):
        raise _refuse(f"messages end with {stop!r} but calls do not")

    def around(text: str, mark: str) -> tuple[str, str]:
        shown = mark if trims else f" {mark} "
        before, found, after = text.partition(shown)
        if not found or (trims and (before.endswith(" ") or after.startswith(" "))):
            raise _refuse(f"the text {shown!r} does not come out unchanged")
        return before, after

    return Frame(
        stop=stop,
        user=around(after_message[len(stop) :], f"{_MARK}v"),
        tool=around(after_call[len(stop) :], f"{_MARK}t"),
        trims=trims,
    )


def _stop_text(tokenizer: Any, after: str) -> str:
    """The added token with which an agent's message ends: the end-of-sequence token, or else any that stands
    there."""
    added = sorted(map(str, tokenizer.get_added_vocab()), key=len)
    candidates = ([tokenizer.eos_token] if tokenizer.eos_token else []) + added
    for candidate in candidates:
        if after.startswith(candidate):
            return str(candidate)
    raise _refuse(f"no special token ends the agent's messages; after one stands {after[:30]!r}")


class Renderer:
    """Dialogues to tokens with one tokenizer, piece by piece. Proven on probe dialogues when it is made.

    Raises:
        Refusal: RLC0505, see `frame`; or the pieces' tokens are not those of the whole dialogue.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.frame = frame(tokenizer)
        self.stop_token: int = tokenizer.convert_tokens_to_ids(self.frame.stop)
        self._special = re.compile("|".join(re.escape(t) for t in tokenizer.all_special_tokens) or "(?!)")
        self._fast = getattr(tokenizer, "backend_tokenizer", None)  # the same tokenizer without its Python wrapping
        self._span = lru_cache(maxsize=1 << 15)(self._encode_span)
        self._said = lru_cache(maxsize=1 << 15)(self._decode)
        self._head = lru_cache(maxsize=64)(self._render_head)
        self._prove()

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Token ids that end an agent's message."""
        return (self.stop_token,)

    def opening(self, system: str | None, tools: Sequence[Mapping[str, Any]], first_user_text: str) -> list[Piece]:
        """System text with tools, the user's first message, and the agent's generation prompt."""
        before, after, cut, fixed = self._head(system, json.dumps(list(tools)))
        if fixed:
            user, _ = self._span(before[cut:], self._content(first_user_text), after, 0, False)
            return [Piece("system", fixed), Piece("user", user)]
        tokens, system_tokens = self._span(before, self._content(first_user_text), after, cut, False)
        pieces = [Piece("system", tokens[:system_tokens])] if system_tokens else []
        return [*pieces, Piece("user", tokens[system_tokens:])]

    def user(self, text: str, stopped: bool = True) -> Piece:
        """What is appended when the user answers. `stopped=False`: the agent's message was cut off before its
        stop token, which is then put first."""
        return Piece("user", self._after_agent(*self.frame.user, text, stopped))

    def tool(self, text: str, stopped: bool = True) -> Piece:
        """What is appended when a tool answers; `stopped` as for `user`."""
        return Piece("tool", self._after_agent(*self.frame.tool, text, stopped))

    def agent(self, message: Message) -> Piece:
        """A demonstrated agent message with its stop token; what was sampled is never rendered."""
        body, _ = self._span("", write(message), self.frame.stop, 0, False)
        return Piece("agent", body)

    def dialogue(self, dialogue: Dialogue) -> list[Piece]:
        """All pieces of a demonstration, ending with its last message. The first message must be the
        user's."""
        first, *rest = dialogue.messages
        if first.role != "user":
            raise ValueError("a dialogue begins with the user")
        pieces = self.opening(dialogue.system, dialogue.tools, first.text)
        render = {
            "agent": self.agent,
            "user": lambda m: self.user(m.text),
            "tool": lambda m: self.tool(m.text),
        }
        return pieces + [render[message.role](message) for message in rest]

    def text(self, tokens: Sequence[int]) -> str:
        """The text of a sampled message, without its stop token."""
        return self._said(tuple(tokens))

    def _decode(self, tokens: tuple[int, ...]) -> str:
        ids = list(tokens[:-1] if tokens and tokens[-1] == self.stop_token else tokens)
        if self._fast is not None:
            return str(self._fast.decode(ids, skip_special_tokens=False))
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def read(self, tokens: Sequence[int]) -> Message:
        """`parse` of `text`."""
        return parse(self.text(tokens))

    def _content(self, text: str) -> str:
        return text.strip() if self.frame.trims else text

    def _after_agent(self, before: str, after: str, text: str, stopped: bool) -> tuple[int, ...]:
        tokens, _ = self._span(before, self._content(text), after, 0, True)
        return tokens if stopped else (self.stop_token, *tokens)

    def _render_head(self, system: str | None, tools: str) -> tuple[str, str, int, tuple[int, ...]]:
        """(text before the first user message, text after it, where the user's own header begins, the tokens up to
        there when the text may be cut there, which spares encoding the system text for every dialogue)."""
        chat = as_chat(system, [Message("user", _MARK)])
        before, _, after = _render(self.tokenizer, chat, json.loads(tools)).rpartition(_MARK)
        header = self.frame.user[0]
        shared = 0
        while shared < min(len(header), len(before)) and header[-1 - shared] == before[-1 - shared]:
            shared += 1
        cut = len(before) - shared
        whole = self.tokenizer(before + _MARK + after, add_special_tokens=False, return_offsets_mapping=True)
        head = sum(start < cut for start, _ in whole["offset_mapping"])
        if head == 0:
            return before, after, cut, ()
        edge = whole["offset_mapping"][head - 1][1]  # the head's last token may reach over the cut
        fixed = tuple(whole["input_ids"][:head])
        rest, _ = self._encode_span(before[edge:], _MARK, after, 0, False)
        sound = edge <= len(before) and [*fixed, *rest] == whole["input_ids"]
        return before, after, edge if sound else cut, fixed if sound else ()

    def _encode_span(self, before: str, text: str, after: str, cut: int, follows: bool) -> tuple[tuple[int, ...], int]:
        """Tokens of before + text + after, and how many of them begin before character `cut`. `follows`: the
        span stands behind a stop token, which may swallow white space, so it is encoded with one."""
        if self._special.search(text):  # nobody but the template may write special tokens
            parts = [(before, False), (text, True), (after, False)]
        else:
            parts = [(before + text + after, False)]
        ids: list[int] = []
        head = 0
        for n, (part, literal) in enumerate(parts):
            led = follows and n == 0
            if self._fast is not None and not literal and not (cut > 0 and n == 0):
                self._fast.encode_special_tokens = False  # the wrapping leaves it as its last call wanted it
                found = self._fast.encode((self.frame.stop if led else "") + part, add_special_tokens=False).ids
                ids.extend(found[1:] if led else found)
                continue
            encoded = self.tokenizer(
                (self.frame.stop if led else "") + part,
                add_special_tokens=False,
                verbose=False,  # the probe may be longer than the model's context
                split_special_tokens=literal,
                return_offsets_mapping=cut > 0 and n == 0,
            )
            new = encoded["input_ids"][1 if led else 0 :]
            if cut > 0 and n == 0:
                head = sum(start < cut for start, _ in encoded["offset_mapping"])
            ids.extend(new)
        return tuple(ids), head

    def _prove(self) -> None:
        """Pieces, appended, are the tokens of the whole dialogue; and a sampled call reads back."""
        user, tool = (
            Message("user", "Where is it? \n(order 7)"),
            Message("tool", '{"status": "ok", "n": [1, 2]}'),
        )
        said, called = Message("agent", "One moment, please."), Message("agent", "", call=_PROBE_CALL)
        both = Message("agent", "Let me look.", call=_PROBE_CALL)
        for messages in (
            [user, said, user],
            [user, called, tool],
            [user, called, tool, both, tool, said, user, called, tool],
        ):
            dialogue = Dialogue("You help.", [_PROBE_TOOL], messages)
            pieces = [token for piece in self.dialogue(dialogue) for token in piece.tokens]
            text = _render(self.tokenizer, as_chat(dialogue.system, messages), dialogue.tools)
            whole = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            if pieces != whole:
                at = next((i for i, (x, y) in enumerate(zip(pieces, whole, strict=False)) if x != y), len(pieces))
                raise _refuse(f"token {at} of a dialogue built piece by piece differs from the whole dialogue's")
        if self.read(self.agent(both).tokens) != both:
            raise _refuse("a call does not read back from its tokens")
