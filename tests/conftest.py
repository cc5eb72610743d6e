"""Shared by all tests: caches in a folder of the test session, quiet libraries, one thread."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
if "RLSPEC_CACHE" not in os.environ:  # processes that share the tests inherit the one of the first
    os.environ["RLSPEC_CACHE"] = tempfile.mkdtemp(prefix="rlspec-cache-")
    atexit.register(shutil.rmtree, os.environ["RLSPEC_CACHE"], ignore_errors=True)
