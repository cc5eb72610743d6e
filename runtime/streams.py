"""Random streams by name. No global generator exists: whoever draws says for what.

    rng = stream(seed, "user", "train", step, task, rollout)

The same name gives the same numbers in any order, process, executor or resumed run, so nothing about randomness has to
be saved in a checkpoint.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """A Philox generator keyed by the seed and a name."""
    text = "\x1f".join([str(seed), *map(str, name)])
    key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))


def derived_seed(seed: int, *name: str | int) -> int:
    """A 31-bit seed for libraries that want a number."""
    text = "\x1f".join([str(seed), *map(str, name)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
