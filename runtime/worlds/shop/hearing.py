"""What is heard in a line: things that are mentioned, the act, what is asked for, which intent is meant.

The rules look for single words, so they bear with broken grammar, other wordings and other punctuation. The user hears
the agent with them, the demonstrators hear the user.

    hear("mug in blue , ok ?").act              -> "confirm"
    hear("and your name please ?").asked        -> ("name",)
    hear("cancel W12 , ok ?").mentions["order"] -> ["W12"]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rlspec.runtime.worlds.shop.lexicon import KIND_OF

Act = Literal["confirm", "ask", "more", "goodbye", "state"]

CUES: dict[str, frozenset[str]] = {
    "cancel": frozenset({"cancel", "cancelled", "cancelling"}),
    "refund": frozenset({"refund", "return", "money", "refunded", "returned"}),
    "address": frozenset({"send", "sent", "address", "ship", "shipped"}),
    "recolour": frozenset({"colour", "swap", "color", "exchange", "modify"}),
    "payment": frozenset({"pay", "paid", "payment"}),
    "card": frozenset({"redeem", "gift", "card"}),
    "home": frozenset({"home", "moved"}),
}
"""Words that tell the intent; a wording of a wish has one of them."""

_ASKED = {
    "name": "name",
    "who": "name",
    "item": "target",
    "product": "target",
    "order": "target",
    "city": "city",
    "address": "city",
    "where": "city",
    "colour": "colour",
    "color": "colour",
    "payment": "payment",
    "method": "payment",
    "pay": "payment",
    "card": "card",
    "code": "card",
}
_CONFIRMING = frozenset({"ok", "okay", "confirm", "correct", "right", "sure", "agree", "proceed"})
_QUESTION = frozenset({"which", "what", "who", "where", "your", "whose", "how"})
_PARTING = frozenset({"bye", "goodbye"})
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Heard:
    """`mentions`: kind of thing -> the words of that kind, in order. `asked`: the slots that are asked for ("name",
    "target", or a kind of value). `intents`: those whose cue words occur. `words`: all words, lower case."""

    act: Act
    asked: tuple[str, ...]
    mentions: dict[str, list[str]]
    intents: tuple[str, ...]
    words: tuple[str, ...]

    def has(self, *words: str) -> bool:
        return any(word in self.words for word in words)

    def last(self, kind: str) -> str:
        """The last thing of this kind that is mentioned, or empty."""
        found = self.mentions.get(kind)
        return found[-1] if found else ""


@lru_cache(maxsize=16384)
def hear(text: str) -> Heard:
    """Understand one line. Never fails: what is not understood is an act of kind "state" without mentions."""
    words = tuple(_WORD.findall(text.lower()))
    mentions: dict[str, list[str]] = {}
    for word in words:
        if word in KIND_OF:
            kind, spelling = KIND_OF[word]
            mentions.setdefault(kind, []).append(spelling)
    said = set(words)
    asking = "?" in text or not said.isdisjoint(_QUESTION)
    asked = tuple(dict.fromkeys(_ASKED[word] for word in words if word in _ASKED)) if asking else ()
    act: Act
    if "else" in said or {"anything", "more"} <= said:
        act = "more"
    elif said & _PARTING:
        act = "goodbye"
    elif said & _CONFIRMING and "?" in text and said.isdisjoint(_QUESTION):
        act = "confirm"
    elif asked:
        act = "ask"
    else:
        act = "state"
    intents = tuple(intent for intent, cues in CUES.items() if not cues.isdisjoint(said))
    return Heard(act, asked, mentions, intents, words)
