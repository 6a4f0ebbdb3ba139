"""The retail pack runs: it gives recorded results, refuses what the benchmark does, and checks its rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from castline.engine.trajectories import read_files
from castline.engine.world import Environment, Image, KnownWorld, build, check_known, check_true, replay
from castline.specs import Domain, load_domain

RETAIL = Path(__file__).parents[2] / "domains" / "retail"

# Expected actions of the benchmark's own tasks that its own tools refuse.
REFUSED = {
    "13": "payment method should be either the original payment method or a gift card",
    "64": "non-delivered order cannot be exchanged",
    "106": "insufficient gift card balance",
    "115": "order not found",
    "116": "`item_ids` is missing",
    "118": "order not found",
    "119": "new item 1709726483 not found or available",
}

ANA, BEN = "ana_berg_0001", "ben_cruz_0002"
CARD, PAYPAL, GIFT, EMPTY_GIFT = "credit_card_1", "paypal_1", "gift_card_1", "gift_card_9"
MUG, LAMP = "1000000000", "2000000000"
RED, BLUE, GONE = "1000000001", "1000000002", "1000000003"
TALL, SHORT = "2000000001", "2000000002"


def variant(item: str, price: float, available: bool = True, **options: str) -> dict[str, Any]:
    return {"item_id": item, "options": options, "available": available, "price": price}


PRODUCTS = {
    MUG: {
        "name": "Mug",
        "product_id": MUG,
        "variants": {
            RED: variant(RED, 10.0, color="red"),
            BLUE: variant(BLUE, 12.5, color="blue"),
            GONE: variant(GONE, 11.0, available=False, color="gold"),
        },
    },
    LAMP: {
        "name": "Lamp",
        "product_id": LAMP,
        "variants": {TALL: variant(TALL, 80.0, size="tall"), SHORT: variant(SHORT, 60.0, size="short")},
    },
}


def user(first: str, last: str, orders: list[str], *methods: dict[str, Any]) -> dict[str, Any]:
    address = {
        "address1": "1 Elm St",
        "address2": "",
        "city": "Omaha",
        "country": "USA",
        "state": "NE",
        "zip": "68100",
    }
    return {
        "name": {"first_name": first, "last_name": last},
        "address": address,
        "email": f"{first}.{last}@example.com".lower(),
        "payment_methods": {method["id"]: method for method in methods},
        "orders": orders,
    }


def order(order_id: str, owner: str, status: str, paid_by: str, *items: str) -> dict[str, Any]:
    bought = []
    for item in items:
        product = PRODUCTS[MUG if item.startswith("1") else LAMP]
        sold = product["variants"][item]
        bought.append(
            {
                "name": product["name"],
                "product_id": product["product_id"],
                "item_id": item,
                "price": sold["price"],
            }
            | {"options": sold["options"]}
        )
    total = sum(item["price"] for item in bought)
    payment = {"transaction_type": "payment", "amount": total, "payment_method_id": paid_by}
    return {
        "order_id": order_id,
        "user_id": owner,
        "address": {"city": "Omaha"},
        "items": bought,
        "fulfillments": [],
        "status": status,
        "payment_history": [payment],
    }


USERS = {
    ANA: user(
        "Ana",
        "Berg",
        ["#W1", "#W2", "#W3", "#W4"],
        {"source": "credit_card", "brand": "visa", "last_four": "1234", "id": CARD},
        {"source": "paypal", "id": PAYPAL},
        {"source": "gift_card", "balance": 100, "id": GIFT},
        {"source": "gift_card", "balance": 1, "id": EMPTY_GIFT},
    ),
    BEN: user("Ben", "Cruz", ["#W5"], {"source": "paypal", "id": "paypal_2"}),
}
ORDERS = {
    "#W1": order("#W1", ANA, "pending", CARD, RED, RED, SHORT),
    "#W2": order("#W2", ANA, "delivered", CARD, RED, TALL),
    "#W3": order("#W3", ANA, "processed", CARD, RED),
    "#W4": order("#W4", ANA, "pending", GIFT, RED),
    "#W5": order("#W5", BEN, "pending", "paypal_2", RED),
}
ADDRESS = {
    "address1": "2 Oak",
    "address2": "",
    "city": "Boise",
    "state": "ID",
    "country": "USA",
    "zip": "83700",
}


@pytest.fixture(scope="module")
def retail() -> Domain:
    return load_domain(RETAIL)


@pytest.fixture(scope="module")
def shop(retail: Domain, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Two customers, five orders and two products, in the benchmark's own form."""
    folder = tmp_path_factory.mktemp("shop")
    for name, table in (("users", USERS), ("orders", ORDERS), ("products", PRODUCTS)):
        (folder / f"{name}.json").write_text(json.dumps(table))
    return build(retail, directories=[folder])


@pytest.fixture
def environment(retail: Domain, shop: Image):
    made = Environment(retail, shop)
    yield made
    made.close()


class Observed:
    """An environment and what someone knows who saw every result and message so far."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.known = KnownWorld(environment.domain)
        self.step = 0

    def say(self, role: str, content: str) -> None:
        self.step += 1
        self.known.see_message(self.step, role, content)
        self.environment.world.connection.execute(
            "INSERT INTO messages VALUES (?, ?, ?)", (self.step, role, content)
        )

    def call(self, tool: str, **arguments: Any) -> str:
        self.step += 1
        result = self.environment.step(tool, arguments)
        self.known.see_result(self.step, tool, arguments, result.text, not result.ok)
        self.environment.world.connection.execute(
            "INSERT INTO calls VALUES (?, ?, ?, ?, ?)",
            (self.step, tool, json.dumps(arguments), result.text, int(not result.ok)),
        )
        return result.text

    def verdicts(self, clause: str, tool: str | None, **arguments: Any) -> tuple[str, str]:
        """In the known world and in the true one."""
        domain = self.environment.domain
        known = {found.clause: found for found in check_known(self.known, tool, arguments)}
        true = {found.clause: found for found in check_true(self.environment.world, domain, tool, arguments)}
        assert [found.problem for found in [*known.values(), *true.values()] if found.problem] == []
        return known[clause].verdict, true[clause].verdict


@pytest.fixture
def observed(environment: Environment):
    made = Observed(environment)
    yield made
    made.known.close()


# Recorded runs


def recorded(shared_data: Path) -> list[tuple[Path, list[Path]]]:
    database = shared_data / "retail" / "db"
    found = [(file, [database]) for file in sorted(shared_data.glob("agentrx/tau-bench.retail.*.json"))]
    more = [database, shared_data / "retail" / "db-tau-trait"]
    return found + [(file, more) for file in sorted(shared_data.glob("retail/tau-trait.gpt*.json"))]


def test_recorded_runs_give_the_recorded_results_and_rewards(retail, shared_data):
    worlds: dict[str, Image] = {}
    refused = {}
    for file, folders in recorded(shared_data):
        if str(folders) not in worlds:
            worlds[str(folders)] = build(retail, directories=folders)
        found = replay(retail, worlds[str(folders)], read_files([file], "retail"))
        assert found.calls > 40
        assert found.differences == [], file.name
        assert found.rewards_agree == found.evaluated > 0, file.name
        refused |= found.quarantined
    assert refused.keys() == REFUSED.keys()
    for task, reason in REFUSED.items():
        assert reason in refused[task]


def test_look_ups_go_by_an_index(retail, shop):
    world = Environment(retail, shop).world.connection
    for name in (
        "find_user_id_by_email",
        "find_user_id_by_name_zip",
        "get_order_details",
        "list_all_product_types",
    ):
        tool = retail.tool(name)
        names = dict.fromkeys(tool.parameters["properties"], "x")
        plan = [row[-1] for row in world.execute(f"EXPLAIN QUERY PLAN {tool.simulate.returns}", names)]
        assert any("INDEX" in step for step in plan), (name, plan)


# What the tools refuse

SWAP = {"item_ids": [RED], "new_item_ids": [BLUE], "payment_method_id": CARD}
GUARDS: list[tuple[str, dict[str, Any], str]] = [
    ("find_user_id_by_email", {"email": "nobody@example.com"}, "user not found"),
    ("find_user_id_by_name_zip", {"first_name": "Ana", "last_name": "Berg", "zip": "1"}, "user not found"),
    ("get_user_details", {"user_id": "nobody"}, "user not found"),
    ("get_order_details", {"order_id": "W1"}, "order not found"),
    ("get_product_details", {"product_id": RED}, "product not found"),
    ("cancel_pending_order", {"order_id": "#W0", "reason": "no longer needed"}, "order not found"),
    (
        "cancel_pending_order",
        {"order_id": "#W3", "reason": "no longer needed"},
        "non-pending order cannot be cancelled",
    ),
    ("modify_pending_order_address", {"order_id": "#W0", **ADDRESS}, "order not found"),
    ("modify_pending_order_address", {"order_id": "#W2", **ADDRESS}, "non-pending order cannot be modified"),
    ("modify_user_address", {"user_id": "nobody", **ADDRESS}, "user not found"),
    ("modify_pending_order_payment", {"order_id": "#W0", "payment_method_id": CARD}, "order not found"),
    (
        "modify_pending_order_payment",
        {"order_id": "#W2", "payment_method_id": PAYPAL},
        "non-pending order cannot be modified",
    ),
    (
        "modify_pending_order_payment",
        {"order_id": "#W1", "payment_method_id": "paypal_2"},
        "payment method not found",
    ),
    (
        "modify_pending_order_payment",
        {"order_id": "#W1", "payment_method_id": CARD},
        "the new payment method should be different from the current one",
    ),
    (
        "modify_pending_order_payment",
        {"order_id": "#W1", "payment_method_id": EMPTY_GIFT},
        "insufficient gift card balance to pay for the order",
    ),
    ("modify_pending_order_items", {"order_id": "#W0", **SWAP}, "order not found"),
    ("modify_pending_order_items", {"order_id": "#W2", **SWAP}, "non-pending order cannot be modified"),
    ("modify_pending_order_items", {"order_id": "#W1", **SWAP, "item_ids": [TALL]}, f"{TALL} not found"),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "item_ids": [RED] * 3, "new_item_ids": [BLUE] * 3},
        f"{RED} not found",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "new_item_ids": [BLUE, BLUE]},
        "the number of items to be exchanged should match",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "new_item_ids": [GONE]},
        f"new item {GONE} not found or available",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "new_item_ids": [TALL]},
        f"new item {TALL} not found or available",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "payment_method_id": "paypal_2"},
        "payment method not found",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", **SWAP, "payment_method_id": EMPTY_GIFT},
        "insufficient gift card balance to pay for the new item",
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W0", "item_ids": [RED], "payment_method_id": CARD},
        "order not found",
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W1", "item_ids": [RED], "payment_method_id": CARD},
        "non-delivered order cannot be returned",
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W2", "item_ids": [RED], "payment_method_id": "paypal_2"},
        "payment method not found",
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W2", "item_ids": [RED], "payment_method_id": PAYPAL},
        "payment method should be either the original payment method or a gift card",
    ),
    (
        "return_delivered_order_items",
        {"order_id": "#W2", "item_ids": [RED, RED], "payment_method_id": CARD},
        "some item not found",
    ),
    ("exchange_delivered_order_items", {"order_id": "#W0", **SWAP}, "order not found"),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W1", **SWAP},
        "non-delivered order cannot be exchanged",
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", **SWAP, "item_ids": [SHORT]},
        f"{SHORT} not found",
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", **SWAP, "new_item_ids": []},
        "the number of items to be exchanged should match",
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", **SWAP, "new_item_ids": [GONE]},
        f"new item {GONE} not found or available",
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", **SWAP, "payment_method_id": "paypal_2"},
        "payment method not found",
    ),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W2", **SWAP, "payment_method_id": EMPTY_GIFT},
        "insufficient gift card balance to pay for the price difference",
    ),
    ("calculate", {"expression": "__import__('os')"}, "invalid characters in expression"),
    ("calculate", {"expression": "2 *"}, "invalid syntax (<string>, line 1)"),
]


@pytest.mark.parametrize(("tool", "arguments", "error"), GUARDS)
def test_a_refused_call_says_why_and_changes_nothing(environment, tool, arguments, error):
    before = environment.hash()
    result = environment.step(tool, arguments)
    assert (result.text, result.status) == (f"Error: {error}", "guard")
    assert environment.hash() == before


def test_every_guard_is_tripped_above_or_below(retail):
    untripped = []
    for tool in retail.tools:
        errors = {f"Error: {error}" for name, _, error in GUARDS if name == tool.name}
        for guard in tool.simulate.guards:
            pattern = re.sub(r"\\{\\{.*?\\}\\}", r"\\d+", re.escape(guard.error))
            if not any(re.fullmatch(pattern, error) for error in errors):
                untripped.append((tool.name, guard.error))
    assert untripped == [
        ("modify_pending_order_payment", "Error: there should be exactly one payment for a pending order")
    ]


def test_a_payment_is_moved_only_once(environment):
    assert environment.step(
        "modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": PAYPAL}
    ).ok
    again = environment.step("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": GIFT})
    assert again.text == "Error: there should be exactly one payment for a pending order"


def test_differences_from_the_benchmark_are_those_that_the_readme_lists(environment):
    results = {
        "unknown tool": environment.step("refund", {}),
        "schema": environment.step("cancel_pending_order", {"order_id": "#W3", "reason": "too dear"}),
        "missing": environment.step("get_order_details", {}),
        "division": environment.step("calculate", {"expression": "1 / 0"}),
        "power": environment.step("calculate", {"expression": "2 ** 3"}),
    }
    assert {name: result.status for name, result in results.items()} == {
        "unknown tool": "unknown_tool",
        "schema": "schema",
        "missing": "schema",
        "division": "guard",
        "power": "guard",
    }


# What the tools do


def documents(environment: Environment, table: str) -> dict[str, Any]:
    key = environment.domain.state[table].key
    rows = environment.world.connection.execute(f"SELECT {key}, doc FROM {table}")
    return {identity: json.loads(document) for identity, document in rows}


def balance(environment: Environment, card: str = GIFT) -> float:
    return documents(environment, "users")[ANA]["payment_methods"][card]["balance"]


def test_cancelling_pays_a_gift_card_back_at_once(environment):
    result = json.loads(
        environment.step("cancel_pending_order", {"order_id": "#W4", "reason": "no longer needed"}).text
    )
    assert (result["status"], result["cancel_reason"]) == ("cancelled", "no longer needed")
    assert [entry["transaction_type"] for entry in result["payment_history"]] == ["payment", "refund"]
    assert balance(environment) == 110


def test_moving_a_payment_charges_one_card_and_refunds_the_other(environment):
    environment.step("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": GIFT})
    assert balance(environment) == 20
    environment.step("modify_pending_order_payment", {"order_id": "#W4", "payment_method_id": CARD})
    assert balance(environment) == 30
    entries = documents(environment, "orders")["#W4"]["payment_history"]
    assert [(entry["transaction_type"], entry["payment_method_id"]) for entry in entries] == [
        ("payment", GIFT),
        ("payment", CARD),
        ("refund", GIFT),
    ]


def test_items_are_swapped_pair_by_pair(environment):
    arguments = {
        "order_id": "#W1",
        "item_ids": [RED, SHORT],
        "new_item_ids": [BLUE, TALL],
        "payment_method_id": GIFT,
    }
    result = json.loads(environment.step("modify_pending_order_items", arguments).text)
    assert [item["item_id"] for item in result["items"]] == [BLUE, RED, TALL]
    assert result["items"][0]["options"] == {"color": "blue"}
    assert result["status"] == "pending (item modified)"
    assert result["payment_history"][1:] == [
        {"transaction_type": "payment", "amount": 22.5, "payment_method_id": GIFT}
    ]
    assert balance(environment) == 77.5


def test_an_exchange_is_noted_and_not_yet_made(environment):
    arguments = {
        "order_id": "#W2",
        "item_ids": [TALL, RED],
        "new_item_ids": [SHORT, BLUE],
        "payment_method_id": GIFT,
    }
    result = json.loads(environment.step("exchange_delivered_order_items", arguments).text)
    assert [item["item_id"] for item in result["items"]] == [RED, TALL]
    assert (result["exchange_items"], result["exchange_new_items"]) == ([RED, TALL], [BLUE, SHORT])
    assert result["exchange_price_difference"] == -17.5
    assert balance(environment) == 100


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("calculate", {"expression": "(12.5 + 3) * 2"}, "31.0"),
        ("calculate", {"expression": "10 / 3"}, "3.33"),
        ("think", {"thought": "hm"}, ""),
        ("transfer_to_human_agents", {"summary": "x"}, "Transfer successful"),
        ("list_all_product_types", {}, json.dumps({"Lamp": LAMP, "Mug": MUG}, separators=(",", ":"))),
        ("find_user_id_by_email", {"email": "ANA.berg@example.com"}, ANA),
        ("find_user_id_by_name_zip", {"first_name": "ana", "last_name": "BERG", "zip": "68100"}, ANA),
    ],
)
def test_results_without_a_change(environment, tool, arguments, text):
    assert environment.step(tool, arguments).text == text


# What an observer learns


def known_documents(known: KnownWorld, table: str) -> dict[str, Any]:
    key = known.domain.state[table].key
    rows = known.world.connection.execute(f"SELECT {key}, doc FROM {table}")
    return {identity: json.loads(document) for identity, document in rows}


def test_reads_reveal_what_they_show(observed):
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    assert known_documents(observed.known, "users") == {ANA: {}}
    observed.call("get_user_details", user_id=ANA)
    observed.call("get_order_details", order_id="#W1")
    observed.call("list_all_product_types")
    assert known_documents(observed.known, "products")[MUG] == {"name": "Mug", "product_id": MUG}
    observed.call("get_product_details", product_id=MUG)
    assert known_documents(observed.known, "users") == {ANA: USERS[ANA]}
    assert known_documents(observed.known, "orders") == {"#W1": ORDERS["#W1"]}
    assert known_documents(observed.known, "products")[MUG] == PRODUCTS[MUG]


def test_errors_reveal_nothing(observed):
    observed.call("get_order_details", order_id="#W0")
    observed.call("get_user_details", user_id="nobody")
    assert known_documents(observed.known, "orders") == known_documents(observed.known, "users") == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda seen: seen.call("cancel_pending_order", order_id="#W4", reason="no longer needed"),
        lambda seen: seen.call("modify_pending_order_payment", order_id="#W4", payment_method_id=CARD),
        lambda seen: seen.call("modify_pending_order_payment", order_id="#W1", payment_method_id=GIFT),
        lambda seen: seen.call(
            "modify_pending_order_items", order_id="#W1", **{**SWAP, "payment_method_id": GIFT}
        ),
        lambda seen: seen.call("modify_pending_order_address", order_id="#W1", **ADDRESS),
        lambda seen: seen.call("modify_user_address", user_id=ANA, **ADDRESS),
        lambda seen: seen.call("exchange_delivered_order_items", order_id="#W2", **SWAP),
        lambda seen: seen.call(
            "return_delivered_order_items", order_id="#W2", item_ids=[RED], payment_method_id=CARD
        ),
    ],
)
@pytest.mark.parametrize("read_before", [True, False])
def test_after_a_change_what_is_known_is_so(observed, change: Callable[[Observed], str], read_before):
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    if read_before:
        observed.call("get_user_details", user_id=ANA)
    assert not change(observed).startswith("Error")
    for table in ("users", "orders", "products"):
        true = documents(observed.environment, table)
        for identity, document in known_documents(observed.known, table).items():
            assert document == {name: true[identity][name] for name in document}


# Clauses: (known world, true world)


def test_authentication_comes_first(observed):
    assert observed.verdicts("auth.first", "get_user_details", user_id=ANA) == ("violated", "violated")
    assert observed.verdicts("auth.first", None) == ("kept", "kept")
    observed.call("find_user_id_by_email", email="nobody@example.com")
    assert observed.verdicts("auth.first", "get_user_details", user_id=ANA) == ("violated", "violated")
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    assert observed.verdicts("auth.first", "get_user_details", user_id=ANA) == ("kept", "kept")


def test_a_given_email_address_is_tried_before_the_name(observed):
    by_name = {"first_name": "Ana", "last_name": "Berg", "zip": "68100"}
    assert observed.verdicts("auth.email_before_name", "find_user_id_by_name_zip", **by_name) == (
        "kept",
        "kept",
    )
    observed.say("user", "I am Ana Berg, 68100, ana@example.com.")
    assert observed.verdicts("auth.email_before_name", "find_user_id_by_name_zip", **by_name) == (
        "violated",
        "violated",
    )
    observed.call("find_user_id_by_email", email="ana@example.com")
    assert observed.verdicts("auth.email_before_name", "find_user_id_by_name_zip", **by_name) == (
        "kept",
        "kept",
    )


def test_one_customer_is_served(observed):
    cancel = {"order_id": "#W5", "reason": "no longer needed"}
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    assert observed.verdicts("scope.one_customer", "get_user_details", user_id=ANA) == ("kept", "kept")
    assert observed.verdicts("scope.one_customer", "get_user_details", user_id=BEN) == (
        "violated",
        "violated",
    )
    assert observed.verdicts("scope.one_customer", "find_user_id_by_email", email="ben.cruz@example.com") == (
        "kept",
        "violated",
    )
    assert observed.verdicts("scope.one_customer", "get_order_details", order_id="#W5") == (
        "kept",
        "violated",
    )
    assert observed.verdicts("scope.one_customer", "cancel_pending_order", **cancel) == (
        "unknown",
        "violated",
    )
    observed.call("get_order_details", order_id="#W5")
    assert observed.verdicts("scope.one_customer", "cancel_pending_order", **cancel) == (
        "violated",
        "violated",
    )
    observed.call("get_user_details", user_id=ANA)
    assert observed.verdicts(
        "scope.one_customer", "cancel_pending_order", **cancel | {"order_id": "#W1"}
    ) == ("kept", "kept")


def test_a_profile_that_was_read_tells_whose_an_order_is(observed):
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    observed.call("get_user_details", user_id=BEN)
    clause = "scope.one_customer"
    assert observed.verdicts(clause, "get_order_details", order_id="#W5") == ("violated", "violated")
    cancel = {"order_id": "#W5", "reason": "no longer needed"}
    assert observed.verdicts(clause, "cancel_pending_order", **cancel) == ("violated", "violated")


def test_a_change_that_nobody_can_have_agreed_to(observed):
    cancel = {"order_id": "#W1", "reason": "no longer needed"}
    observed.say("user", "Cancel #W1.")
    observed.say("assistant", "Your e-mail address?")
    observed.say("user", "ana.berg@example.com")
    observed.call("find_user_id_by_email", email="ana.berg@example.com")
    assert observed.verdicts("confirm.before_change", "cancel_pending_order", **cancel) == (
        "violated",
        "violated",
    )
    observed.say("assistant", "I will cancel #W1. Yes?")
    assert observed.verdicts("confirm.before_change", "cancel_pending_order", **cancel) == (
        "violated",
        "violated",
    )
    observed.say("user", "Yes.")
    assert observed.verdicts("confirm.before_change", "cancel_pending_order", **cancel) == ("kept", "kept")


def test_ids_come_from_somewhere(observed):
    clause = "facts.no_invention"
    assert observed.verdicts(clause, "get_order_details", order_id="#W1") == ("violated", "violated")
    observed.say("assistant", "Is it #W1?")
    assert observed.verdicts(clause, "get_order_details", order_id="#W1") == ("violated", "violated")
    observed.say("user", "It is order 1.")
    assert observed.verdicts(clause, "get_order_details", order_id="#W1") == ("kept", "kept")
    observed.call("get_order_details", order_id="#W1")
    assert observed.verdicts(clause, "modify_pending_order_items", order_id="#W1", **SWAP) == (
        "violated",
        "violated",
    )
    observed.call("get_product_details", product_id=MUG)
    assert observed.verdicts(clause, "modify_pending_order_items", order_id="#W1", **SWAP) == ("kept", "kept")


def test_product_and_item_ids_are_told_apart(observed):
    assert observed.verdicts("catalog.ids", "get_product_details", product_id=RED) == ("kept", "violated")
    observed.call("get_order_details", order_id="#W1")
    assert observed.verdicts("catalog.ids", "get_product_details", product_id=RED) == ("violated", "violated")
    assert observed.verdicts("catalog.ids", "get_product_details", product_id=MUG) == ("kept", "kept")
    swap = {"order_id": "#W1", **SWAP}
    assert observed.verdicts("catalog.ids", "modify_pending_order_items", **swap) == ("kept", "kept")
    assert observed.verdicts(
        "catalog.ids", "modify_pending_order_items", **swap | {"new_item_ids": [MUG]}
    ) == ("violated", "violated")


def test_the_status_is_read_before_acting(observed):
    cancel = {"order_id": "#W1", "reason": "no longer needed"}
    assert observed.verdicts("order.status_checked", "cancel_pending_order", **cancel) == (
        "violated",
        "violated",
    )
    observed.call("get_order_details", order_id="#W1")
    assert observed.verdicts("order.status_checked", "cancel_pending_order", **cancel) == ("kept", "kept")


PAY, ITEMS, RETURN = (
    "modify_pending_order_payment",
    "modify_pending_order_items",
    "return_delivered_order_items",
)
EXCHANGE, CANCEL = "exchange_delivered_order_items", "cancel_pending_order"
SEND_BACK = {"item_ids": [RED], "payment_method_id": CARD}
WHY = {"reason": "no longer needed"}

# Clause, tool, arguments that keep it, arguments that break it; unknown to whom has read nothing.
ON_RECORDS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("cancel.only_pending", CANCEL, {"order_id": "#W1", **WHY}, {"order_id": "#W3", **WHY}),
    ("modify.only_pending", ITEMS, {"order_id": "#W1", **SWAP}, {"order_id": "#W2", **SWAP}),
    ("return.only_delivered", RETURN, {"order_id": "#W2", **SEND_BACK}, {"order_id": "#W1", **SEND_BACK}),
    ("exchange.only_delivered", EXCHANGE, {"order_id": "#W2", **SWAP}, {"order_id": "#W3", **SWAP}),
    (
        "payment.on_profile",
        PAY,
        {"order_id": "#W1", "payment_method_id": PAYPAL},
        {"order_id": "#W1", "payment_method_id": "paypal_2"},
    ),
    (
        "payment.different",
        PAY,
        {"order_id": "#W1", "payment_method_id": PAYPAL},
        {"order_id": "#W1", "payment_method_id": CARD},
    ),
    (
        "payment.gift_covers",
        PAY,
        {"order_id": "#W1", "payment_method_id": GIFT},
        {"order_id": "#W1", "payment_method_id": EMPTY_GIFT},
    ),
    (
        "payment.gift_covers",
        EXCHANGE,
        {"order_id": "#W2", **SWAP, "payment_method_id": GIFT},
        {"order_id": "#W2", **SWAP, "payment_method_id": EMPTY_GIFT},
    ),
    (
        "return.refund_target",
        RETURN,
        {"order_id": "#W2", **SEND_BACK, "payment_method_id": GIFT},
        {"order_id": "#W2", **SEND_BACK, "payment_method_id": PAYPAL},
    ),
    (
        "items.in_order",
        RETURN,
        {"order_id": "#W2", **SEND_BACK, "item_ids": [RED, TALL]},
        {"order_id": "#W2", **SEND_BACK, "item_ids": [RED, RED]},
    ),
    (
        "items.same_product",
        ITEMS,
        {"order_id": "#W1", **SWAP},
        {"order_id": "#W1", **SWAP, "new_item_ids": [TALL]},
    ),
    (
        "items.available",
        ITEMS,
        {"order_id": "#W1", **SWAP},
        {"order_id": "#W1", **SWAP, "new_item_ids": [GONE]},
    ),
    (
        "items.available",
        EXCHANGE,
        {"order_id": "#W2", **SWAP},
        {"order_id": "#W2", **SWAP, "new_item_ids": [RED]},
    ),
]


@pytest.mark.parametrize(("clause", "tool", "keeps", "breaks"), ON_RECORDS)
def test_a_clause_on_records(observed, clause, tool, keeps, breaks):
    assert observed.verdicts(clause, tool, **keeps) == ("unknown", "kept")
    assert observed.verdicts(clause, tool, **breaks) == ("unknown", "violated")
    for number in ("#W1", "#W2", "#W3"):
        observed.call("get_order_details", order_id=number)
    observed.call("get_user_details", user_id=ANA)
    observed.call("get_product_details", product_id=MUG)
    assert observed.verdicts(clause, tool, **keeps) == ("kept", "kept")
    assert observed.verdicts(clause, tool, **breaks) == ("violated", "violated")


def test_the_method_that_pays_now_is_the_one_to_differ_from(observed):
    observed.call(PAY, order_id="#W1", payment_method_id=PAYPAL)
    again = {"order_id": "#W1", "payment_method_id": PAYPAL}
    assert observed.verdicts("payment.different", PAY, **again) == ("violated", "violated")


def test_lists_of_items_are_paired(observed):
    swap = {"order_id": "#W1", **SWAP}
    assert observed.verdicts("items.paired", ITEMS, **swap) == ("kept", "kept")
    assert observed.verdicts("items.paired", ITEMS, **swap | {"new_item_ids": []}) == ("violated", "violated")


@pytest.mark.parametrize(
    ("clause", "first", "then"),
    [
        ("items.once", (ITEMS, {"order_id": "#W1", **SWAP}), (CANCEL, {"order_id": "#W1", **WHY})),
        ("items.once", (ITEMS, {"order_id": "#W1", **SWAP}), (ITEMS, {"order_id": "#W1", **SWAP})),
        (
            "delivered.once",
            (RETURN, {"order_id": "#W2", **SEND_BACK}),
            (EXCHANGE, {"order_id": "#W2", **SWAP}),
        ),
        (
            "delivered.once",
            (EXCHANGE, {"order_id": "#W2", **SWAP}),
            (RETURN, {"order_id": "#W2", **SEND_BACK}),
        ),
    ],
)
def test_what_may_happen_once(observed, clause, first, then):
    tool, arguments = then
    assert observed.verdicts(clause, tool, **arguments) == ("unknown", "kept")
    observed.call("get_order_details", order_id=arguments["order_id"])
    assert observed.verdicts(clause, tool, **arguments) == ("kept", "kept")
    observed.call(first[0], **first[1])
    assert observed.verdicts(clause, tool, **arguments) == ("violated", "violated")


def test_a_call_that_a_guard_refuses_breaks_a_clause(observed):
    # What no rule speaks of: an order that does not exist is invented, or the customer's own mistake.
    unruled = ("order not found", "user not found", "product not found", "invalid")
    for tool, arguments, error in GUARDS:
        if tool.startswith(("find_", "get_", "calculate")) or any(text in error for text in unruled):
            continue
        found = check_true(observed.environment.world, observed.environment.domain, tool, arguments)
        broken = {finding.clause for finding in found if finding.verdict == "violated"}
        # Nobody has asked or been asked yet, so these are broken anyhow.
        broken -= {"auth.first", "confirm.before_change", "facts.no_invention", "order.status_checked"}
        assert broken, (tool, arguments, error)


# The generated world


@pytest.mark.parametrize(("seed", "scale"), [(0, 1), (7, 1), (0, 3)])
def test_a_generated_shop_is_consistent(retail, seed, scale):
    environment = Environment(retail, build(retail, seed=seed, scale=scale))
    users, orders, products = (documents(environment, table) for table in ("users", "orders", "products"))
    environment.close()
    sold = {item: product for product in products.values() for item in product["variants"]}
    assert (len(users), len(products)) == (40 * scale, 20 * scale)
    assert 90 * scale <= len(orders) <= 150 * scale
    assert len(sold) == sum(len(product["variants"]) for product in products.values())
    assert not sold.keys() & products.keys()
    assert len({product["name"] for product in products.values()}) == len(products)
    assert len({profile["email"] for profile in users.values()}) == len(users)
    assert sorted(number for profile in users.values() for number in profile["orders"]) == sorted(orders)
    assert {record["status"] for record in orders.values()} == {
        "pending",
        "processed",
        "delivered",
        "cancelled",
    }
    for number, record in orders.items():
        assert number in users[record["user_id"]]["orders"]
        for item in record["items"]:
            product = sold[item["item_id"]]
            offer = product["variants"][item["item_id"]]
            assert (item["product_id"], item["name"]) == (product["product_id"], product["name"])
            assert (item["price"], item["options"]) == (offer["price"], offer["options"])
        paid = record["payment_history"][0]
        assert paid["amount"] == pytest.approx(sum(item["price"] for item in record["items"]))
        assert paid["payment_method_id"] in users[record["user_id"]]["payment_methods"]
        assert len(record["payment_history"]) == (2 if record["status"] == "cancelled" else 1)


def test_a_seed_decides_the_shop(retail):
    one = Environment(retail, build(retail, seed=1))
    same = Environment(retail, build(retail, seed=1))
    other = Environment(retail, build(retail, seed=2))
    assert one.hash() == same.hash() != other.hash()
