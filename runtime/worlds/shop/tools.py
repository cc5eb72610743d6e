"""The tools of the desk: what an agent may call, the schema of each, and what it does to the database.

A tool is a function of the `Desk` (a database and the user who was identified) and of its arguments. It returns the
text of its result, compact JSON, or raises `ToolError` with the few words that the agent will read. Arguments are
checked against the schema before the function runs. The rules that the functions enforce are those of `policy.md`.
"""

from __future__ import annotations

import inspect
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class ToolError(Exception):
    """The agent's mistake, in a few words."""


@dataclass(slots=True)
class Desk:
    """What tools work on. `user` is the id of the user who was identified, or empty."""

    database: sqlite3.Connection
    user: str = ""

    def row(self, query: str, *values: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.database.execute(query, values).fetchone()
        return row

    def rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self.database.execute(query, values).fetchall()

    def order(self, order_id: str) -> tuple[str, str, str]:
        """Status, payment method and city of an order of the identified user."""
        row = self.row("SELECT user_id, status, method, city FROM orders WHERE order_id = ?", order_id)
        if row is None:
            raise ToolError("unknown order")
        if row[0] != self.user:
            raise ToolError("not the order of this user")
        return row[1], row[2], row[3]

    def order_in(self, status: str, order_id: str) -> str:
        """The payment method of an order that must have this status."""
        found, method, _ = self.order(order_id)
        if found != status:
            raise ToolError(f"order is not {status}")
        return method

    def fresh_item(self, order_id: str, item: str) -> str:
        """The colour of an item of the order that was not modified, exchanged or refunded before."""
        row = self.row("SELECT colour, state FROM order_items WHERE order_id = ? AND item = ?", order_id, item)
        if row is None:
            raise ToolError("item is not in this order")
        if row[1] != "bought":
            raise ToolError(f"item is already {row[1]}")
        return str(row[0])

    def unless(self, order_id: str, deed: str) -> None:
        """Refuse what was done to the order before."""
        row = self.row(f"SELECT {deed} FROM orders WHERE order_id = ?", order_id)
        if row is not None and row[0]:
            raise ToolError(f"order is already {deed}")

    def own(self, user_id: str) -> None:
        if user_id != self.user:
            raise ToolError("not the identified user")


@dataclass(frozen=True, slots=True)
class Tool:
    """`run(desk, **arguments) -> text`. All parameters are strings and required."""

    name: str
    description: str
    parameters: Mapping[str, str]
    writes: bool
    needs_user: bool
    run: Callable[..., str]

    @property
    def schema(self) -> dict[str, Any]:
        """The function's description as chat models expect it."""
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": list(self.parameters),
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def check(self, arguments: Any) -> None:
        """Raise `ToolError` unless the arguments fit the schema."""
        if not isinstance(arguments, dict):
            raise ToolError("wrong type of arguments")
        for name in self.parameters:
            if name not in arguments:
                raise ToolError("missing argument")
            if not isinstance(arguments[name], str):
                raise ToolError("wrong type of argument")
            if not arguments[name].isprintable():  # also a lone surrogate, which SQLite cannot store
                raise ToolError("wrong type of argument")
        if len(arguments) > len(self.parameters):
            raise ToolError("unknown argument")


TOOLS: dict[str, Tool] = {}
REPEATABLE = frozenset({"change_home"})
"""Tools whose write replaces an earlier one; all other writes are final."""

_ORDER = "the number of the order, such as W12"
_ITEM = "the item, such as mug"
_USER = "the id of the user, such as u12"


def _tool(
    description: str, writes: bool = False, needs_user: bool = True, **parameters: str
) -> Callable[[Callable[..., str]], Callable[..., str]]:
    def register(run: Callable[..., str]) -> Callable[..., str]:
        assert list(inspect.signature(run).parameters)[1:] == list(parameters), run.__name__
        TOOLS[run.__name__] = Tool(run.__name__, description, parameters, writes, needs_user, run)
        return run

    return register


DONE = json.dumps({"ok": True})
DISAPPROVED = "not approved"
"""What a desk says to a write that its user does not approve."""


@_tool("find a user by name; identifies the user", needs_user=False, name="the first name of the user")
def find_user(desk: Desk, name: str) -> str:
    row = desk.row("SELECT user_id FROM users WHERE name = ?", name.lower())
    if row is None:
        raise ToolError("unknown user")
    desk.user = row[0]
    orders = desk.rows("SELECT order_id FROM orders WHERE user_id = ? ORDER BY order_id", desk.user)
    return json.dumps({"user_id": desk.user, "orders": [order for (order,) in orders]})


@_tool("home city and credit of the user", user_id=_USER)
def get_user(desk: Desk, user_id: str) -> str:
    desk.own(user_id)
    row = desk.row("SELECT city, credit FROM users JOIN addresses USING (user_id) WHERE user_id = ?", user_id)
    assert row is not None
    return json.dumps({"home": row[0], "credit": row[1]})


@_tool("status of every order of the user", user_id=_USER)
def list_orders(desk: Desk, user_id: str) -> str:
    desk.own(user_id)
    return json.dumps(
        dict(desk.rows("SELECT order_id, status FROM orders WHERE user_id = ? ORDER BY order_id", user_id))
    )


@_tool("status, payment method and items of an order", order_id=_ORDER)
def get_order(desk: Desk, order_id: str) -> str:
    status, method, _ = desk.order(order_id)
    items = dict(desk.rows("SELECT item, colour FROM order_items WHERE order_id = ?", order_id))
    return json.dumps({"status": status, "payment": method, "items": items})


@_tool("the city that an order is sent to", order_id=_ORDER)
def get_shipping(desk: Desk, order_id: str) -> str:
    return json.dumps({"city": desk.order(order_id)[2]})


@_tool("refunds of an order so far", order_id=_ORDER)
def get_refunds(desk: Desk, order_id: str) -> str:
    desk.order(order_id)
    return json.dumps(dict(desk.rows("SELECT item, method FROM refunds WHERE order_id = ?", order_id)))


@_tool("payment methods of the user", user_id=_USER)
def get_payments(desk: Desk, user_id: str) -> str:
    desk.own(user_id)
    return json.dumps(
        [method for (method,) in desk.rows("SELECT method FROM payment_methods WHERE user_id = ?", user_id)]
    )


@_tool("amount of a gift card of the user and whether it was redeemed", card="the code of the card, such as g12")
def get_card(desk: Desk, card: str) -> str:
    row = desk.row("SELECT amount, redeemed FROM gift_cards WHERE card = ? AND user_id = ?", card, desk.user)
    if row is None:
        raise ToolError("unknown card")
    return json.dumps({"amount": row[0], "redeemed": bool(row[1])})


@_tool("colours in which an item is made", needs_user=False, item=_ITEM)
def get_colours(desk: Desk, item: str) -> str:
    colours = [colour for (colour,) in desk.rows("SELECT colour FROM variants WHERE item = ?", item)]
    if not colours:
        raise ToolError("unknown item")
    return json.dumps(colours)


@_tool("cancel a pending order; its items are refunded to its payment method", writes=True, order_id=_ORDER)
def cancel_order(desk: Desk, order_id: str) -> str:
    method = desk.order_in("pending", order_id)
    desk.database.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", (order_id,))
    desk.database.execute(
        "INSERT INTO refunds SELECT order_id, item, ?, price FROM order_items JOIN items USING (item) "
        "WHERE order_id = ?",
        (method, order_id),
    )
    return DONE


@_tool("send a pending order to another city, once", writes=True, order_id=_ORDER, city="the new city")
def change_address(desk: Desk, order_id: str, city: str) -> str:
    desk.order_in("pending", order_id)
    desk.unless(order_id, "rerouted")
    desk.database.execute("UPDATE orders SET city = ?, rerouted = 1 WHERE order_id = ?", (city, order_id))
    return DONE


@_tool(
    "pay a pending order by another method of the user, once", writes=True, order_id=_ORDER, payment="the new method"
)
def change_payment(desk: Desk, order_id: str, payment: str) -> str:
    desk.order_in("pending", order_id)
    if desk.row("SELECT 1 FROM payment_methods WHERE user_id = ? AND method = ?", desk.user, payment) is None:
        raise ToolError("unknown payment method")
    desk.unless(order_id, "rebilled")
    desk.database.execute("UPDATE orders SET method = ?, rebilled = 1 WHERE order_id = ?", (payment, order_id))
    return DONE


def _recolour(desk: Desk, order_id: str, item: str, colour: str, state: str) -> str:
    if desk.fresh_item(order_id, item) == colour:
        raise ToolError("item has this colour")
    if desk.row("SELECT 1 FROM variants WHERE item = ? AND colour = ?", item, colour) is None:
        raise ToolError("item is not made in this colour")
    desk.database.execute(
        "UPDATE order_items SET colour = ?, state = ? WHERE order_id = ? AND item = ?", (colour, state, order_id, item)
    )
    return DONE


@_tool(
    "give an item of a pending order another colour, once",
    writes=True,
    order_id=_ORDER,
    item=_ITEM,
    colour="the new colour",
)
def modify_item(desk: Desk, order_id: str, item: str, colour: str) -> str:
    desk.order_in("pending", order_id)
    return _recolour(desk, order_id, item, colour, "modified")


@_tool(
    "exchange an item of a delivered order for one of another colour, once",
    writes=True,
    order_id=_ORDER,
    item=_ITEM,
    colour="the new colour",
)
def exchange_item(desk: Desk, order_id: str, item: str, colour: str) -> str:
    desk.order_in("delivered", order_id)
    return _recolour(desk, order_id, item, colour, "exchanged")


@_tool(
    "refund an item of a delivered order to the payment method of the order",
    writes=True,
    order_id=_ORDER,
    item=_ITEM,
    payment="the payment method of the order",
)
def refund_item(desk: Desk, order_id: str, item: str, payment: str) -> str:
    method = desk.order_in("delivered", order_id)
    desk.fresh_item(order_id, item)
    if payment != method:
        raise ToolError("not the payment method of the order")
    desk.database.execute("UPDATE order_items SET state = 'refunded' WHERE order_id = ? AND item = ?", (order_id, item))
    desk.database.execute(
        "INSERT INTO refunds SELECT ?, item, ?, price FROM items WHERE item = ?", (order_id, method, item)
    )
    return DONE


@_tool(
    "add the amount of a gift card to the credit of the user", writes=True, user_id=_USER, card="the code of the card"
)
def redeem_card(desk: Desk, user_id: str, card: str) -> str:
    desk.own(user_id)
    row = desk.row("SELECT amount, redeemed FROM gift_cards WHERE card = ? AND user_id = ?", card, user_id)
    if row is None:
        raise ToolError("unknown card")
    if row[1]:
        raise ToolError("card is already redeemed")
    desk.database.execute("UPDATE gift_cards SET redeemed = 1 WHERE card = ?", (card,))
    desk.database.execute("UPDATE users SET credit = credit + ? WHERE user_id = ?", (row[0], user_id))
    return DONE


@_tool("change the home city of the user", writes=True, user_id=_USER, city="the new city")
def change_home(desk: Desk, user_id: str, city: str) -> str:
    desk.own(user_id)
    desk.database.execute("UPDATE addresses SET city = ? WHERE user_id = ?", (city, user_id))
    return DONE
