"""A small desk in text: enough variety for a tokenizer to be trained on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rlspec.compiler.catalog.policies import Tiny
from rlspec.runtime.policies import tiny, vocabulary
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.worlds.protocol import Call, Message


def _tool(name: str, *parameters: str) -> dict:
    properties = {p: {"type": "string"} for p in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": f"{name}, once", "parameters": schema}}


TOOLS = [
    _tool("find_user", "name", "zip"),
    _tool("get_order", "order_id"),
    _tool("cancel_order", "order_id", "item", "reason"),
]
SYSTEM = "You serve the shop's users. Find the user first."


def make_dialogue(rng: random.Random) -> Dialogue:
    name = rng.choice(["Ana Lopez", "Bo Chen", "Jörg Müller", "Eve O'Neil"])
    order, status = f"W{rng.randrange(100, 140)}", rng.choice(["pending", "delivered"])
    reason = rng.choice(["no longer needed", "ordered by mistake"])
    item = rng.choice(["mug", "lamp"])
    bought = {item: rng.choice(["blue", "red"]), "rug": "white"}
    messages = [
        Message("user", rng.choice([f"Hi, please cancel {order}.", f"I want to cancel order {order} , thanks"])),
        Message("agent", rng.choice(["May I have your name and zip code?", "Your name and zip code, please?"])),
        Message("user", f"{name}, {rng.randrange(10110, 10116)}"),
        Message("agent", "", call=Call("find_user", {"name": name, "zip": "10112"})),
        Message("tool", json.dumps({"user_id": "u17", "orders": [order, "W101"]}), status="ok"),
        Message("agent", "", call=Call("get_order", {"order_id": order})),
        Message("tool", json.dumps({"status": status, "items": bought, "total": 19.5}), status="ok"),
        Message("agent", f"Order {order} is {status}. Shall I cancel it because it was {reason}?"),
        Message("user", rng.choice(["yes please", "yes, go ahead"])),
        Message(
            "agent",
            "",
            call=Call("cancel_order", {"order_id": order, "item": rng.choice([item, "rug"]), "reason": reason}),
        ),
    ]
    if status == "pending":
        messages.append(Message("tool", '{"ok": true}', status="ok", wrote=True))
    else:
        messages.append(Message("tool", "only pending orders can be cancelled", status="error"))
    return Dialogue(SYSTEM, TOOLS, [*messages, Message("agent", "Anything else?"), Message("user", "no, bye")])


@pytest.fixture(scope="session")
def corpus() -> list[Dialogue]:
    rng = random.Random(0)
    return [make_dialogue(rng) for _ in range(200)]


@pytest.fixture(scope="session")
def tokenizer(corpus):
    return vocabulary.train(tiny.TEMPLATE.read_text(), corpus, 4096, phrases=True)


@pytest.fixture(scope="session")
def renderer(tokenizer) -> Renderer:
    return Renderer(tokenizer)


@pytest.fixture(scope="session")
def policy(corpus, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("policy") / "tiny"
    tiny.build(Tiny(width=32, layers=2, heads=2), corpus, directory, seed=3)
    return directory
