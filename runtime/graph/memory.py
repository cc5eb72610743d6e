"""Memory of processes that share their libraries."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def usage() -> tuple[int, int]:
    """(largest resident size so far, how much of the size now is pages of files) of this process, in bytes. The second
    is 0 where the system does not tell."""
    files = 0
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssFile:"):
                files = int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, files


def together(processes: Sequence[tuple[int, int]]) -> int:
    """Bytes of several processes of one machine at their largest: what each has of its own, and the pages of files
    (torch's libraries, above all), which they share, once."""
    return sum(peak - files for peak, files in processes) + max((files for _, files in processes), default=0)
