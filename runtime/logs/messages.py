"""From OpenAI-style messages to a dialogue: what was said and called, without the tokens, which nobody logged.

    talk = dialogue(messages, Reading(writes=frozenset({"cancel_order"})))
    trajectory_ledger(talk.dialogue)          # turns without tokens: nothing was sampled here

One message of the assistant is one turn. Where it holds several calls, `calls` decides: "first" keeps the first (what
a benchmark executes that runs one call a message), "split" makes each call a turn of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rlspec.runtime.record.ledger import Ledger
from rlspec.runtime.worlds.protocol import Call, Message, Status


class Unreadable(ValueError):
    """The messages are not a conversation; says which message and why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages are read: which tools write, what becomes of several calls in one message."""

    writes: frozenset[str] = frozenset()
    calls: Literal["first", "split"] = "split"


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: the system text (empty without one), the dialogue, and how many calls were split or left out."""

    system: str
    dialogue: list[Message]
    extra_calls: int


def dialogue(messages: Sequence[Any], reading: Reading) -> Talk:
    """Read a conversation.

    Raises:
        Unreadable: a message has no known role or shape, or a tool answers a call that was not made.
    """
    answers = _answers(messages)
    system: list[str] = []
    out: list[Message] = []
    extra = 0
    for place, message in enumerate(messages):
        role, text = _role(place, message), _text(place, message)
        if role in ("system", "developer"):
            system.append(text)
        elif role == "user":
            out.append(Message("user", text))
        elif role == "assistant":
            calls = _calls(place, message)
            if not calls:
                out.append(Message("agent", text))
            extra += max(0, len(calls) - 1)
            for name, arguments, identity in calls if reading.calls == "split" else calls[:1]:
                out += _called(text, name, arguments, answers.get((place, identity)), reading)
                text = ""  # said once, with the first call
    return Talk("\n\n".join(system), out, extra)


def trajectory_ledger(talk: Sequence[Message]) -> Ledger:
    """A ledger with the dialogue's turns and no token in them: the log does not say what was sampled."""
    ledger = Ledger()
    for message in talk:
        if message.role == "agent":
            ledger.append("agent", [], [])
    return ledger


def status_of(text: str) -> Status:
    """ "error" for what tools of this kind answer then: a text that begins with "Error", or an object with `error`."""
    if text.lower().startswith("error"):
        return "error"
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            return "ok"
        return "error" if found.get("error") else "ok"
    return "ok"


def _called(text: str, name: str, arguments: str, answer: str | None, reading: Reading) -> list[Message]:
    """The agent's message with its call, and the tool's answer where there is one."""
    status = None if answer is None else status_of(answer)
    wrote = status == "ok" and name in reading.writes
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
        if not isinstance(parsed, dict):
            raise ValueError("the arguments are no object")
        said = Message("agent", text, Call(name, parsed), status=status, wrote=wrote)
    except ValueError as error:
        said = Message("agent", text or f"{name} {arguments}", malformed=str(error))
        status, wrote = "error", False
    return [said] if answer is None else [said, Message("tool", answer, status=status, wrote=wrote)]


def _answers(messages: Sequence[Any]) -> dict[tuple[int, str], str]:
    """(place of the assistant's message, id of its call) -> what the tool said. Ids may come again in other messages,
    so an answer belongs to the last open call of its id."""
    asked: dict[str, int] = {}
    found: dict[tuple[int, str], str] = {}
    for place, message in enumerate(messages):
        role = _role(place, message)
        if role == "assistant":
            asked |= {identity: place for _, _, identity in _calls(place, message)}
        elif role == "tool":
            identity = str(message.get("tool_call_id"))
            if identity not in asked:
                raise Unreadable(f"message {place} answers the call {identity!r}, which is not open")
            found[asked.pop(identity), identity] = _text(place, message)
    return found


def _role(place: int, message: Any) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise Unreadable(f"message {place} has no role that is known: {str(role)[:40]!r}")
    return str(role)


def _text(place: int, message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise Unreadable(f"message {place} has a content that is neither text nor parts of text")


def _calls(place: int, message: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, arguments as text, and id of each call."""
    found = []
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Unreadable(f"message {place} has `tool_calls` that are no list")
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise Unreadable(f"message {place} has a call without a function's name")
        arguments = function.get("arguments") or ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        found.append((function["name"], text, str(call.get("id"))))
    return found
