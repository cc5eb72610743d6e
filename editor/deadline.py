"""A time limit for work on a text that may be half typed: an editor waits for no analysis.

The limit uses the interval timer of POSIX and works in the main thread; elsewhere the work runs without one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(Exception):
    """The work took longer than it may."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises TooSlow inside of the block once it has run for `seconds`."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def stop(_number: int, _frame: FrameType | None) -> None:
        if armed:
            raise TooSlow(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
