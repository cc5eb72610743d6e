"""Demonstrators: scripted agents that serve the desk from what they were told and what they saw, and nothing else.

    oracle = Oracle("confirm")
    oracle.act(dialogue)      -> the agent's next message, given all messages so far

Styles, from good to bad:

- `confirm` asks for a yes before each write and whether there is anything else at the end;
- `hasty` writes as soon as it can, then asks whether there is anything else;
- `early` writes as soon as it can and says goodbye;
- `absent` finds out what is wanted and says goodbye without doing it.

All of them follow the user: a correction or a change of mind counts from the moment that it is said. What a write has
done stays done, which is what makes haste costly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rlspec.runtime.worlds.protocol import Call, Message
from rlspec.runtime.worlds.shop.hearing import Heard, hear
from rlspec.runtime.worlds.shop.lexicon import METHODS
from rlspec.runtime.worlds.shop.wishes import ON_ITEM, Slot, Wish

Style = Literal["confirm", "hasty", "early", "absent"]
STYLES: tuple[Style, ...] = ("confirm", "hasty", "early", "absent")

ASK_NAME = "your name ?"
ASK_MORE = "anything else ?"
GOODBYE = "bye"
ASK_INTENT = "what can i do ?"
_ASK_VALUE = {"city": "which city ?", "colour": "which colour ?", "payment": "which payment ?", "card": "which card ?"}


@dataclass(slots=True)
class Seen:
    """An order as `get_order` showed it."""

    status: str
    payment: str
    items: tuple[str, ...]


@dataclass(slots=True)
class Request:
    """What the user was understood to want. `order` or `item` name the target, as the user named it."""

    intent: str = ""
    order: str = ""
    item: str = ""
    value: str = ""

    def stated(self) -> tuple[str, str, str, str]:
        return self.intent, self.order, self.item, self.value


@dataclass(slots=True)
class Oracle:
    """One demonstrator in one talk. `slips`: make one faulty call where there is an occasion, and repair it; with
    `resigns` say goodbye at its error. `doubts`: ask again about this before the write. `asks`: what is asked again
    when a user does not approve the write and nothing is said of the reason; empty where users do not approve. There
    the write itself is the call that `slips` repairs, and all others say goodbye when it is refused."""

    style: Style
    slips: bool = False
    resigns: bool = False
    doubts: Slot | Literal[""] = ""
    asks: Slot | Literal[""] = ""
    _read: int = 0
    _name: str = ""
    _user: str = ""
    _numbers: tuple[str, ...] = ()
    _orders: dict[str, Seen] = field(default_factory=dict)
    _request: Request = field(default_factory=Request)
    _asked_more: bool = False
    _asked_ok: tuple[str, ...] = ()
    _agreed: tuple[str, ...] = ()
    _done: tuple[str, ...] = ()
    _faulty: Call | None = None
    _resigned: bool = False

    def act(self, dialogue: Sequence[Message]) -> Message:
        """The next message of the agent: a text or a call."""
        for place in range(self._read, len(dialogue)):
            self._take_in(dialogue, place)
        self._read = len(dialogue)
        move = self._move()
        return Message("agent", move) if isinstance(move, str) else Message("agent", "", call=move)

    # Understanding

    def _take_in(self, dialogue: Sequence[Message], place: int) -> None:
        message = dialogue[place]
        if message.role == "user":
            self._listen(hear(message.text))
        elif message.role == "tool":
            call = dialogue[place - 1].call
            assert call is not None
            self._look(call, message)

    def _listen(self, heard: Heard) -> None:
        if self._asked_more and heard.intents:
            self._request, self._asked_ok, self._agreed, self._done = Request(), (), (), ()
        self._asked_more = False
        request = self._request
        self._name = heard.last("name") or self._name
        if heard.intents and not request.intent:
            request.intent = heard.intents[0]
        if heard.last("item"):
            request.item, request.order = heard.last("item"), ""
        if heard.last("order"):
            request.order, request.item = heard.last("order"), ""
        kind = _value_kind(request.intent)
        request.value = (heard.last(kind) if kind else "") or request.value
        if self._asked_ok and self._asked_ok == request.stated() and not heard.has("no", "wrong", "exactly"):
            self._agreed = self._asked_ok
        self._asked_ok = ()

    def _look(self, call: Call, result: Message) -> None:
        if result.status == "error":
            if self.asks:
                self._resigned = self.resigns or not self.slips
                self.slips, self.doubts = False, self._meant(result.text)
            elif call != self._faulty:
                self._done = self._request.stated()  # what was done before cannot be undone: go on
            elif self.resigns:
                self._resigned = True
            return
        found = json.loads(result.text)
        match call.name:
            case "find_user":
                self._user, self._numbers = found["user_id"], tuple(found["orders"])
            case "get_order":
                order = call.arguments["order_id"]
                self._orders[order] = Seen(found["status"], found["payment"], tuple(found["items"]))
            case _:
                self._done = self._request.stated()

    def _meant(self, refusal: str) -> Slot | Literal[""]:
        """What a refusal says is wrong, if it says it."""
        said = refusal.split()
        if _value_kind(self._request.intent) in said:
            return "value"
        return "target" if "item" in said or "order_id" in said else self.asks

    # Deciding

    def _move(self) -> str | Call:
        request = self._request
        if self._resigned:
            return GOODBYE
        if not self._user:
            if self.slips and request.order and not self.asks:
                return self._slip(Call("get_order", {"order_id": request.order}))
            return Call("find_user", {"name": self._name}) if self._name else ASK_NAME
        if not request.intent:
            return ASK_INTENT
        if self._done == request.stated():
            if self.style == "early":
                return GOODBYE
            self._asked_more = True
            return ASK_MORE
        wish = Wish(request.intent)
        target = "which item ?" if request.intent in ON_ITEM else "which order ?"
        if wish.has_target and not (request.order or request.item):
            return target
        if wish.value_kind and not request.value:
            return _ASK_VALUE[wish.value_kind]
        order = self._order_of(request) if wish.has_target else ""
        if wish.has_target and order not in self._orders:
            return Call("get_order", {"order_id": order})
        if self.style == "absent":
            return GOODBYE
        if self.doubts:
            about, self.doubts = self.doubts, ""
            return target if about == "target" else _ASK_VALUE[wish.value_kind]
        if self.style == "confirm" and self._agreed != request.stated():
            self._asked_ok = request.stated()
            return confirmation(request)
        return self._write(request, order)

    def _order_of(self, request: Request) -> str:
        """The order that is meant, as far as it is known: the one that holds the item, or the next one to look at."""
        if request.order:
            return request.order
        for number, seen in self._orders.items():
            if request.item in seen.items:
                return number
        return next((number for number in self._numbers if number not in self._orders), self._numbers[0])

    def _write(self, request: Request, order: str) -> Call:
        seen = self._orders.get(order, Seen("", "", ()))
        wish = Wish(
            request.intent, order, request.item, request.value, status=seen.status, method=seen.payment, user=self._user
        )
        right = wish.write()
        if self.asks:
            return right
        if self.slips and request.intent == "recolour":
            return self._slip(Call("exchange_item" if right.name == "modify_item" else "modify_item", right.arguments))
        if self.slips and request.intent == "refund":
            other = next(method for method in METHODS if method != seen.payment)
            return self._slip(Call("refund_item", right.arguments | {"payment": other}))
        return right

    def _slip(self, call: Call) -> Call:
        """A call that the desk refuses, as somebody makes it who did not look."""
        self.slips, self._faulty = False, call
        return call


def _value_kind(intent: str) -> str:
    return Wish(intent).value_kind if intent else ""


def confirmation(request: Request) -> str:
    """The question for a yes, in the words that the user used for the target."""
    target, value = request.order or request.item, request.value
    match request.intent:
        case "cancel" | "refund":
            return f"{request.intent} {target} , ok ?"
        case "address":
            return f"send {target} to {value} , ok ?"
        case "recolour":
            return f"{target} in {value} , ok ?"
        case "payment":
            return f"pay {target} by {value} , ok ?"
        case "card":
            return f"redeem {value} , ok ?"
        case _:
            return f"home in {value} , ok ?"
