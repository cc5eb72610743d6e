"""A survey of the shop, printed: what its demonstrators reach, how long its talks are, what they cost.

    python -m rlspec.runtime.worlds.shop.survey [--tasks 300] [--difficulty 1]

Tokens are counted as a word-level tokenizer with single tokens for the chat format's scaffolding counts them: a word or
an identifier is one, a longest piece of constant text inside a call or a result is one, and each message has one token
before it and, where it does not end in such a piece, one behind it.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from statistics import fmean

from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, OracleJudge, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Message
from rlspec.runtime.worlds.shop.demonstrations import demonstrate, demonstrations
from rlspec.runtime.worlds.shop.judge import OracleJudgement
from rlspec.runtime.worlds.shop.lexicon import KIND_OF
from rlspec.runtime.worlds.shop.oracles import STYLES
from rlspec.runtime.worlds.shop.phrasebook import PHRASINGS, phrasebook
from rlspec.runtime.worlds.shop.tasks import SPLITS
from rlspec.runtime.worlds.shop.user import AgendaUsers
from rlspec.runtime.worlds.shop.world import ShopWorld

_WORD = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")
_VALUE = re.compile(r"(?<=\")[A-Za-z0-9]+(?=\")|\b\d+\b")
_CONSTANT_WORDS = {"status", "payment", "items", "orders", "user_id", "ok", "home", "credit", "city", "amount"}


def words_in(text: str) -> list[str]:
    """Words and signs of a line that is spoken."""
    return _WORD.findall(text)


def size(message: Message) -> int:
    """Tokens of a message; see the head of this module."""
    if message.call is not None:
        values = len(message.call.arguments)
        return 2 + 2 * values if values else 2
    if message.role == "tool" and message.status == "ok":
        values = sum(word not in _CONSTANT_WORDS for word in _VALUE.findall(message.text))
        return 2 + 2 * values
    return 2 + len(words_in(message.text))


def tokens(dialogue: Sequence[Message]) -> int:
    """Tokens of a dialogue, without the policy and the schemas that may stand before it."""
    return sum(size(message) for message in dialogue)


def turns(dialogue: Sequence[Message]) -> int:
    """Messages of the agent."""
    return sum(message.role == "agent" for message in dialogue)


def _line(name: str, talks: Sequence[tuple[list[Message], str, bool]], seconds: float) -> str:
    return (
        f"{name:<26} success {fmean(talk[2] for talk in talks):.3f}  "
        f"turns {fmean(turns(talk[0]) for talk in talks):5.2f}  "
        f"tokens {fmean(tokens(talk[0]) for talk in talks):6.1f}  {1e3 * seconds / len(talks):.2f} ms"
    )


def main() -> None:
    """Print the survey."""
    parser = argparse.ArgumentParser(description="What the shop's demonstrators reach, and how long their talks are.")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--difficulty", type=int, default=1)
    arguments = parser.parse_args()
    world, users = ShopWorld(Shop(difficulty=arguments.difficulty)), AgendaUsers(AgendaUser())
    for split, phrasing in zip(SPLITS, PHRASINGS, strict=True):
        start = time.process_time()
        tasks = [world.task(split, number) for number in range(arguments.tasks)]
        cost = 1e3 * (time.process_time() - start) / len(tasks)
        print(f"{split} tasks, {phrasing} phrasing; {cost:.2f} ms to generate a task")
        for style in STYLES:
            start = time.process_time()
            talks = [
                demonstrate(world, users, task, style, stream(1, style, place), phrasing)
                for place, task in enumerate(tasks)
            ]
            print("  " + _line(style, talks, time.process_time() - start))
    shop, mixture = Shop(difficulty=arguments.difficulty), Demonstrators()
    for name, changed in (("mixture", mixture.changed), ("mixture, users as live", AgendaUser().changes_mind)):
        start = time.process_time()
        shown = demonstrations(
            shop, AgendaUser(), mixture.model_copy(update={"changed": changed}), arguments.tasks, seed=2
        )
        talks = [(one.dialogue, one.finish, one.verified) for one in shown]
        print(_line(name, talks, time.process_time() - start) + " with the task")
    session = world.reset(tasks[0])
    start = time.process_time()
    for _ in range(500):
        world.reset(tasks[0]).close()
    print(f"reset of a known task {2 * (time.process_time() - start):.3f} ms", end=", ")
    start = time.process_time()
    for _ in range(500):
        session.measure()
    print(f"measure {2 * (time.process_time() - start):.3f} ms", end=", ")
    judge = OracleJudgement(OracleJudge())
    start = time.process_time()
    labels = [label for one in shown for label in judge.score(one.task, one.dialogue, stream(0, "judge"))]
    print(f"judge {1e3 * (time.process_time() - start) / len(shown):.3f} ms; ", end="")
    print("labels " + ", ".join(f"{value:+d}: {labels.count(value) / len(labels):.2f}" for value in (-1, 0, 1)))
    spoken = {word for one in shown for message in one.dialogue if not message.call for word in words_in(message.text)}
    spoken |= {
        word for lines in phrasebook("train").lines.values() for line in lines for word in words_in(line.lower())
    }
    others = spoken - set(KIND_OF) - {word for _, word in KIND_OF.values()}
    print(f"words: {len(KIND_OF)} things and names, {len(others)} others")


if __name__ == "__main__":
    main()
