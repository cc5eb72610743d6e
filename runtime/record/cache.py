"""Where things are kept that can be made again: compiled kernels, cold starts, synthesised environments."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """$RLSPEC_CACHE, or ~/.cache/rlspec."""
    return Path(os.environ.get("RLSPEC_CACHE") or Path.home() / ".cache" / "rlspec")
