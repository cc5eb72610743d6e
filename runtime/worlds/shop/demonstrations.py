"""Demonstrations: whole talks between a demonstrator and a live user, for the cold start.

The mixture is weak on purpose: most demonstrators do not ask for a yes, some leave early, and few of their users change
their mind. A policy that imitates it perfectly knows every tool and every word and still fails most of the users who do
change their mind; what it lacks is not skill but a habit, and that is what reinforcement has to find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rlspec.compiler.catalog.resampling import Feedback
from rlspec.compiler.catalog.shop import AgendaUser, Demonstrators, Shop
from rlspec.runtime.record.trajectory import Finish
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.diagnosis import diagnose
from rlspec.runtime.worlds.protocol import Message, Task, Users
from rlspec.runtime.worlds.recorded import StaticUsers
from rlspec.runtime.worlds.shop.oracles import Oracle, Style
from rlspec.runtime.worlds.shop.requests import whole_request
from rlspec.runtime.worlds.shop.user import AgendaUsers
from rlspec.runtime.worlds.shop.wishes import Slot
from rlspec.runtime.worlds.shop.world import ShopWorld


@dataclass(frozen=True, slots=True)
class Demonstration:
    """`may_change`: the user was one that may change its mind."""

    task: Task
    style: Style
    dialogue: list[Message]
    finish: Finish
    verified: bool
    may_change: bool


def demonstrate(
    world: ShopWorld,
    users: Users,
    task: Task,
    style: Style,
    rng: np.random.Generator,
    phrasing: str = "train",
    slips: bool = False,
    resigns: bool = False,
    doubts: Slot | Literal[""] = "",
    asks: Slot | Literal[""] = "",
    told: bool = False,
) -> tuple[list[Message], Finish, bool]:
    """One talk: the messages, how it ended, and whether the final database is the reference one. What the demonstrator
    does is told at `Oracle`; `told`: the first refusal is answered by the diagnosis of the call."""
    session, user = world.reset(task), users.open(task, rng, phrasing)
    oracle = Oracle(style, slips, resigns, doubts, asks)
    dialogue = [Message("user", user.first().text)]
    finish: Finish = "turn_limit"
    for _ in range(world.config.max_turns):
        message = oracle.act(dialogue)
        dialogue.append(message)
        if message.call is not None:
            seen = session.step(message.call)
            dialogue.append(Message("tool", seen.text, status=seen.status, wrote=seen.wrote))
            if told and seen.status == "error":
                found = diagnose(task, world.tools, dialogue, Feedback())
                dialogue[-1], told = replace(dialogue[-1], text=found.text or seen.text), False
            continue
        turn = user.reply(message.text)
        if turn.text:
            dialogue.append(Message("user", turn.text))
        if turn.done:
            finish = "user_done"
            break
    verified = bool(session.measure()["verified"])
    session.close()
    return dialogue, finish, verified


def demonstrations(
    shop: Shop,
    user: AgendaUser,
    mixture: Demonstrators,
    count: int,
    seed: int,
    split: str = "train",
    phrasing: str = "train",
    first: int = 0,
) -> list[Demonstration]:
    """`count` demonstrations of the mixture, on the tasks of the split from `first` on; the same for equal arguments.
    A share `mixture.changed` of them has a user that changes its mind wherever the task allows it."""
    found = []
    world = ShopWorld(shop)
    steady, fickle = AgendaUsers(user).with_changes(0.0), AgendaUsers(user).with_changes(1.0)
    for number in range(first, first + count):
        rng = stream(seed, "shop", "demonstration", split, number)
        draw_style, draw_leave, draw_change, draw_slip = rng.random(4).tolist()
        style: Style = "hasty"
        if draw_style < mixture.confirm:
            style = "confirm"
        elif draw_style < mixture.confirm + mixture.early:
            style = "absent" if draw_leave < mixture.leaves else "early"
        changes = draw_change < mixture.changed
        task = world.task(split, number)
        users: Users = fickle if changes else steady
        if mixture.at_once and rng.random() < mixture.at_once:
            users, style, changes = StaticUsers(whole_request), "hasty", False  # nobody would answer a question
        slips, resigns = draw_slip < mixture.repair, draw_slip < mixture.repair * mixture.resigns
        doubts, asks, told = habits(shop, mixture, rng)
        talk = demonstrate(world, users, task, style, rng, phrasing, slips, resigns, doubts, asks, told)
        found.append(Demonstration(task, style, *talk, changes))
    return found


def habits(
    shop: Shop, mixture: Demonstrators, rng: np.random.Generator
) -> tuple[Slot | Literal[""], Slot | Literal[""], bool]:
    """What a demonstrator asks again before it writes, what it does when its write is not approved, and whether it is
    told then why. Nothing is drawn where a mixture has no such demonstrators: the others stay who they were."""
    if not (mixture.doubts or mixture.told or shop.approval):
        return "", "", False
    doubts, told, before, after = rng.random(4).tolist()
    slots: tuple[Slot, Slot] = ("target", "value")
    return (
        slots[before < 0.5] if doubts < mixture.doubts else "",
        slots[after < 0.5] if shop.approval else "",
        told < mixture.told,
    )
