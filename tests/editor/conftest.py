"""Texts with a mark: `|` stands for the cursor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlspec.editor.document import Document

HEAD = """rlspec = 1
experiment e {
  policy agent : tiny { width = 64 }
  env desk : shop { difficulty = 0 }
  user customer : agenda { serves = [desk] }
  judge turns : oracle { on = [desk]  flip = 10% }
  param weight : real in [0, 1] = assumed(0.2, "not published")
  signal outcome : int@traj in {0, 1} = env.verified
  signal verdict : int@turn in {-1, 0, 1} = turns.score
  signal tier : {gold, soft}@turn = env.tier
"""


@pytest.fixture(scope="session")
def sample() -> str:
    """A spec without errors."""
    return (Path(__file__).parents[1] / "sample.rlspec").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def head() -> str:
    """The beginning of an experiment; what is typed next comes behind it."""
    return HEAD


@pytest.fixture(scope="session")
def marked() -> Callable[[str], tuple[Document, int]]:
    """A text's document without its mark, and where the mark stood."""

    def split(text: str) -> tuple[Document, int]:
        offset = text.index("|")
        return Document(text[:offset] + text[offset + 1 :]), offset

    return split
