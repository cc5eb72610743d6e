"""What runs the plugin's judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlspec.compiler.catalog.base import Component
from rlspec.compiler.plan import Plan
from rlspec.runtime.secrets import reveal
from rlspec.runtime.worlds.protocol import InfraFailure, Message, Task


class RubricJudge:
    """A turn is good when it is short enough for the rubric. Fails now and then, and blurts out its key."""

    def __init__(self, config: Any, rubric: Any) -> None:
        self.config, self.rubric = config, rubric

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        if rng.random() < self.config.fails:
            raise InfraFailure("judge", f"401 for the key {reveal(self.config.api_key)}")
        turns = [m for m in dialogue if m.role == "agent"]
        return {"score": [1 if len(m.text) <= self.rubric.longest else -1 for m in turns]}


def make(config: Component, plan: Plan) -> RubricJudge:
    """The factory that the schema names."""
    return RubricJudge(config, plan.labelled(config.rubric).component())  # type: ignore[attr-defined]
