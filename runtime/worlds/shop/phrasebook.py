"""The wordings of the user, from `phrases.toml`: several hundred, some held out for evaluation.

book = phrasebook("held_out")
book.say("change.value", rng, value="blue")   -> "wait , i want blue instead"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

PHRASINGS = ("train", "held_out")


class Phrasebook:
    """The wordings of one set, by act."""

    def __init__(self, lines: Mapping[str, tuple[str, ...]]) -> None:
        self.lines = dict(lines)

    def say(self, act: str, rng: np.random.Generator, **parts: str) -> str:
        """A wording of the act, each equally likely, with its parts put in."""
        choice = self.lines[act]
        return choice[int(rng.random() * len(choice))].format(**parts)


def _acts(table: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    if set(table) == set(PHRASINGS):
        yield name, table
        return
    for key, inner in table.items():
        yield from _acts(inner, f"{name}.{key}" if name else key)


@cache
def phrasebook(phrasing: str) -> Phrasebook:
    """The set of wordings called "train" or "held_out"; ValueError for any other name."""
    if phrasing not in PHRASINGS:
        raise ValueError(f"no phrasing {phrasing!r}: there are {' and '.join(PHRASINGS)}")
    text = (files("rlspec.runtime.worlds.shop") / "phrases.toml").read_text(encoding="utf-8")
    return Phrasebook({name: tuple(lines[phrasing]) for name, lines in _acts(tomllib.loads(text))})
