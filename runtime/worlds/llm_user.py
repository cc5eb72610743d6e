"""A user that is a language model (tau-bench's user simulators; Yao et al. 2024, arXiv 2406.12045, and its code).

Strategies, as state machines over one history:

- `plain`: the model's answer is the message;
- `react`: the model thinks, then answers; the agent gets the answer alone;
- `react_leaky`: the agent gets the thought with it, as in tau-bench v1, whose parser looks for "Thought:" first and so
  shows the agent what the user hides;
- `verify`: a second request asks whether the draft is what the user would say; a rejected one is written again;
- `reflect`: the same, and the reviewer writes the message that replaces it.

What is sent is what the history holds, and nothing else is in it: in tau-bench v1 the last message of `verify` is sent
after three rejections and not recorded, and `reflection` records every draft, whichever is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from pydantic import BaseModel

from rlspec.compiler.catalog.users import LlmUser
from rlspec.runtime.endpoints.chat import Endpoint, Patience
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.prompting import prompt
from rlspec.runtime.worlds.protocol import InfraFailure, Task, UserTurn

GREETING = "Hi! How can I help you today?"
"""What the user's model answers with its first message, as in tau-bench."""
THOUGHT, RESPONSE = "Thought:", "User Response:"


class Verdict(BaseModel):
    """What a reviewer says of a draft."""

    satisfactory: bool
    reason: str


class Reflection(Verdict):
    """And what the user should say instead, where it is not satisfactory."""

    message: str = ""


class Asked(Protocol):
    """What a user needs of an endpoint."""

    def say(self, messages: Any, temperature: float = ..., **options: Any) -> str: ...
    def fill(self, messages: Any, shape: Any, temperature: float = ..., corrections: int = ...) -> Any: ...


class LlmUserSession:
    """One talk. Every failure of the endpoint is the user's: `InfraFailure("user", ...)`."""

    def __init__(self, config: LlmUser, task: Task, endpoint: Asked) -> None:
        self._config, self._task, self._endpoint = config, task, endpoint
        thinks = config.strategy in ("react", "react_leaky")
        system = prompt("user", instruction=task.instruction, stop=config.stop[0], thinks=thinks)
        self._history: list[dict[str, str]] = [{"role": "system", "content": system}]
        self._over = False
        self._measures = {"requests": 0, "rejected_drafts": 0}

    def first(self) -> UserTurn:
        """The opening line."""
        return self.reply(GREETING)

    def reply(self, agent_text: str) -> UserTurn:
        """The answer to what the agent said. After the end it is silence."""
        if self._over:
            return UserTurn("", True)
        self._history.append({"role": "user", "content": agent_text or "..."})
        try:
            text = self._STRATEGIES[self._config.strategy](self)
        except InfraFailure as failure:
            raise InfraFailure("user", failure.reason) from failure
        self._over = any(word in text for word in self._config.stop)
        return UserTurn(text, self._over)

    def recall(self, agent_text: str | None, line: str) -> None:
        """Go on as if it had said `line`, without asking the model."""
        said = GREETING if agent_text is None else agent_text or "..."
        self._history.append({"role": "user", "content": said})
        self._record(line)
        self._over = any(word in line for word in self._config.stop)

    def lines(self) -> list[str]:
        """What it recorded of itself, thoughts included."""
        return [message["content"] for message in self._history if message["role"] == "assistant"]

    def measure(self) -> dict[str, int]:
        """The signals of `LlmUser.MEASURES`."""
        return dict(self._measures)

    # ------------------------------------------------------------------------------------------------ strategies

    def _plain(self) -> str:
        return self._record(self._draft())

    def _react(self) -> str:
        """The answer without the thought. A model that thinks and does not answer is asked again."""
        for _ in range(self._config.drafts):
            said = self._draft()
            _, marked, answer = said.rpartition(RESPONSE)
            if marked and answer.strip():
                self._record(said)
                return answer.strip()
            if THOUGHT not in said:
                return self._record(said)  # it just answers
            self._measures["rejected_drafts"] += 1
        raise InfraFailure("user", f"{self._config.model}: {self._config.drafts} thoughts without an answer")

    def _react_leaky(self) -> str:
        said = self._record(self._draft())
        for word in self._config.stop:
            if word in said:
                return word
        _, marked, rest = said.partition(THOUGHT)
        return rest.strip() if marked else said.replace(RESPONSE, "").strip()

    def _verify(self) -> str:
        """The first draft that passes, the last one where none does."""
        draft = self._draft()
        for _ in range(self._config.drafts - 1):
            if self._review("user_verify", Verdict, draft).satisfactory:
                return self._record(draft)
            self._measures["rejected_drafts"] += 1
            draft = self._draft()
        return self._record(draft)

    def _reflect(self) -> str:
        """The first draft that passes; a rejected one is replaced by what the reviewer writes, which is reviewed too,
        and sent as it is when there are no drafts left."""
        draft = self._draft()
        for _ in range(self._config.drafts - 1):
            found = self._review("user_reflect", Reflection, draft)
            if found.satisfactory:
                break
            self._measures["rejected_drafts"] += 1
            draft = found.message.strip() or self._draft()
        return self._record(draft)

    _STRATEGIES: dict[str, Callable[[LlmUserSession], str]] = {  # noqa: RUF012
        "plain": _plain,
        "react": _react,
        "react_leaky": _react_leaky,
        "verify": _verify,
        "reflect": _reflect,
    }

    # -------------------------------------------------------------------------------------------------- requests

    def _draft(self) -> str:
        self._measures["requests"] += 1
        said = self._endpoint.say(self._history, self._config.temperature, max_tokens=self._config.max_new_tokens)
        return said.strip()

    def _review(self, template: str, shape: type[Verdict], draft: str) -> Any:
        self._measures["requests"] += 1
        names = {"user": "agent", "assistant": "user"}
        talk = [(names[m["role"]], m["content"]) for m in self._history[1:]]
        parts = {"instruction": self._task.instruction, "stop": self._config.stop[0], "talk": talk, "draft": draft}
        asked = [{"role": "user", "content": prompt(template, **parts)}]
        return self._endpoint.fill(asked, shape, self._config.temperature)

    def _record(self, said: str) -> str:
        self._history.append({"role": "assistant", "content": said})
        return said


class LlmUsers:
    """The user simulator `llm`. `retries` more tries of each request, within the deadline of one reply."""

    slow = True

    def __init__(self, config: LlmUser, retries: int = 0) -> None:
        self.config, self.at_once = config, config.at_once
        patience = Patience(within=config.timeout, tries=1 + retries)
        if config.key is not None:
            reveal(config.key)  # from now on its value is kept out of messages
        variable = config.key.secret if config.key is not None else "OPENAI_API_KEY"
        self.endpoint = Endpoint(config.model, config.endpoint, variable, patience, config.at_once)

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> LlmUserSession:
        """A user with the task's instruction. Its randomness is the endpoint's; its wording is the model's own."""
        return LlmUserSession(self.config, task, self.endpoint)
