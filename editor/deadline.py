"""A time limit for work on a text that may be half typed: an editor waits for no analysis.

The limit is processor time, so that a busy machine gives up no sound check. It uses the interval timer of POSIX and
works in the main thread; elsewhere the work runs without one.
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
    """Raises TooSlow inside of the block once the process has worked for `seconds` in it."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def stop(_number: int, _frame: FrameType | None) -> None:
        if armed:
            raise TooSlow(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
