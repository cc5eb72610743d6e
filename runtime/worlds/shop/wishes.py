"""Wishes: what a user wants of one order, card or home.

A wish has an intent, a target (an item, an order, or nothing) and a value (a colour, a city, a method, a card, or
nothing). A task's wish may carry a *first thought*: the same wish with another target or another value, from which a
user that changes its mind begins. The task ends with the wish itself whatever the user began with, so the reference
database does not depend on the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rlspec.runtime.worlds.protocol import Call

VALUE_KIND: dict[str, str] = {
    "cancel": "",
    "address": "city",
    "recolour": "colour",
    "refund": "",
    "payment": "payment",
    "card": "card",
    "home": "city",
}
"""Intent -> the kind of its value, empty where it has none."""
ON_ITEM = ("recolour", "refund")
"""Intents whose target is an item."""
ON_USER = ("card", "home")
"""Intents without a target: they are about the user."""
INTENTS = tuple(VALUE_KIND)

Slot = Literal["target", "value"]


@dataclass(frozen=True, slots=True)
class Wish:
    """`names_order`: the user speaks of the order by its number; else by `item`, which is in it. `status` and `method`
    are those of the order before anything is done. `thought` is the slot in which a first thought differs, or empty."""

    intent: str
    order: str = ""
    item: str = ""
    value: str = ""
    names_order: bool = False
    status: str = ""
    method: str = ""
    user: str = ""
    thought: Slot | Literal[""] = ""
    first_order: str = ""
    first_item: str = ""
    first_value: str = ""

    @property
    def has_target(self) -> bool:
        return self.intent not in ON_USER

    @property
    def value_kind(self) -> str:
        return VALUE_KIND[self.intent]

    @property
    def target(self) -> str:
        """The word by which the user and the agent name the target: an item or the number of an order."""
        return self.order if self.names_order else self.item

    @property
    def spoken(self) -> str:
        """How the user names the target: `order W12`, `the mug`, `the mug order`."""
        if self.names_order:
            return f"order {self.order}"
        return f"the {self.item}" if self.intent in ON_ITEM else f"the {self.item} order"

    def at_first(self) -> Wish:
        """The wish that a user who will change its mind begins with."""
        if self.thought == "target":
            return replace(self, order=self.first_order, item=self.first_item)
        return replace(self, value=self.first_value) if self.thought == "value" else self

    def write(self) -> Call:
        """The one write that fulfils the wish."""
        match self.intent:
            case "cancel":
                return Call("cancel_order", {"order_id": self.order})
            case "address":
                return Call("change_address", {"order_id": self.order, "city": self.value})
            case "recolour":
                name = "modify_item" if self.status == "pending" else "exchange_item"
                return Call(name, {"order_id": self.order, "item": self.item, "colour": self.value})
            case "refund":
                return Call("refund_item", {"order_id": self.order, "item": self.item, "payment": self.method})
            case "payment":
                return Call("change_payment", {"order_id": self.order, "payment": self.value})
            case "card":
                return Call("redeem_card", {"user_id": self.user, "card": self.value})
            case _:
                return Call("change_home", {"user_id": self.user, "city": self.value})

    def plain(self) -> dict[str, Any]:
        """As plain data, for the payload of a task."""
        return asdict(self)

    @staticmethod
    def read(plain: Mapping[str, Any]) -> Wish:
        return Wish(**plain)

    def in_words(self) -> str:
        """One sentence for the instruction of a user that is a person or a language model."""
        which = f"order {self.order}" if self.names_order else f"the order with the {self.item}"
        item = f"the {self.item}"
        match self.intent:
            case "cancel":
                return f"you want to cancel {which}"
            case "address":
                return f"you want {which} to be sent to {self.value}"
            case "recolour":
                return f"you want {item} in {self.value}"
            case "refund":
                return f"you want to return {item} and have your money back"
            case "payment":
                return f"you want to pay {which} by {self.value}"
            case "card":
                return f"you want to redeem your gift card {self.value}"
            case _:
                return f"you moved and want {self.value} to be your home city"
