"""The generator of tasks: unlimited, seeded, the n-th task of a split always the same.

A task is drawn in two steps: first the intents, then a user with orders in which they are possible. Draws that cannot
be served are thrown away. Which split a task belongs to is decided by a hash of what it is about (the name of the user,
the wishes, the first thoughts), so nothing that a test task asks for is ever asked for in training, under any seed of
the generator. The n-th task of a split is the first draw of its own stream that falls into the split.

The reference database is what the gold calls leave on a fresh copy. A task whose gold calls leave the database as it
was, so that an agent which does nothing would pass, is thrown away (two of the tasks of tau-bench retail have such gold
writes: a list of the gold calls does not show it, the hashes do).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

from rlspec.compiler.catalog.shop import INTENTS_OF, Shop
from rlspec.runtime.streams import stream
from rlspec.runtime.worlds.protocol import Call, Task
from rlspec.runtime.worlds.shop import lexicon
from rlspec.runtime.worlds.shop.customers import Customer, Dice, Rows, draw_customer, draw_rows
from rlspec.runtime.worlds.shop.wishes import ON_ITEM, ON_USER, Wish

SPLITS = ("train", "test")
TRIES = 40
"""Customers that are tried for one pair of intents before another pair is drawn."""


Hashes = Callable[[Rows, Sequence[Call]], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Level:
    """What a difficulty means: `wishes` is (1, 1) for always one, (2, 2) for always two, (1, 2) for either.
    `thoughts`: every wish has a first thought, or one wish of the task."""

    intents: tuple[str, ...]
    orders: int
    wishes: tuple[int, int]
    every_wish_has_a_thought: bool = False


LEVELS = (
    Level(INTENTS_OF[0], 1, (1, 1)),
    Level(INTENTS_OF[1], 2, (1, 2)),
    Level(INTENTS_OF[2], 3, (1, 2)),
    Level(INTENTS_OF[2], 4, (2, 2), every_wish_has_a_thought=True),
)


def _values(customer: Customer, wish: Wish) -> list[str]:
    """The values that would change something for the wish's target."""
    match wish.intent:
        case "address":
            return [city for city in lexicon.CITIES if city != customer.orders[wish.order].city]
        case "recolour":
            worn = customer.orders[wish.order].items[wish.item]
            return [colour for colour in lexicon.VARIANTS[wish.item] if colour != worn]
        case "payment":
            return [method for method in customer.methods if method != wish.method]
        case "card":
            return customer.cards
        case "home":
            return [city for city in lexicon.CITIES if city != customer.home]
        case _:
            return [""]


def _targets(customer: Customer, intent: str, busy: set[str]) -> list[tuple[str, str]]:
    """Orders, with an item of each, on which the intent is possible and which no other wish is about."""
    allowed = {"recolour": ("pending", "delivered"), "refund": ("delivered",)}.get(intent, ("pending",))
    return [
        (number, item)
        for number, order in customer.orders.items()
        if order.status in allowed and number not in busy
        for item in order.items
    ]


def _wish(config: Shop, customer: Customer, intent: str, busy: set[str], dice: Dice) -> Wish | None:
    wish = Wish(intent, user=customer.user)
    if wish.has_target:
        targets = _targets(customer, intent, busy)
        if not targets:
            return None
        number, item = dice.one(targets)
        order = customer.orders[number]
        names_order = intent not in ON_ITEM and dice.random() < config.knows_order
        wish = Wish(intent, number, item, "", names_order, order.status, order.method, customer.user)
    return replace(wish, value=dice.one(_values(customer, wish)))


def _with_thought(config: Shop, customer: Customer, wish: Wish, dice: Dice) -> Wish | None:
    """The wish with a first thought, or None where no other thought is possible. A first thought is as possible as the
    wish itself, so that an agent which acts on it does real harm instead of meeting an error."""
    values = [value for value in _values(customer, wish) if value != wish.value]
    others = []
    if wish.has_target:
        for order, item in _targets(customer, wish.intent, set()):
            same = item == wish.item if wish.intent in ON_ITEM else order == wish.order
            first = replace(wish, order=order, item=item, method=customer.orders[order].method)
            if not same and wish.value in _values(customer, first):
                others.append((order, item))
    if others and (not values or dice.random() < config.thinks_of_other_item):
        order, item = dice.one(others)
        return replace(wish, thought="target", first_order=order, first_item=item)
    return replace(wish, thought="value", first_value=dice.one(values)) if values else None


def _draw(config: Shop, level: Level, dice: Dice) -> tuple[Customer, list[Wish]]:
    """A customer and wishes. Intents are drawn first and kept until a customer fits, so that all are about equally
    frequent; some pairs fit no customer (two orders cannot hold a cancellation, another one that was thought of first,
    and a refund), which is why the tries are counted."""
    fewest, most = level.wishes
    count = fewest if fewest == most or dice.random() >= config.second_request else most
    possible = [i for i in level.intents if i in config.intents or not config.intents]
    while True:
        intents = [dice.one(possible) for _ in range(count)]
        if count == 2 and intents[0] == intents[1] and intents[0] in ON_USER:
            continue
        thinkers = range(count) if level.every_wish_has_a_thought else [int(dice.random() * count)]
        for _ in range(TRIES):
            customer = draw_customer(dice, level.orders, config.items_per_order)
            wishes = _wishes(config, customer, intents, thinkers, dice)
            if wishes:
                return customer, wishes


def _wishes(
    config: Shop, customer: Customer, intents: Sequence[str], thinkers: Container[int], dice: Dice
) -> list[Wish]:
    """A wish for each intent, of different orders; none at all where the customer's orders do not allow it."""
    wishes: list[Wish] = []
    for place, intent in enumerate(intents):
        wish = _wish(config, customer, intent, {wish.order for wish in wishes}, dice)
        if wish is not None and place in thinkers:
            wish = _with_thought(config, customer, wish, dice)
        if wish is None:
            return []
        wishes.append(wish)
    return wishes


def subject(name: str, wishes: list[Wish]) -> str:
    """What decides the split: who wants what, and what they thought of first."""
    about = [
        [wish.intent, wish.names_order, wish.target, wish.value, wish.thought, wish.at_first().target, wish.first_value]
        for wish in wishes
    ]
    return json.dumps([name, about])


def split_of(config: Shop, about: str) -> str:
    """The split to which everything about this subject belongs."""
    draw = int.from_bytes(hashlib.blake2b(about.encode(), digest_size=8).digest(), "big") / 2**64
    return "test" if draw < config.test_share else "train"


def _gold(customer: Customer, wishes: list[Wish]) -> tuple[Call, ...]:
    calls = [Call("find_user", {"name": customer.name})]
    for wish in wishes:
        if wish.has_target:
            calls.append(Call("get_order", {"order_id": wish.order}))
        calls.append(wish.write())
    return tuple(calls)


def _instruction(name: str, wishes: list[Wish]) -> str:
    parts = [f"you are {name}"]
    for wish in wishes:
        parts.append(("then " if len(parts) > 1 else "") + wish.in_words())
        if wish.thought:
            parts.append(f"(at first you thought otherwise: {wish.at_first().in_words()})")
    return " . ".join(parts) + " ."


def generate(config: Shop, split: str, number: int, hashes: Hashes) -> Task:
    """The task. `hashes(rows, gold)` gives the hash of the content before and after the gold calls.

    Raises ValueError for an unknown split or a negative number."""
    if split not in SPLITS or number < 0:
        raise ValueError(f"no task {number} in split {split!r}: splits are {', '.join(SPLITS)}, numbers start at 0")
    level = LEVELS[config.difficulty]
    dice = Dice(stream(config.seed, "shop", "task", split, number))
    while True:
        customer, wishes = _draw(config, level, dice)
        if split_of(config, subject(customer.name, wishes)) != split:
            continue
        rows, gold = draw_rows(dice, customer, config.strangers), _gold(customer, wishes)
        before, after = hashes(rows, gold)
        if before == after:
            continue
        payload = {
            "name": customer.name,
            "rows": rows,
            "wishes": [wish.plain() for wish in wishes],
            "reference_hash": after,
        }
        return Task(f"shop.{split}.{number}", split, _instruction(customer.name, wishes), gold, payload)
