"""The `oracle` judge: labels every turn of the agent from the gold calls and the dialogue.

- +1: the turn brings what is needed: new information from the user, a first useful read, a right write, a needed yes;
- -1: the one major deviation of the trajectory (at most one): a wrong write that is never made good, or the turn that
  ended the talk with work undone;
- 0: everything else, such as a repeated question, a faulty call that the desk refused, a wrong write made good later.

This is the scale of TARL's judge (section 3 of the paper: good, neutral, major error). Noise is declared, never hidden:
`flip` replaces labels by chance, `spread` makes a turn after a wrong label wrong as well, `bias` moves labels up or
down, `cascade` carries an early -1 on to later turns, as judges that see a whole trajectory tend to do, in this order.
With noise there may be several -1, unless `at_most_one_major` lets the first one stand for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rlspec.compiler.catalog.shop import OracleJudge
from rlspec.runtime.worlds.protocol import Call, Message, Task
from rlspec.runtime.worlds.shop.hearing import hear
from rlspec.runtime.worlds.shop.tools import REPEATABLE, TOOLS

_Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(call: Call) -> _Key:
    """A call as something to count; arguments that are no texts count by their representation."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {"": call.arguments}
    return call.name, tuple(sorted((name, str(value)) for name, value in arguments.items()))


def _writes(call: Call) -> bool:
    return call.name in TOOLS and TOOLS[call.name].writes


def clean_labels(task: Task, dialogue: Sequence[Message]) -> list[int]:
    """The labels without noise, one per message of the agent."""
    gold = {_key(call) for call in task.gold if _writes(call)}
    owed = Counter(gold)
    useful_reads = {_key(call) for call in task.gold if not _writes(call)}
    labels: list[int] = []
    wrong: list[tuple[int, Call]] = []
    known: set[str] = set()
    read: set[_Key] = set()
    confirmed: set[str] = set()
    last_turn = -1
    for place, message in enumerate(dialogue):
        if message.role == "user":
            known |= _things(message)
        if message.role != "agent":
            continue
        reply = dialogue[place + 1] if place + 1 < len(dialogue) else None
        labels.append(0)
        last_turn = len(labels) - 1
        if message.call is None:
            if reply is not None and reply.role == "user" and message.malformed is None:
                labels[-1] = _label_of_text(message, reply, known, bool(owed))
                if hear(message.text).act == "confirm":
                    labels[-1] *= int(message.text not in confirmed)
                    confirmed.add(message.text)
        elif reply is not None and reply.status == "ok":
            key = _key(message.call)
            if not _writes(message.call):
                labels[-1] = int(key not in read and (key in useful_reads or message.call.name == "get_order"))
                read.add(key)
            elif owed[key] > 0:
                labels[-1] = 1
                owed -= Counter([key])
            else:
                wrong.append((last_turn, message.call))
    major = [turn for turn, call in wrong if not _made_good(call, dialogue, gold)]
    if major:
        labels[major[0]] = -1
    elif owed and last_turn >= 0 and hear(dialogue[-1].text).act == "goodbye":
        labels[last_turn] = -1
    return labels


def _things(message: Message) -> set[str]:
    return {word for words in hear(message.text).mentions.values() for word in words}


def _label_of_text(message: Message, reply: Message, known: set[str], work_left: bool) -> int:
    """+1 for a question whose answer is new, a yes while there is work left, or a question for more that ends the talk
    in time or opens a new wish."""
    heard = hear(message.text)
    if heard.act == "confirm":
        answer = hear(reply.text)
        return int(work_left and (bool(_things(reply) - known) or not answer.has("exactly", "understand")))
    if heard.act == "more":
        return int(not work_left or bool(hear(reply.text).intents) or bool(_things(reply) - known))
    return int(heard.act == "ask" and bool(_things(reply) - known))


def _made_good(call: Call, dialogue: Sequence[Message], gold: set[_Key]) -> bool:
    """Whether the last write of a tool that may write again is a gold one. Most writes are final."""
    if call.name not in REPEATABLE:
        return False
    again = [
        message.call
        for message, reply in pairwise(dialogue)
        if message.call is not None and message.call.name == call.name and reply.status == "ok"
    ]
    return _key(again[-1]) in gold


class OracleJudgement:
    """The judge `oracle`."""

    def __init__(self, config: OracleJudge) -> None:
        self.config = config

    def measure(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> dict[str, Any]:
        """`score`, as `OracleJudge.MEASURES` declares it."""
        return {"score": self.score(task, dialogue, rng)}

    def score(self, task: Task, dialogue: Sequence[Message], rng: np.random.Generator) -> list[int]:
        """A label of -1, 0 or +1 per message of the agent. Draws from `rng` three numbers per label, whatever the
        configuration, so that judges of different noise agree on where they err."""
        noisy: list[int] = []
        fallen = wrong = False
        clean = clean_labels(task, dialogue)
        biased = np.random.Generator(rng.bit_generator.jumped()).random(len(clean))  # type: ignore[attr-defined]
        pairs = rng.random((len(clean), 2))  # a longer dialogue begins with the same numbers
        for label, (flip, cascade), bias in zip(clean, pairs.tolist(), biased.tolist(), strict=True):
            right, chance = label, max(self.config.flip, self.config.spread if wrong else 0.0)
            if flip < chance:
                others = [other for other in (-1, 0, 1) if other != label]
                label = others[int(flip < chance / 2)]
            if bias < abs(self.config.bias):
                label = min(max(label + (1 if self.config.bias > 0 else -1), -1), 1)
            if fallen and cascade < self.config.cascade:
                label = -1
            if self.config.at_most_one_major and fallen and label == -1:
                label = 0
            fallen |= label == -1
            wrong = label != right
            noisy.append(label)
        return noisy
