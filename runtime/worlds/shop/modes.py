"""The shop's users that are made of recordings, and of rules (the request at once stands in `requests.py`).

They speak in the words of the live user, so that a policy examined with a live user meets no word that it has not read.
A recording has no ear for the agent; the rules have no mind to change.
"""

from __future__ import annotations

import numpy as np

from rlspec.compiler.catalog.shop import AgendaUser, Shop
from rlspec.compiler.catalog.users import RecordedUser, ScriptedUser
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Task, UserTurn
from rlspec.runtime.worlds.recorded import RecordedUsers
from rlspec.runtime.worlds.shop.demonstrations import demonstrate
from rlspec.runtime.worlds.shop.phrasebook import Phrasebook, phrasebook
from rlspec.runtime.worlds.shop.user import AgendaSession, AgendaUsers
from rlspec.runtime.worlds.shop.world import ShopWorld


class ScriptedSession(AgendaSession):
    """One talk by rules: a bare first wish, answers to what is asked, a yes to what is right and a no with the fact to
    what is wrong, the next wish when there is room for it, goodbye."""

    def first(self) -> UserTurn:
        """The opening line: what it is about, without any detail."""
        return UserTurn(self._tell(self._concern.now, set()), False)

    def measure(self) -> dict[str, int]:
        """Nothing: the component declares no signals."""
        return {}


class ScriptedUsers:
    """The user simulator `scripted`: an agenda without chance."""

    def __init__(self, config: ScriptedUser) -> None:
        self._settings = AgendaUser(reveal=0.0, changes_mind=0.0, volunteers=0.0, patience=config.patience)

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> ScriptedSession:
        """A user with the task's goal, in the first wording of each act."""
        book = phrasebook(phrasing)
        fixed = Phrasebook({act: lines[:1] for act, lines in book.lines.items()})
        return ScriptedSession(self._settings, task, rng, fixed)


def recorded_users(config: RecordedUser, world: Shop, live: AgendaUser) -> RecordedUsers:
    """Recordings that are made when a task is first met: conversations of the live user with a demonstrator that asks
    for a yes before each write. Equal tasks have equal recordings in every process."""
    shop, users = ShopWorld(world), AgendaUsers(live)

    def record(task: Task) -> list[list[str]]:
        made = []
        for number in range(config.recordings):
            rng = stream(world.seed, "shop", "recording", task.id, number)
            dialogue, _, _ = demonstrate(shop, users, task, "confirm", rng)
            made.append([message.text for message in dialogue if message.role == "user"])
        return made

    return RecordedUsers(record, config.at_the_end)
