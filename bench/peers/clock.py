"""The clock that both sides of bench/kernels.py use."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 1.5  # how long a case is repeated, at least three times


def milliseconds(call: Callable[[], object]) -> float:
    """The smallest CPU time of repeated calls, after one that warms up."""
    call()
    found: list[float] = []
    begun = time.perf_counter()
    while len(found) < 3 or time.perf_counter() - begun < SECONDS:
        start = time.process_time_ns()
        call()
        found.append((time.process_time_ns() - start) / 1e6)
    return min(found)
