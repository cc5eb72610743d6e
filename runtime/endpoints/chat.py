"""One model behind an OpenAI-compatible endpoint.

    endpoint = Endpoint(model="gpt-4.1", base_url="http://127.0.0.1:8000/v1")
    text = endpoint.say([{"role": "user", "content": "hi"}])
    plan = endpoint.fill(messages, Plan)            # an instance of a pydantic class, asked again until it is valid
    answers = endpoint.say_all([messages, ...])     # several at a time, in order

The `openai` package speaks the protocol; when to try again is decided here, in one place: time-outs, lost connections,
408, 409, 429 and 5xx are tried again after a random wait that grows (full jitter), `Retry-After` is obeyed where it
fits into the deadline, an exhausted quota and every other 4xx are not tried again. The deadline is that of the whole
request, all tries and waits included. A request that fails raises `InfraFailure`, never a made-up answer.

All requests of an endpoint share one client (`line.py`), whatever thread asks; it is closed with `close`, when
nobody holds the endpoint any more, or at the end of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rlspec.runtime.endpoints.line import Line
from rlspec.runtime.worlds.protocol import InfraFailure

Messages = Sequence[Mapping[str, Any]]
Shape = TypeVar("Shape", bound=BaseModel)
T = TypeVar("T")

RETRIED = (408, 409, 429)
_MAKING = threading.Lock()
FATAL = ("insufficient_quota", "billing_hard_limit_reached", "invalid_api_key")


@dataclass(frozen=True, slots=True)
class Patience:
    """`within` seconds for a request with all its tries; at most `tries` of them, waiting up to `first_wait` seconds
    after the first and up to twice as long after each further one, never above `longest_wait`."""

    within: float = 120.0
    tries: int = 4
    first_wait: float = 0.5
    longest_wait: float = 20.0


@dataclass(slots=True)
class Spent:
    """What an endpoint was asked: requests that came back, tries that failed, tokens as it counted them."""

    requests: int = 0
    failed_tries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True, weakref_slot=True)
class Endpoint:
    """See the module. `base_url` empty: $OPENAI_BASE_URL, or OpenAI's own. The key is read from `key_variable` when a
    request is made and kept nowhere; an endpoint that asks for none gets a placeholder. `at_once` requests run at a
    time."""

    model: str
    base_url: str = ""
    key_variable: str = "OPENAI_API_KEY"
    patience: Patience = field(default_factory=Patience)
    at_once: int = 8
    spent: Spent = field(default_factory=Spent)
    _line: Line | None = field(default=None, init=False, repr=False, compare=False)

    # ------------------------------------------------------------------------------------------------------ asking

    def say(self, messages: Messages, temperature: float = 1.0, **options: Any) -> str:
        """The text of the model's answer.

        Raises:
            InfraFailure: no answer within the deadline, or the endpoint refuses.
        """
        return self.say_all([messages], temperature, **options)[0]

    def say_all(self, batch: Sequence[Messages], temperature: float = 1.0, **options: Any) -> list[str]:
        """Answers to several conversations, in their order. Raises as `say`."""
        return self._run([partial(self._say, messages=m, temperature=temperature, options=options) for m in batch])

    def message(self, messages: Messages, temperature: float = 1.0, **options: Any) -> dict[str, Any]:
        """The model's message with its tool calls, as a mapping. Raises as `say`."""
        found = self._run([lambda client: self._message(client, messages, temperature, options)])
        return found[0]

    def fill(self, messages: Messages, shape: type[Shape], temperature: float = 1.0, corrections: int = 2) -> Shape:
        """An instance of a pydantic class; an answer that is none is shown to the model with what is wrong, at most
        `corrections` times.

        Raises:
            InfraFailure: as `say`; or the last answer is not valid either.
        """
        return self._run([lambda client: self._fill(client, messages, shape, temperature, corrections)])[0]

    def _run(self, requests: Sequence[Callable[[Any], Awaitable[T]]]) -> list[T]:
        return self._reached().run(requests)

    def _reached(self) -> Line:
        """The line, another one where $OPENAI_BASE_URL has come to name another place."""
        place = self.base_url or os.environ.get("OPENAI_BASE_URL") or None
        with _MAKING:
            if self._line is None or self._line.base_url != place:
                self.close()
                self._line = Line(place, self.at_once)
                weakref.finalize(self, self._line.close)
            return self._line

    def apart(self) -> Endpoint:
        """The same endpoint over the same line, with a count of its own."""
        line, other = self._reached(), replace(self, spent=Spent())
        other._line = line
        return other

    def close(self) -> None:
        """Close its connections; another request opens new ones."""
        if self._line is not None:
            self._line.close()

    # ------------------------------------------------------------------------------------------------- one request

    async def _say(self, client: Any, messages: Messages, temperature: float, options: Mapping[str, Any]) -> str:
        message = await self._message(client, messages, temperature, options)
        return str(message.get("content") or "")

    async def _message(
        self, client: Any, messages: Messages, temperature: float, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        patience = self.patience
        until = time.monotonic() + patience.within
        reason = "no try fits into the deadline"
        for attempt in range(patience.tries):
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                found = await client.chat.completions.create(
                    model=self.model, messages=list(messages), temperature=temperature, timeout=left,
                    extra_headers={"Authorization": f"Bearer {os.environ.get(self.key_variable) or 'none'}"}, **options
                )  # fmt: skip
                message = self._read(found)
                if message is not None:
                    return message
                reason, wanted = "an empty answer", None
            except Exception as error:
                reason, wanted = self._reason(error)
            self.spent.failed_tries += 1
            wait = wanted if wanted is not None else random.uniform(0, self._longest(attempt))
            if attempt + 1 == patience.tries or time.monotonic() + wait >= until:
                break
            await asyncio.sleep(wait)
        raise InfraFailure("endpoint", f"{self.model}: {reason}")

    def _longest(self, attempt: int) -> float:
        return min(self.patience.longest_wait, self.patience.first_wait * 2**attempt)

    def _read(self, found: Any) -> dict[str, Any] | None:
        """The message of an answer, or None when there is nothing in it. Endpoints leave fields out."""
        choices = getattr(found, "choices", None)
        message = getattr(choices[0], "message", None) if choices else None
        usage = getattr(found, "usage", None)
        self.spent.prompt_tokens += getattr(usage, "prompt_tokens", 0) or 0
        self.spent.completion_tokens += getattr(usage, "completion_tokens", 0) or 0
        if message is None or not (message.content or message.tool_calls):
            return None
        self.spent.requests += 1
        return dict(message.model_dump(exclude_none=True))

    def _reason(self, error: Exception) -> tuple[str, float | None]:
        """What a failed try says, and the wait that the endpoint asks for.

        Raises:
            InfraFailure: another try cannot help.
            Exception: the error itself, when it is not the endpoint's.
        """
        import openai

        if isinstance(error, openai.APIStatusError):
            status = error.status_code
            body = error.body if isinstance(error.body, Mapping) else {}
            code = str(error.code or body.get("code") or "")
            reason = f"HTTP {status} {code}".strip()
            if code in FATAL or (400 <= status < 500 and status not in RETRIED):
                raise InfraFailure("endpoint", f"{self.model}: {reason}: {str(error.message)[:200]}") from error
            return reason, _seconds(error.response.headers.get("retry-after"))
        if isinstance(error, openai.APIConnectionError):  # time-outs among them
            return type(error).__name__, None
        if isinstance(error, (openai.APIError, json.JSONDecodeError)):
            return f"an answer that is no completion ({type(error).__name__})", None
        raise error

    # -------------------------------------------------------------------------------------------- structured answers

    async def _fill(
        self, client: Any, messages: Messages, shape: type[Shape], temperature: float, corrections: int
    ) -> Shape:
        schema = json.dumps(shape.model_json_schema())
        asked: list[Mapping[str, Any]] = [*messages]
        asked.append(
            {"role": "user", "content": f"Answer with one JSON object of this schema and nothing else:\n{schema}"}
        )
        problem = ""
        for _ in range(corrections + 1):
            text = await self._say(client, asked, temperature, {})
            try:
                return shape.model_validate(object_in(text))
            except (ValidationError, ValueError) as error:
                problem = _first(error)
                asked += [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"That is not valid: {problem}. Answer again, the JSON object alone."},
                ]
        raise InfraFailure("endpoint", f"{self.model}: no valid answer: {problem}")


def _seconds(text: str | None) -> float | None:
    """A `Retry-After` in seconds; None for none, or a date."""
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def object_in(text: str) -> Any:
    """The JSON object in an answer: the whole text, or what a fence or chatter surrounds.

    Raises:
        ValueError: there is none.
    """
    start = text.find("{")
    if start < 0:
        raise ValueError("there is no JSON object")
    return json.JSONDecoder(strict=False).raw_decode(text[start:])[0]


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return str(error)[:200]
