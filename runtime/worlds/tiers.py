"""The judge `tiers`: a label per turn of the agent, a pure function of the gold calls and the dialogue.

What applies to a turn (several may; the component's `priority` decides):

- `dup`: the call was made before, same tool and same arguments (before: at all, or without an error);
- `err`: the call failed, or could not be parsed;
- `gold`: it equals a gold call; `soft`: it has a gold call's name and shares arguments with it;
- `state`: it succeeded and wrote; `read`: it is any other call that did not fail; `msg`: it is a message.

Without `gold_twice`, a gold call that was credited is used up, for `gold` and for `soft`. A call that nobody answered
(a log may end in one) neither failed nor wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlspec.compiler.catalog.tiers import EXACT, Tier, Tiers
from rlspec.runtime.worlds.equality import Form, canonical, shared
from rlspec.runtime.worlds.protocol import Call, Message, Task, answer_to


class TierJudge:
    """Labels by `config`; needs no world."""

    def __init__(self, config: Tiers) -> None:
        self.config = config

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, list[Any]]:
        """`tier` and `overlap`, one entry per message of the agent. Draws nothing from `rng`."""
        tiers, overlaps = self.label(task.gold, dialogue)
        return {"tier": tiers, "overlap": overlaps}

    def label(self, gold: Sequence[Call], dialogue: Sequence[Message]) -> tuple[list[Tier], list[float]]:
        """Tiers and overlaps of the agent's turns, in order."""
        config = self.config
        unused = [self._key(call) for call in gold]
        before: set[tuple[str, Form]] = set()
        tiers: list[Tier] = []
        overlaps: list[float] = []
        for place, message in enumerate(dialogue):
            if message.role != "agent":
                continue
            if message.call is None:
                tiers.append("msg" if message.malformed is None else "err")
                overlaps.append(0.0)
                continue
            answer = answer_to(dialogue, place)
            key = self._key(message.call)
            overlap = max((shared(key[1], form) for name, form in unused if name == key[0]), default=0.0)
            tier = self._first(self._applying(answer, key, key in unused, overlap, key in before))
            if tier == "gold" and not config.gold_twice:
                unused.remove(key)
            if config.duplicates == "history" or answer.status != "error":
                before.add(key)
            tiers.append(tier)
            overlaps.append(overlap)
        return tiers, overlaps

    def _applying(
        self, answer: Message, key: tuple[str, Form], gold: bool, overlap: float, repeated: bool
    ) -> set[Tier]:
        failed = answer.status == "error"
        wrote = answer.wrote if not self.config.writes else key[0] in self.config.writes and answer.status == "ok"
        found: dict[Tier, bool] = {
            "dup": repeated,
            "err": failed,
            "gold": gold,
            "soft": not gold and overlap > self.config.soft_above,
            "state": wrote and not failed,
            "read": not wrote and not failed,
        }
        return {tier for tier, applies in found.items() if applies}

    def _first(self, applying: set[Tier]) -> Tier:
        return next(tier for tier in self.config.priority if tier in applying)

    def _key(self, call: Call) -> tuple[str, Form]:
        rules = EXACT if self.config.equal == "exact" else self.config.deep_equal
        return call.name, canonical(call.arguments, rules)
