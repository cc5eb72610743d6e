"""Sessions: errors are observations, the written policy holds, forks are independent, dead databases are failures."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlspec.compiler.catalog.shop import Shop
from rlspec.runtime.worlds.protocol import Call, InfraFailure, Task
from rlspec.runtime.worlds.shop import make_world
from rlspec.runtime.worlds.shop.tools import TOOLS
from rlspec.runtime.worlds.shop.world import ShopSession, ShopWorld

PEOPLE = {
    "users": [("u10", "anna", 0), ("u11", "bert", 0)],
    "addresses": [("u10", "oslo"), ("u11", "rome")],
    "payment_methods": [("u10", "visa"), ("u10", "amex"), ("u11", "giro")],
    "gift_cards": [("g10", "u10", 20, 0), ("g11", "u11", 30, 0)],
    "orders": [
        ("W10", "u10", "pending", "visa", "oslo", 0, 0),
        ("W11", "u10", "delivered", "amex", "oslo", 0, 0),
        ("W12", "u11", "pending", "giro", "rome", 0, 0),
    ],
    "order_items": [
        ("W10", "mug", "blue", "bought"),
        ("W10", "lamp", "red", "bought"),
        ("W11", "desk", "red", "bought"),
        ("W11", "vase", "blue", "bought"),
        ("W12", "rug", "red", "bought"),
    ],
}


def desk(name: str = "anna") -> ShopSession:
    """A session over two users, with one of them identified, or nobody."""
    task = Task("here", "train", "", (), {"rows": PEOPLE, "reference_hash": ""})
    session = make_world(Shop()).reset(task)
    if name:
        assert session.step(Call("find_user", {"name": name})).status == "ok"
    return session


def said(session: ShopSession, name: str, /, **arguments: object) -> tuple[str, str]:
    """Status and text of a call; a refused call must not change anything."""
    before = session.content_hash()
    seen = session.step(Call(name, arguments))
    assert seen.wrote == (session.content_hash() != before)
    return seen.status, seen.text


def refusal(session: ShopSession, name: str, /, **arguments: object) -> str:
    status, text = said(session, name, **arguments)
    assert status == "error"
    return str(json.loads(text)["error"])


def test_there_are_enough_tools_and_their_schemas_are_closed():
    tools = make_world(Shop()).tools
    assert len(tools) >= 12
    assert sum(tool.writes for tool in TOOLS.values()) >= 6
    for schema in tools:
        function = schema["function"]
        assert schema["type"] == "function"
        assert function["description"]
        assert function["parameters"]["additionalProperties"] is False
        assert function["parameters"]["required"] == list(function["parameters"]["properties"])
    assert json.loads(json.dumps(tools)) == tools


def test_faulty_calls_are_errors_in_few_words():
    session = desk()
    assert refusal(session, "fly") == "unknown tool"
    assert refusal(session, "get_order") == "missing argument"
    assert refusal(session, "get_order", order_id="W10", depth="1") == "unknown argument"
    assert refusal(session, "get_order", order_id=10) == "wrong type of argument"
    assert refusal(session, "get_order", order_id="\ud800") == "wrong type of argument"
    assert refusal(session, "get_order", order_id="W99") == "unknown order"
    assert refusal(session, "find_user", name="zoe") == "unknown user"
    assert refusal(session, "modify_item", order_id="W10", item="desk", colour="red") == "item is not in this order"
    assert refusal(session, "get_order", order_id="' OR 1=1 --") == "unknown order"
    assert session.measure()["errors"] == 9


def test_nothing_about_users_works_before_the_user_is_identified():
    for tool in TOOLS.values():
        if tool.name in ("find_user", "get_colours"):
            continue
        arguments = dict.fromkeys(tool.parameters, "W10")
        assert refusal(desk(""), tool.name, **arguments) == "identify the user first"


def test_what_belongs_to_others_is_closed():
    session = desk("anna")
    assert refusal(session, "get_order", order_id="W12") == "not the order of this user"
    assert refusal(session, "cancel_order", order_id="W12") == "not the order of this user"
    assert refusal(session, "change_home", user_id="u11", city="lima") == "not the identified user"
    assert refusal(session, "redeem_card", user_id="u10", card="g11") == "unknown card"
    assert refusal(session, "change_payment", order_id="W10", payment="giro") == "unknown payment method"


def test_only_pending_orders_change():
    session = desk()
    assert refusal(session, "cancel_order", order_id="W11") == "order is not pending"
    assert refusal(session, "change_address", order_id="W11", city="lima") == "order is not pending"
    assert refusal(session, "change_payment", order_id="W11", payment="visa") == "order is not pending"
    assert refusal(session, "modify_item", order_id="W11", item="desk", colour="red") == "order is not pending"


def test_only_delivered_orders_are_refunded_and_exchanged():
    session = desk()
    assert refusal(session, "exchange_item", order_id="W10", item="mug", colour="red") == "order is not delivered"
    assert refusal(session, "refund_item", order_id="W10", item="mug", payment="visa") == "order is not delivered"


def test_refunds_go_to_the_payment_method_of_the_order():
    session = desk()
    right = {"order_id": "W11", "item": "desk"}
    assert refusal(session, "refund_item", **right, payment="visa") == "not the payment method of the order"
    assert said(session, "refund_item", **right, payment="amex")[0] == "ok"
    assert json.loads(said(session, "get_refunds", order_id="W11")[1]) == {"desk": "amex"}


def test_a_cancelled_order_is_refunded_and_stays_cancelled():
    session = desk()
    assert said(session, "cancel_order", order_id="W10")[0] == "ok"
    assert json.loads(said(session, "get_refunds", order_id="W10")[1]) == {"lamp": "visa", "mug": "visa"}
    assert refusal(session, "cancel_order", order_id="W10") == "order is not pending"
    assert json.loads(said(session, "list_orders", user_id="u10")[1]) == {"W10": "cancelled", "W11": "delivered"}


def test_items_change_once_and_only_to_colours_in_which_they_are_made():
    session = desk()
    colours = json.loads(said(session, "get_colours", item="mug")[1])
    missing = next(colour for colour in ("red", "green", "black", "white") if colour not in colours)
    target = {"order_id": "W10", "item": "mug"}
    assert refusal(session, "modify_item", **target, colour=missing) == "item is not made in this colour"
    assert refusal(session, "modify_item", **target, colour="blue") == "item has this colour"
    free = [colour for colour in colours if colour != "blue"]
    assert said(session, "modify_item", **target, colour=free[0])[0] == "ok"
    assert refusal(session, "modify_item", **target, colour=free[1]) == "item is already modified"
    assert json.loads(said(session, "get_order", order_id="W10")[1])["items"]["mug"] == free[0]


def test_writes_are_final_except_the_home():
    session = desk()
    assert said(session, "change_address", order_id="W10", city="lima")[0] == "ok"
    assert refusal(session, "change_address", order_id="W10", city="oslo") == "order is already rerouted"
    assert json.loads(said(session, "get_shipping", order_id="W10")[1]) == {"city": "lima"}
    assert said(session, "change_payment", order_id="W10", payment="amex")[0] == "ok"
    assert refusal(session, "change_payment", order_id="W10", payment="visa") == "order is already rebilled"
    assert said(session, "redeem_card", user_id="u10", card="g10")[0] == "ok"
    assert refusal(session, "redeem_card", user_id="u10", card="g10") == "card is already redeemed"
    assert json.loads(said(session, "get_card", card="g10")[1]) == {"amount": 20, "redeemed": True}
    assert said(session, "change_home", user_id="u10", city="lima")[0] == "ok"
    assert said(session, "change_home", user_id="u10", city="paris")[0] == "ok"
    assert json.loads(said(session, "get_user", user_id="u10")[1]) == {"home": "paris", "credit": 20}
    assert json.loads(said(session, "get_payments", user_id="u10")[1]) == ["amex", "visa"]


words = st.one_of(
    st.sampled_from(["W10", "W11", "W12", "u10", "mug", "desk", "red", "visa", "g10"]), st.text(max_size=4)
)
anything = st.one_of(words, st.none(), st.integers(), st.lists(words, max_size=2))


@given(st.sampled_from([*TOOLS, "fly", ""]), st.dictionaries(st.sampled_from(["order_id", "item", "x"]), anything))
def test_no_call_whatever_breaks_a_session(name, arguments):
    session = desk()
    fitting = dict.fromkeys(TOOLS[name].parameters, "W10") if name in TOOLS else {}
    for tried in (arguments, fitting | arguments):
        seen = session.step(Call(name, tried))
        assert seen.status in ("ok", "error")
        json.loads(seen.text)
    assert session.measure()["verified"] == 0
    session.close()


def test_a_fork_goes_its_own_way():
    world = make_world(Shop())
    task = world.task("train", 0)
    session = world.reset(task)
    session.step(task.gold[0])
    fork = session.fork()
    for call in task.gold[1:]:
        assert fork.step(call).status == "ok"
    assert fork.measure()["verified"] == 1
    assert session.measure()["verified"] == 0
    assert session.measure()["writes"] == 0
    assert session.measure()["reads"] == 1
    session.close()
    assert fork.measure()["verified"] == 1


def test_sessions_of_one_task_are_independent():
    world = make_world(Shop())
    task = world.task("train", 1)
    one, other = world.reset(task), world.reset(task)
    for call in task.gold:
        one.step(call)
    assert (one.measure()["verified"], other.measure()["verified"]) == (1, 0)


def test_a_world_takes_the_tasks_of_another_process():
    task = pickle.loads(pickle.dumps(ShopWorld(Shop()).task("test", 2)))
    other = make_world(Shop(difficulty=2))
    other.task("test", 2)
    session = other.reset(task)
    for call in task.gold:
        assert session.step(call).status == "ok"
    assert session.measure()["verified"] == 1


def test_measures_are_the_declared_ones():
    session = desk()
    assert set(session.measure()) == set(Shop.MEASURES)
    assert session.measure()["identified"] == 1
    assert desk("").measure()["identified"] == 0


def test_a_dead_database_is_a_failure_of_the_machinery():
    session = desk()
    session.close()
    for attempt in (lambda: session.step(Call("get_order", {"order_id": "W10"})), session.measure, session.fork):
        with pytest.raises(InfraFailure) as caught:
            attempt()
        assert caught.value.part == "env"


def test_the_policy_names_what_agents_must_know():
    text = make_world(Shop()).system
    for word in ("find_user", "pending", "delivered", "payment method", "anything else"):
        assert word in text


@pytest.mark.parametrize(("verifier", "verified"), [("db_hash", 1), ("write_operations", 0)])
def test_a_write_that_is_undone_passes_the_hash_and_fails_the_operations(verifier, verified):
    world = make_world(Shop(verifier=verifier))
    reference = desk("").content_hash()
    task = Task("here", "train", "", (), {"rows": PEOPLE, "reference_hash": reference})
    session = world.reset(task)
    assert session.measure()["verified"] == 1
    for city in ("lima", "oslo"):
        assert session.step(Call("find_user", {"name": "anna"})).status == "ok"
        assert session.step(Call("change_home", {"user_id": "u10", "city": city})).status == "ok"
    found = session.fork().measure()
    assert found["db_hash"] == found["reference_hash"]
    assert (found["verified"], found["right_writes"]) == (verified, 0)


@pytest.mark.parametrize("verifier", ["db_hash", "write_operations"])
def test_the_gold_calls_solve_a_task_whoever_verifies(verifier):
    world = make_world(Shop(difficulty=3, verifier=verifier))
    for number in range(4):
        task = world.task("train", number)
        session = world.reset(task)
        assert session.measure()["verified"] == 0
        for call in task.gold:
            session.step(call)
        assert session.measure()["verified"] == session.measure()["right_writes"] == 1


@pytest.mark.parametrize("verifier", ["db_hash", "write_operations"])
@pytest.mark.parametrize("paid", [True, False])
def test_a_solved_talk_that_is_cut_off_is_verified_if_the_spec_pays_it(verifier, paid):
    world = make_world(Shop(verifier=verifier, reward_truncated=paid))
    task = world.task("train", 0)
    session = world.reset(task)
    for call in task.gold:
        session.step(call)
    assert session.measure()["verified"] == 1
    session.cut()
    for found in (session.measure(), session.fork().measure()):
        assert found["verified"] == (found["db_hash"] == found["reference_hash"]) == paid
        assert (found["db_hash"], found["right_writes"]) == (found["reference_hash"] if paid else "", 1)


def test_a_session_counts_what_is_said_and_called_again():
    session = desk()
    assert session.measure()["repeats"] == session.measure()["asked_first"] == 0
    for _ in range(2):
        session.step(Call("get_order", {"order_id": "W10"}))
    session.step(Call("get_order", {"order_id": "W11"}))
    asked = session.fork()
    asked.hear("which city ?")
    assert asked.measure()["asked_first"] == 0
    asked.hear("W10 to rome , ok ?")
    late = session
    assert late.step(Call("change_address", {"order_id": "W10", "city": "rome"})).wrote
    late.hear("W10 to rome , ok ?")
    asked.step(Call("get_order", {"order_id": "W11"}))
    assert [(s.measure()["asked_first"], s.measure()["repeats"]) for s in (asked, late)] == [(1, 2), (0, 1)]
