"""One jail for all tests of this folder, and a design with tools of every bad kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlspec.runtime.worlds.codegym import decompose
from rlspec.runtime.worlds.codegym.environment import Design
from rlspec.runtime.worlds.codegym.jail import Jail

TROUBLE = '''
def keep(kept: list[int], x: int) -> int:
    """Keep a number."""
    kept.append(x)
    return len(kept)


def fail(kept: list[int], x: int) -> int:
    """Change the state, then fail."""
    kept.clear()
    return kept[x]


def spin(kept: list[int], x: int) -> int:
    """Change the state, then never end."""
    kept.append(x)
    while True:
        x += 1


def swell(kept: list[int], x: int) -> int:
    """Eat memory."""
    for n in range(1_000_000):
        kept.append([x] * 1_000_000)
    return 0


def dive(kept: list[int], x: int) -> int:
    """Recurse."""
    kept.append(x)
    return dive(kept, x + 1)


def solve(numbers: list[int]) -> int:
    """Use everything once."""
    kept: list[int] = []
    for x in numbers:
        keep(kept, fail(kept, x))
    return spin(kept, swell(kept, dive(kept, 1)))
'''


@pytest.fixture(scope="session")
def jail() -> Iterator[Jail]:
    with Jail(workers=1) as found:
        yield found


@pytest.fixture(scope="session")
def trouble() -> Design:
    return decompose.design_of(TROUBLE, "solve", "get into trouble", "Trouble")
