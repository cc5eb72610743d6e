"""The judge `wording`: how long the agent's messages are, and whether they reflect, by the words declared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlspec.compiler.catalog.wording import Wording
from rlspec.runtime.worlds.protocol import Message, Task


class WordingJudge:
    """Measures by `config`; needs no gold calls."""

    def __init__(self, config: Wording) -> None:
        alternatives = "|".join(re.escape(phrase.strip()).replace(r"\ ", r"\s+") for phrase in config.reflection)
        self._reflection = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        """One entry per message of the agent. Draws nothing from `rng`."""
        said = [m.text for m in dialogue if m.role == "agent"]
        return {
            "length": [len(text.split()) for text in said],
            "reflects": [int(self._reflection.search(text) is not None) for text in said],
        }
