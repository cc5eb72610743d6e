"""The tools of the airline desk, as the benchmark's behave: what they check and in which order, what they say, and what
they leave in the database, oddities included: a change of cabin changes prices and not the cabin, cancelling pays
nothing back onto a gift card, a search with a night in between shows the wrong day's seats. Checked against gold hashes
and the logged answers of the benchmark.

A tool is a function of the database and its arguments. It returns the text of its result or raises `Refused` with what
the agent will read behind "Error: ".
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlspec.runtime.worlds.tau_bench.database import Database, Record

NOW = "2024-05-15T15:00:00"
BAG, INSURANCE = 50, 30
NEW_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
NEW_CERTIFICATES = (3221322, 3221323, 3221324)
AIRPORTS = {
    "SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas", "DEN": "Denver",
    "SEA": "Seattle", "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston",
    "LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte", "MSP": "Minneapolis", "DTW": "Detroit",
    "PHL": "Philadelphia", "LGA": "LaGuardia",
}  # fmt: skip
LONGEST_EXPRESSION = 200


class Refused(Exception):
    """A mistake of the agent."""


def _found(db: Database, table: str, key: Any, what: str) -> Record:
    record = db.get(table, key)
    if record is None:
        raise Refused(f"{what} not found")
    return record


# ------------------------------------------------------------------------------------------------------------ reading


def get_user_details(db: Database, user_id: str) -> str:
    return json.dumps(_found(db, "users", user_id, "user"))


def get_reservation_details(db: Database, reservation_id: str) -> str:
    return json.dumps(_found(db, "reservations", reservation_id, "reservation"))


def list_all_airports(db: Database) -> str:
    return json.dumps(AIRPORTS)


def _on(flight: Record, date: str) -> Record | None:
    """A flight as a search shows it, or None where it cannot be booked on that day."""
    day = flight["dates"].get(date)
    if day is None or day["status"] != "available":
        return None
    return {**{k: v for k, v in flight.items() if k != "dates"}, **day}


def search_direct_flight(db: Database, origin: str, destination: str, date: str) -> str:
    flights = [
        f for f in db.original.tables["flights"].values() if (f["origin"], f["destination"]) == (origin, destination)
    ]
    return json.dumps([shown for f in flights if (shown := _on(f, date)) is not None])


def search_onestop_flight(db: Database, origin: str, destination: str, date: str) -> str:
    flights = list(db.original.tables["flights"].values())
    found = []
    for first in (f for f in flights if f["origin"] == origin):
        for second in flights:
            if second["destination"] != destination or second["origin"] != first["destination"]:
                continue
            lands = first["scheduled_arrival_time_est"]
            if lands > second["scheduled_departure_time_est"]:
                continue
            later = f"2024-05-{int(date[-2:]) + 1}" if "+1" in lands else date
            # seats and prices of the second are those of the first one's day, also when it leaves a day later
            one, two = _on(first, date), _on(second, date)
            if one is not None and two is not None and _on(second, later) is not None:
                found.append([{**one, "date": date}, {**two, "date": later}])
    return json.dumps(found)


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def calculate(db: Database, expression: str) -> str:
    if len(expression) > LONGEST_EXPRESSION or not set(expression) <= set("0123456789+-*/(). "):
        raise Refused("invalid characters in expression")
    try:
        return str(round(float(_value(ast.parse(expression.strip(), mode="eval").body)), 2))
    except (SyntaxError, ArithmeticError, ValueError, RecursionError) as error:
        raise Refused(str(error)) from error


def _value(node: ast.AST) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand))
    raise ValueError("invalid expression")


def think(db: Database, thought: str) -> str:
    return ""


def transfer_to_human_agents(db: Database, summary: str) -> str:
    return "Transfer successful"


# ------------------------------------------------------------------------------------------------------------ writing


def _booked(
    db: Database, flights: Sequence[Mapping[str, Any]], cabin: str, seats: int, kept: Record | None
) -> list[Record]:
    """The flights with prices and places; `kept` is the reservation whose own flights keep their price."""
    out = []
    for wanted in flights:
        number, date = wanted["flight_number"], wanted["date"]
        flight = _found(db, "flights", number, f"flight {number}")
        same = None
        if kept is not None and cabin == kept["cabin"]:
            same = next((f for f in kept["flights"] if (f["flight_number"], f["date"]) == (number, date)), None)
        if same is not None:
            price = same["price"]
        else:
            day = flight["dates"].get(date)
            if day is None or day["status"] != "available":
                raise Refused(f"flight {number} not available on date {date}")
            if day["available_seats"][cabin] < seats:
                raise Refused(f"not enough seats on flight {number}")
            price = day["prices"][cabin]
        places = {"origin": flight["origin"], "destination": flight["destination"]}
        out.append({**wanted, "price": price, **places})
    return out


def book_reservation(
    db: Database,
    user_id: str,
    origin: str,
    destination: str,
    flight_type: str,
    cabin: str,
    flights: list[Record],
    passengers: list[Record],
    payment_methods: list[Record],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: str,
) -> str:
    user = _found(db, "users", user_id, "user")
    booked = _booked(db, flights, cabin, len(passengers), None)
    price = sum(f["price"] for f in booked) * len(passengers)
    price += (INSURANCE * len(passengers) if insurance == "yes" else 0) + BAG * nonfree_baggages
    for payment in payment_methods:
        method = user["payment_methods"].get(payment["payment_id"])
        if method is None:
            raise Refused(f"payment method {payment['payment_id']} not found")
        if method["source"] in ("gift_card", "certificate") and method["amount"] < payment["amount"]:
            raise Refused(f"not enough balance in payment method {payment['payment_id']}")
    paid = sum(payment["amount"] for payment in payment_methods)
    if paid != price:
        raise Refused(f"payment amount does not add up, total price is {price}, but paid {paid}")
    number = next((n for n in NEW_RESERVATIONS if db.get("reservations", n) is None), NEW_RESERVATIONS[-1])
    reservation = {
        "reservation_id": number,
        "user_id": user_id,
        "origin": origin,
        "destination": destination,
        "flight_type": flight_type,
        "cabin": cabin,
        "flights": booked,
        "passengers": passengers,
        "payment_history": payment_methods,
        "created_at": NOW,
        "total_baggages": total_baggages,
        "nonfree_baggages": nonfree_baggages,
        "insurance": insurance,
    }
    user = db.edit("users", user_id)
    for payment in payment_methods:
        method = user["payment_methods"][payment["payment_id"]]
        if method["source"] == "gift_card":
            method["amount"] -= payment["amount"]
        elif method["source"] == "certificate":
            del user["payment_methods"][payment["payment_id"]]
    user["reservations"].append(number)
    db.add("reservations", number, reservation)
    return json.dumps(reservation)


def cancel_reservation(db: Database, reservation_id: str) -> str:
    _found(db, "reservations", reservation_id, "reservation")
    reservation = db.edit("reservations", reservation_id)
    history = reservation["payment_history"]
    history += [{"payment_id": p["payment_id"], "amount": -p["amount"]} for p in list(history)]
    reservation["status"] = "cancelled"
    return json.dumps(reservation)


def send_certificate(db: Database, user_id: str, amount: int) -> str:
    user = _found(db, "users", user_id, "user")
    names = [f"certificate_{number}" for number in NEW_CERTIFICATES]
    name = next((n for n in names if n not in user["payment_methods"]), None)
    if name is None:
        raise Refused("no more certificates")
    db.edit("users", user_id)["payment_methods"][name] = {"source": "certificate", "amount": amount, "id": name}
    return f"Certificate {name} added to user {user_id} with amount {amount}."


def _pay(db: Database, reservation: Record, payment_id: str, price: int) -> None:
    """Check that a change can be paid so, and pay it."""
    user = db.get("users", reservation["user_id"])
    assert user is not None
    method = user["payment_methods"].get(payment_id)
    if method is None:
        raise Refused("payment method not found")
    if method["source"] == "certificate":
        raise Refused("certificate cannot be used to update reservation")
    if method["source"] == "gift_card":
        if method["amount"] < price:
            raise Refused("gift card balance is not enough")
        db.edit("users", reservation["user_id"])["payment_methods"][payment_id]["amount"] -= price
    if price != 0:
        history = db.edit("reservations", reservation["reservation_id"])["payment_history"]
        history.append({"payment_id": payment_id, "amount": price})


def update_reservation_baggages(
    db: Database, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> str:
    reservation = _found(db, "reservations", reservation_id, "reservation")
    _pay(db, reservation, payment_id, BAG * max(0, nonfree_baggages - reservation["nonfree_baggages"]))
    reservation = db.edit("reservations", reservation_id)
    reservation["total_baggages"], reservation["nonfree_baggages"] = total_baggages, nonfree_baggages
    return json.dumps(reservation)


def update_reservation_flights(
    db: Database, reservation_id: str, cabin: str, flights: list[Record], payment_id: str
) -> str:
    reservation = _found(db, "reservations", reservation_id, "reservation")
    seats = len(reservation["passengers"])
    booked = _booked(db, flights, cabin, seats, reservation)
    price = (sum(f["price"] for f in booked) - sum(f["price"] for f in reservation["flights"])) * seats
    _pay(db, reservation, payment_id, price)
    reservation = db.edit("reservations", reservation_id)
    reservation["flights"] = booked
    return json.dumps(reservation)


def update_reservation_passengers(db: Database, reservation_id: str, passengers: list[Record]) -> str:
    reservation = _found(db, "reservations", reservation_id, "reservation")
    if len(passengers) != len(reservation["passengers"]):
        raise Refused("number of passengers does not match")
    reservation = db.edit("reservations", reservation_id)
    reservation["passengers"] = passengers
    return json.dumps(reservation)


READS = (
    get_user_details, get_reservation_details, list_all_airports, search_direct_flight, search_onestop_flight,
    calculate, think, transfer_to_human_agents,
)  # fmt: skip
WRITES = (
    book_reservation, cancel_reservation, send_certificate, update_reservation_baggages, update_reservation_flights,
    update_reservation_passengers,
)  # fmt: skip
TOOLS: dict[str, Callable[..., str]] = {tool.__name__: tool for tool in (*READS, *WRITES)}
WRITING = frozenset(tool.__name__ for tool in WRITES)
ENDING = frozenset({"transfer_to_human_agents"})
