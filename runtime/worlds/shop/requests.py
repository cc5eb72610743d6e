"""The whole request of a task in one message, for a user who is not there afterwards."""

from __future__ import annotations

import numpy as np

from rlspec.runtime.worlds.protocol import Task
from rlspec.runtime.worlds.shop.phrasebook import phrasebook
from rlspec.runtime.worlds.shop.wishes import Wish


def whole_request(task: Task, rng: np.random.Generator, phrasing: str = "train") -> str:
    """Everything that the user of a task wants, in one message: who it is, and each wish with all its details."""
    book = phrasebook(phrasing)
    parts = [book.say("greet", rng)] if rng.random() < 0.5 else []
    parts.append(book.say("name", rng, name=task.payload["name"]))
    for number, plain in enumerate(task.payload["wishes"]):
        wish = Wish.read(plain)
        parts += ["also"] if number else []
        parts.append(book.say(f"{wish.intent}.{_shape(wish)}", rng, target=wish.spoken, value=wish.value))
    return " , ".join(parts)


def _shape(wish: Wish) -> str:
    """The wordings in which a wish has all its details."""
    if wish.has_target:
        return "both" if wish.value_kind else "target"
    return "value"
