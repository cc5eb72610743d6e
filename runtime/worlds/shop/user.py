"""The `agenda` user: a live stochastic process with a goal.

It opens with its first wish and a random part of the details, answers what it is asked, and keeps an agenda of what it
has not said yet: a change of mind, a second wish. A change of mind comes out when the agent asks it to confirm or
whether there is more, and now and then at another question. It rejects a confirmation that names a wrong thing, loses
patience with turns that lead nowhere, and ends the talk when its agenda is empty, when the agent says goodbye, or when
it has had enough. It never sees what the agent calls, only what the agent says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlspec.compiler.catalog.shop import AgendaUser
from rlspec.runtime.worlds.protocol import Task, UserTurn
from rlspec.runtime.worlds.shop.hearing import Heard, hear
from rlspec.runtime.worlds.shop.phrasebook import Phrasebook, phrasebook
from rlspec.runtime.worlds.shop.wishes import ON_ITEM, Slot, Wish


@dataclass(slots=True)
class Concern:
    """A wish as it stands in the user's head: `now` is what it says it wants, `later` what it will want in the end."""

    now: Wish
    later: Wish

    @property
    def undecided(self) -> bool:
        return self.now != self.later


class AgendaSession:
    """One talk."""

    def __init__(self, config: AgendaUser, task: Task, rng: np.random.Generator, book: Phrasebook) -> None:
        self._config, self._rng, self._book = config, rng, book
        self._name: str = task.payload["name"]
        mine = {row[0] for row in task.payload["rows"]["orders"] if row[1] == task.payload["wishes"][0]["user"]}
        self._orders: dict[str, dict[str, str]] = {order: {} for order in mine}
        for order, item, colour, _ in task.payload["rows"]["order_items"]:
            if order in mine:
                self._orders[order][item] = colour
        self._agenda: list[Concern] = []
        for plain in task.payload["wishes"]:
            wish = Wish.read(plain)
            begins_elsewhere = bool(wish.thought) and rng.random() < config.changes_mind
            self._agenda.append(Concern(wish.at_first() if begins_elsewhere else wish, wish))
        self._at = 0
        self._told: set[str] = set()
        self._agreed = False
        self._over = False
        self._measures = dict.fromkeys(("confirmed", "rejected", "changed", "useless", "left_angry", "dismissed"), 0)

    def first(self) -> UserTurn:
        """The opening line."""
        parts = [self._say("greet")] if self._rng.random() < 0.5 else []
        wish = self._opening()
        if self._rng.random() < self._config.reveal:
            self._told.add("name")
            parts.append(self._say("name", name=self._name))
        return UserTurn(" , ".join([*parts, wish]), False)

    def reply(self, agent_text: str) -> UserTurn:
        """The answer to what the agent said. After the end it is silence."""
        if self._over:
            return UserTurn("", True)
        heard = hear(agent_text)
        match heard.act:
            case "goodbye":
                self._measures["dismissed"] = 1
                return self._leave("farewell")
            case "more":
                return self._more()
            case "confirm":
                text = self._confirm(heard)
            case "ask":
                text = self._answer(heard)
            case _:
                text = self._useless("noted")
        if self._measures["useless"] > self._config.patience:
            self._measures["left_angry"] = 1
            return self._leave("angry")
        return UserTurn(text, False)

    def measure(self) -> dict[str, int]:
        """The signals of `AgendaUser.MEASURES`: confirmations agreed to and rejected, changes of mind that came out,
        useless turns, whether it left in anger, whether the agent said goodbye first."""
        return dict(self._measures)

    # The rest is how it thinks.

    @property
    def _concern(self) -> Concern:
        return self._agenda[self._at]

    def _say(self, act: str, **parts: str) -> str:
        return self._book.say(act, self._rng, **parts)

    def _useless(self, act: str, **parts: str) -> str:
        self._measures["useless"] += 1
        return self._say(act, **parts)

    def _leave(self, act: str) -> UserTurn:
        self._over = True
        return UserTurn(self._say(act), True)

    def _tell(self, wish: Wish, slots: set[str]) -> str:
        """The wish in words, with these of its details."""
        self._told |= slots
        shape = "both" if len(slots) == 2 else (min(slots) if slots else "bare")
        return self._say(f"{wish.intent}.{shape}", target=wish.spoken, value=wish.value)

    def _opening(self) -> str:
        """The present wish, with each detail at the chance `reveal`."""
        wish = self._concern.now
        slots: set[str] = {slot for slot in self._slots(wish) if self._rng.random() < self._config.reveal}
        return self._tell(wish, slots)

    @staticmethod
    def _slots(wish: Wish) -> list[Slot]:
        slots: list[Slot] = ["target"] if wish.has_target else []
        return [*slots, "value"] if wish.value_kind else slots

    def _change(self, concern: Concern) -> str:
        """Speak the change of mind out."""
        concern.now = concern.later
        slot = concern.later.thought
        self._told.add(slot)
        self._agreed = False
        self._measures["changed"] += 1
        return self._say(f"change.{slot}", target=concern.now.spoken, value=concern.now.value)

    def _more(self) -> UserTurn:
        for concern in self._agenda[: self._at + 1]:
            if concern.undecided:
                return UserTurn(self._change(concern), False)
        if self._at + 1 < len(self._agenda):
            self._at += 1
            self._told &= {"name"}
            self._agreed = False
            return UserTurn(self._say("also", wish=self._opening()), False)
        return self._leave("done")

    def _confirm(self, heard: Heard) -> str:
        concern = self._concern
        if concern.undecided:
            return self._change(concern)
        wish = concern.now
        if heard.intents and wish.intent not in heard.intents:
            self._measures["rejected"] += 1
            return self._say("no_wish", wish=self._tell(wish, set(self._slots(wish))))
        wrong = self._wrong(wish, heard)
        if wrong:
            self._measures["rejected"] += 1
            self._told.add(wrong)
            return self._say("no", fact=wish.spoken if wrong == "target" else wish.value)
        if not any(heard.mentions.get(kind) for kind in ("item", "order", wish.value_kind)):
            return self._useless("vague")
        if self._agreed:
            return self._useless("yes")
        self._agreed = True
        self._measures["confirmed"] += 1
        return self._say("yes")

    def _wrong(self, wish: Wish, heard: Heard) -> str:
        """The slot of the wish about which something wrong is mentioned, or empty. Further true things about the
        wish's order may be mentioned: its number, what is in it, the colour that an item has."""
        said = heard.mentions
        if wish.has_target:
            inside = self._orders[wish.order]
            meant = {wish.item} if wish.intent in ON_ITEM else set(inside)
            if not set(said.get("order", ())) <= {wish.order} or not set(said.get("item", ())) <= meant:
                return "target"
        if wish.value_kind:
            known = {wish.value, wish.method}
            if wish.item:
                known.add(self._orders[wish.order].get(wish.item, ""))
            if not set(said.get(wish.value_kind, ())) <= known:
                return "value"
        return ""

    def _answer(self, heard: Heard) -> str:
        concern, wish = self._concern, self._concern.now
        answers, news = [], False
        for asked in heard.asked:
            slot = asked if asked in ("name", "target") else ("value" if asked == wish.value_kind else "")
            if not slot or (slot == "target" and not wish.has_target):
                continue
            news |= slot not in self._told
            self._told.add(slot)
            if slot == "name":
                answers.append(self._say("name", name=self._name))
            else:
                answers.append(self._say(f"answer.{slot}", target=wish.spoken, value=wish.value))
        if not answers:
            return self._useless("answer.unknown")
        if not news:
            self._measures["useless"] += 1
        asked_it = ("target" if concern.later.thought == "target" else wish.value_kind) in heard.asked
        chance = max(self._config.volunteers, self._config.reconsiders if asked_it else 0.0)
        if concern.undecided and self._rng.random() < chance:
            answers.append(self._change(concern))
        return " , ".join(answers)


class AgendaUsers:
    """The user simulator `agenda`."""

    def __init__(self, config: AgendaUser) -> None:
        self.config = config

    def open(self, task: Task, rng: np.random.Generator, phrasing: str = "train") -> AgendaSession:
        """A user with the task's goal. Raises ValueError for an unknown phrasing."""
        return AgendaSession(self.config, task, rng, phrasebook(phrasing))

    def with_changes(self, chance: float) -> AgendaUsers:
        """The same users with another chance to change their mind."""
        return AgendaUsers(self.config.model_copy(update={"changes_mind": chance}))
