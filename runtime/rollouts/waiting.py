"""Answers that take their time: models behind endpoints are asked on threads of their own, so that a conversation which
waits for its user or its judge holds nobody else up.

    waiting = Waiting(at_once=16)
    waiting.ask("t3/r1", work, then)    # `work()` runs on a thread
    waiting.take(block=False)           # calls `then(outcome)` of what has come back, here

What is asked for changes nothing that others see, and what comes back is used on the thread that takes it, so the only
thing that depends on time is the order in which conversations go on; nothing that is recorded depends on that.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a piece of work came to. `get` gives its result or raises what it raised."""

    future: Future[Any]

    def get(self) -> Any:
        return self.future.result()


class Waiting:
    """See the module. Threads are started when they are first needed."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._pool: ThreadPoolExecutor | None = None
        self._asked: dict[str, tuple[Future[Any], Callable[[Outcome], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._asked)

    def ask(self, key: str, work: Callable[[], T], then: Callable[[Outcome], None]) -> None:
        """Start `work`; `take` hands what comes of it to `then`. One piece of work per key at a time."""
        if key in self._asked:
            raise KeyError(f"{key} is waiting already")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="waiting")
        self._asked[key] = self._pool.submit(work), then

    def take(self, block: bool) -> None:
        """Go on with everything that has come back; with `block`, wait until something has."""
        if block and self._asked:
            wait([future for future, _ in self._asked.values()], return_when=FIRST_COMPLETED)
        for key in [key for key, (future, _) in self._asked.items() if future.done()]:
            future, then = self._asked.pop(key)
            then(Outcome(future))
