"""Conversations that a cold start imitates, from a JSONL file: objects with `messages` as OpenAI-compatible endpoints
take and give them, from the user's first message on (what the system said is left out: the environment says its own).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlspec.runtime.logs.files import read_records, refuse
from rlspec.runtime.logs.messages import Reading, Unreadable, dialogue
from rlspec.runtime.worlds.protocol import Message


def read_talks(path: Path) -> list[list[Message]]:
    """The conversations of a file, in its order.

    Raises:
        Refusal: RLC0701 it cannot be read, RLC0711 something in it is no conversation that an agent can imitate.
    """
    found = []
    for place, record in enumerate(read_records(path)):
        if not isinstance(record.get("messages"), list):
            raise refuse(path, f"entry {place} has no list of `messages`")
        try:
            talk = dialogue(record["messages"], Reading(calls="split")).dialogue
        except Unreadable as error:
            raise refuse(path, f"entry {place}: {error}") from error
        if not talk or talk[0].role != "user" or not any(m.role == "agent" for m in talk):
            raise refuse(path, f"entry {place} does not begin with the user, or the agent says nothing in it")
        wrong = next((m.malformed for m in talk if m.malformed is not None), None)
        if wrong is not None:
            raise refuse(path, f"entry {place} has a call that cannot be read: {wrong}")
        found.append(talk)
    if not found:
        raise refuse(path, "there is no conversation in it")
    return found


def as_record(talk: Sequence[Message]) -> dict[str, Any]:
    """A conversation as a line of such a file."""
    messages: list[dict[str, Any]] = []
    for place, message in enumerate(talk):
        if message.role == "tool":
            messages.append({"role": "tool", "tool_call_id": f"c{place - 1}", "content": message.text})
        elif message.role == "user":
            messages.append({"role": "user", "content": message.text})
        else:
            entry: dict[str, Any] = {"role": "assistant", "content": message.text}
            if message.call is not None:
                arguments = json.dumps(message.call.arguments, ensure_ascii=False)
                function = {"name": message.call.name, "arguments": arguments}
                entry["tool_calls"] = [{"id": f"c{place}", "type": "function", "function": function}]
            messages.append(entry)
    return {"messages": messages}
