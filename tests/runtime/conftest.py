"""An agent that knows what it does, a demonstrator of the shop in the place of a policy; and a model to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer
from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.runtime.engines.protocol import Sampled
from rlspec.runtime.policies.chat import Dialogue, Renderer
from rlspec.runtime.worlds.protocol import Message
from rlspec.runtime.worlds.shop.demonstrations import demonstrations
from rlspec.runtime.worlds.shop.oracles import STYLES, Oracle
from rlspec.runtime.worlds.shop.world import ShopWorld


class Agent:
    """An engine whose policy is a demonstrator: it reads the tokens that it is fed and writes tokens, as a model does.
    Every conversation's style is that of its trial."""

    version, capacity = 0, 8

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.talks: dict[str, tuple[Oracle, list[Message]]] = {}
        self.waiting: list[str] = []

    def configure(self, temperature: float, max_new_tokens: int) -> None: ...

    def open(self, key: str, uniforms: Any, seed: int = 0) -> None:
        self.talks[key] = Oracle(STYLES[int(key.rpartition("/")[2]) % 4], slips=key.endswith("0")), []

    def feed(self, key: str, tokens: Sequence[int]) -> None:
        text = self.renderer.text(tokens)
        dialogue = self.talks[key][1]
        for role, (before, after) in (("tool", self.renderer.frame.tool), ("user", self.renderer.frame.user)):
            head, found, said = text.removesuffix(after).rpartition(before.strip())
            if found and (not dialogue or not head.strip()):
                dialogue.append(Message(role, said.strip(), status="error" if '"error"' in said else "ok"))
                break
        else:
            raise AssertionError(text)
        self.waiting.append(key)

    def poll(self) -> list[Sampled]:
        asked, self.waiting = self.waiting, []
        out = []
        for key in asked:
            oracle, dialogue = self.talks[key]
            dialogue.append(oracle.act(dialogue))
            tokens = list(self.renderer.agent(dialogue[-1]).tokens)
            out.append(Sampled(key, tokens, [0.0] * len(tokens), [0] * len(tokens), "stop"))
        return out

    def close(self, key: str) -> None:
        self.talks.pop(key)


@pytest.fixture(scope="session")
def demonstrator() -> type[Agent]:
    """The engine."""
    return Agent


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    """The shop's words."""
    from rlspec.runtime.policies import chat, vocabulary

    world = ShopWorld(Shop(difficulty=1))
    shown = demonstrations(world.config, AgendaUser(), Demonstrators(), 24, 0)
    corpus = [Dialogue(world.system, world.tools, demo.dialogue) for demo in shown]
    return Renderer(vocabulary.train(Path(chat.__file__).with_name("chat.jinja").read_text(), corpus, 2000, 0))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A language model behind HTTP."""
    with ModelServer() as found:
        yield found
