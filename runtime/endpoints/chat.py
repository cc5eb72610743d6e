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
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from rlspec.runtime.endpoints.line import Line
from rlspec.runtime.refusal import Refusal
from rlspec.runtime.worlds.protocol import InfraFailure, Unusable

Messages = Sequence[Mapping[str, Any]]
Shape = TypeVar("Shape", bound=BaseModel)
T = TypeVar("T")

RETRIED = (408, 409, 429)
_MAKING = threading.Lock()
OPENAI = "https://api.openai.com/v1"
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

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self._place)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound:
            raise Refusal("RLC0505", f"{self._place!r} is no address of an endpoint",
                          "write it as http://127.0.0.1:8000/v1, in the spec or in $OPENAI_BASE_URL")  # fmt: skip

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
            InfraFailure: as `say`; Unusable, the last answer is not valid either.
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
        message = await self._message(client, messages, temperature, options, text=True)
        return str(message["content"])

    async def _message(
        self, client: Any, messages: Messages, temperature: float, options: Mapping[str, Any], text: bool = False
    ) -> dict[str, Any]:
        """The model's message, with `text` one that says something."""
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
                if message is not None and (message.get("content") or not text):
                    self.spent.requests += 1
                    return message
                reason, wanted = "an empty answer, or one that is no message", None
            except Exception as error:
                reason, wanted = self._reason(error)
            self.spent.failed_tries += 1
            wait = wanted if wanted is not None else random.uniform(0, self._longest(attempt))
            if attempt + 1 == patience.tries or time.monotonic() + wait >= until:
                break
            await asyncio.sleep(wait)
        raise InfraFailure("endpoint", f"{self._name}: {reason}")

    @property
    def _place(self) -> str:
        """Where the model is asked for; who signs in by the address is left out."""
        return re.sub(r"//[^/]*@", "//", self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)

    @property
    def _name(self) -> str:
        return f"{self.model} at {self._place}"

    def _longest(self, attempt: int) -> float:
        return min(self.patience.longest_wait, self.patience.first_wait * 2**attempt)

    def _read(self, found: Any) -> dict[str, Any] | None:
        """The message of an answer, or None when there is nothing in it. Endpoints leave fields out, and put other
        things into them, which the package does not check."""
        choices = getattr(found, "choices", None)
        first = choices[0] if isinstance(choices, list) and choices else None
        message, usage = getattr(first, "message", None), getattr(found, "usage", None)
        self.spent.prompt_tokens += _count(getattr(usage, "prompt_tokens", 0))
        self.spent.completion_tokens += _count(getattr(usage, "completion_tokens", 0))
        content, calls = getattr(message, "content", None) or "", getattr(message, "tool_calls", None) or []
        if not (content or calls) or not _is_text(content) or not isinstance(calls, list):
            return None
        functions = [getattr(call, "function", None) for call in calls]
        if not all(_is_text(getattr(f, "name", None)) and _is_text(getattr(f, "arguments", None)) for f in functions):
            return None
        assert message is not None
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
                raise InfraFailure("endpoint", f"{self._name}: {reason}: {str(error.message)[:200]}") from error
            return reason, _seconds(error.response.headers.get("retry-after"))
        if isinstance(error, openai.APITimeoutError):
            return f"no answer within {self.patience.within:g} s", None
        if isinstance(error, openai.APIConnectionError):
            return f"it cannot be reached ({error.__cause__ or error})", None
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
            except (ValidationError, ValueError, RecursionError) as error:
                problem = _first(error)
                asked += [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"That is not valid: {problem}. Answer again, the JSON object alone."},
                ]
        raise Unusable("endpoint", f"{self._name}: no valid answer: {problem}")


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be written down: half a surrogate pair cannot."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


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
