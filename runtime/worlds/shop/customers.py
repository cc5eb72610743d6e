"""Customers: users of the shop with orders, cards and methods of payment, and the rows of a database with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rlspec.runtime.worlds.shop import lexicon

T = TypeVar("T")
Rows = dict[str, list[tuple[Any, ...]]]


class Dice:
    """Draws from a generator in blocks: a task needs some hundred draws, and each call of numpy costs a microsecond."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._block: list[float] = []

    def random(self) -> float:
        """A number in [0, 1)."""
        if not self._block:
            self._block = self._rng.random(128).tolist()
        return self._block.pop()

    def one(self, pool: Sequence[T]) -> T:
        """A member of the pool."""
        return pool[int(self.random() * len(pool))]

    def some(self, pool: Sequence[T], count: int) -> list[T]:
        """`count` different members of the pool, in random order (the first steps of a Fisher-Yates shuffle)."""
        left = list(pool)
        for place in range(count):
            other = place + int(self.random() * (len(left) - place))
            left[place], left[other] = left[other], left[place]
        return left[:count]


@dataclass(frozen=True, slots=True)
class Order:
    """An order; `items` maps items to colours."""

    status: str
    method: str
    city: str
    items: dict[str, str]


@dataclass(frozen=True, slots=True)
class Customer:
    """A user and what belongs to the user; `orders` by number."""

    user: str
    name: str
    home: str
    methods: list[str]
    cards: list[str]
    orders: dict[str, Order]


def _order(dice: Dice, methods: list[str], items: Sequence[str]) -> Order:
    status = "pending" if dice.random() < 0.5 else "delivered"
    colours = {item: dice.one(lexicon.VARIANTS[item]) for item in items}
    return Order(status, dice.one(methods), dice.one(lexicon.CITIES), colours)


def draw_customer(dice: Dice, orders: int, size: int) -> Customer:
    """A user with `orders` orders of `size` items. No item is in two of them, so an item tells the order."""
    methods = dice.some(lexicon.METHODS, 3)
    goods = dice.some(lexicon.ITEMS, orders * size)
    held = {
        number: _order(dice, methods, goods[place * size : (place + 1) * size])
        for place, number in enumerate(dice.some(lexicon.ORDERS, orders))
    }
    user, name, home = dice.one(lexicon.USERS), dice.one(lexicon.NAMES), dice.one(lexicon.CITIES)
    return Customer(user, name, home, methods, dice.some(lexicon.CARDS, 2), held)


def draw_rows(dice: Dice, customer: Customer, strangers: int) -> Rows:
    """The rows of a database with the customer and this many others, each with one order, by table."""
    users = dice.some([user for user in lexicon.USERS if user != customer.user], strangers)
    names = dice.some([name for name in lexicon.NAMES if name != customer.name], strangers)
    numbers = dice.some([number for number in lexicon.ORDERS if number not in customer.orders], strangers)
    cards = dice.some([card for card in lexicon.CARDS if card not in customer.cards], strangers)
    people = [customer]
    for user, name, number, card in zip(users, names, numbers, cards, strict=True):
        methods = dice.some(lexicon.METHODS, 3)
        order = _order(dice, methods, [dice.one(lexicon.ITEMS)])
        people.append(Customer(user, name, dice.one(lexicon.CITIES), methods, [card], {number: order}))
    tables = ("users", "addresses", "payment_methods", "gift_cards", "orders", "order_items")
    rows: Rows = {table: [] for table in tables}
    for one in people:
        rows["users"].append((one.user, one.name, 0))
        rows["addresses"].append((one.user, one.home))
        rows["payment_methods"] += [(one.user, method) for method in one.methods]
        rows["gift_cards"] += [(card, one.user, 10 + 10 * int(9 * dice.random()), 0) for card in one.cards]
        for number, order in one.orders.items():
            rows["orders"].append((number, one.user, order.status, order.method, order.city, 0, 0))
            rows["order_items"] += [(number, item, colour, "bought") for item, colour in order.items.items()]
    return rows
