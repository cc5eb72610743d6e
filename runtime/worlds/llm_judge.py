"""A judge that is a language model: one request per finished conversation, a label for every message of the agent
(TARL, arXiv 2509.14480, section 3.2: -1, 0 or +1, at most one -1).

What is no verdict is a failure, never mended: another number of labels than messages, another label, two major faults
where one is allowed, no JSON. What becomes of it is the judge's `on_failure` rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from rlspec.compiler.catalog.papers import LlmJudge
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.prompting import prompt
from rlspec.runtime.worlds.protocol import InfraFailure, Message, Task, Unusable

Label = Annotated[int, Field(ge=-1, le=1, strict=True)]


class Labels(BaseModel):
    """The whole verdict: a label per message of the agent, in order."""

    model_config = ConfigDict(extra="forbid")
    labels: list[Label]


class LlmJudgement:
    """The judge `llm`. `policy` gives the environment's policy text."""

    slow = True

    def __init__(self, config: LlmJudge, policy: Callable[[], str]) -> None:
        self.config, self._policy, self.at_once = config, policy, config.at_once
        if config.key is not None:
            reveal(config.key)  # from now on its value is kept out of messages
        variable = config.key.secret if config.key is not None else "OPENAI_API_KEY"
        self.endpoint = Endpoint(config.model, config.endpoint, variable, Patience(config.timeout), config.at_once)

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        """`score`: a label per message of the agent.

        Raises:
            InfraFailure: the endpoint failed; Unusable, its answer is no verdict.
        """
        turns = sum(message.role == "agent" for message in dialogue)
        asked = [{"role": "user", "content": self.text(task, dialogue)}]
        try:
            found = self.endpoint.fill(asked, Labels, self.config.temperature, corrections=0)
        except InfraFailure as failure:
            raise type(failure)("judge", failure.reason) from failure
        if len(found.labels) != turns:
            raise Unusable("judge", f"{len(found.labels)} labels for {turns} messages")
        if self.config.at_most_one_major and found.labels.count(-1) > 1:
            raise Unusable("judge", f"{found.labels.count(-1)} major faults where one is allowed")
        return {"score": found.labels}

    def text(self, task: Task, dialogue: Sequence[Message]) -> str:
        """What the model is asked."""
        sees = self.config.sees
        return prompt(
            "judge",
            policy=self._policy() if "policy" in sees else "",
            instruction=task.instruction if "instruction" in sees else "",
            gold=task.gold if "gold_calls" in sees else (),
            dialogue=lines(dialogue),
            turns=sum(message.role == "agent" for message in dialogue),
            at_most_one_major=self.config.at_most_one_major,
        )


def lines(dialogue: Sequence[Message]) -> list[str]:
    """The dialogue for a reader, the agent's messages numbered from 1."""
    out, number = [], 0
    for message in dialogue:
        if message.role != "agent":
            out.append(f"{message.role}: {message.text}")
            continue
        number += 1
        said = [message.text] if message.text else []
        if message.call is not None:
            said.append(f"call {message.call.name}({json.dumps(message.call.arguments, ensure_ascii=False)})")
        if message.malformed is not None:
            said.append(f"(an attempted call that could not be read: {message.malformed})")
        out.append(f"[{number}] agent: {' '.join(said)}")
    return out
