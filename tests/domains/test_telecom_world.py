"""The telecom world: recorded runs replay, calls fail as declared, results reveal the truth, SQL decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from castline.engine.trajectories import read_files
from castline.engine.world import Environment, KnownWorld, build, check_known, check_true, replay
from castline.specs import load_domain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def telecom():
    return load_domain(ROOT / "domains" / "telecom")


@pytest.fixture(scope="module")
def image(telecom):
    return build(telecom)


@pytest.fixture(scope="module")
def larger(telecom):
    return build(telecom, seed=7, scale=2)


@pytest.fixture
def world(telecom, image):
    environment = Environment(telecom, image)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def recorded_world(telecom, shared_data):
    return build(telecom, directories=[shared_data / "telecom" / "db"])


def one(environment: Environment, sql: str) -> dict:
    row = environment.world.first(sql, {})
    assert row is not None, sql
    return row


def test_recorded_runs_replay(telecom, recorded_world, tau_files):
    files = [file for file in tau_files if file.parent.name == "telecom"]
    found = replay(telecom, recorded_world, read_files(files, "telecom"))
    assert found.runs and found.calls
    assert [difference for difference in found.differences if difference.first] == []
    assert found.matched >= 0.99 * found.calls
    assert found.rewards_agree >= 0.98 * found.evaluated


def test_a_service_that_was_never_billed_is_removed_and_answered_with_an_error(telecom, recorded_world):
    environment = Environment(telecom, recorded_world)
    call = {"customer_id": "robert_wilson_7890", "action": "remove", "service_id": "internet_fiber_1gb"}
    assert environment.step("manage_service", call).text == "Error: 'internet_fiber_1gb'"
    assert environment.step("manage_service", call).text.endswith("does not have service: internet_fiber_1gb")


def test_a_device_that_is_not_the_customers_is_named_with_those_that_are(telecom, recorded_world):
    environment = Environment(telecom, recorded_world)
    before = environment.hash()
    call = {
        "customer_id": "lisa_chen_3456",
        "action": "add",
        "service_id": "tv_basic",
        "devices_ids": ["2", "9"],
    }
    assert environment.step("manage_service", call).text == (
        "Error: Device not found: 9 in devices [{'device_id': '1', 'name': 'Samsung Galaxy A54', "
        "'service': 'mobile_basic'}, {'device_id': '2', 'name': 'Basic WiFi Router', 'service': 'tv_basic'}]"
    )
    assert environment.hash() == before


def test_the_generated_world_is_the_same_for_the_same_seed_and_grows_with_the_scale(telecom, image):
    assert build(telecom).data == image.data
    assert build(telecom, seed=1).data != image.data
    assert 200 <= sum(image.counts.values()) <= 500
    larger = build(telecom, scale=3).counts
    for table in ("customers", "billing", "support_tickets", "user_device"):
        assert larger[table] == 3 * image.counts[table]


@pytest.mark.parametrize(
    "odd",
    [
        "SELECT customer_id, s.value FROM customers, json_each(services) s WHERE s.value NOT IN "
        "(SELECT service_id FROM services)",
        "SELECT customer_id, d.value FROM customers, json_each(devices) d WHERE d.value ->> 'name' NOT IN "
        "(SELECT device_name FROM devices)",
        "SELECT customer_id, d.value FROM customers c, json_each(c.devices) d "
        "WHERE d.value ->> 'service' IS NOT NULL "
        "AND d.value ->> 'service' NOT IN (SELECT value FROM json_each(c.services))",
        "SELECT customer_id, d.key FROM customers, json_each(devices) d "
        "WHERE d.value ->> 'device_id' <> CAST(d.key + 1 AS TEXT)",
        "SELECT customer_id FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM billing)",
        "SELECT b.customer_id FROM billing b JOIN customers c USING (customer_id), "
        "json_each(b.monthly_charges) m "
        "WHERE m.key <> 'taxes_fees' AND m.key NOT IN (SELECT value FROM json_each(c.services))",
        "SELECT c.customer_id FROM billing b JOIN customers c USING (customer_id), json_each(c.services) s "
        "JOIN services o ON o.service_id = s.value "
        "WHERE b.monthly_charges ->> ('$.' || s.value) IS NOT o.price",
        "SELECT customer_id FROM billing WHERE auto_pay AND current_balance > 0",
        "SELECT customer_id FROM billing WHERE abs(current_balance + coalesce("
        "(SELECT sum(p.value ->> 'amount') FROM json_each(payment_history) p "
        "WHERE p.value ->> 'date' >= '2025-09-01'), 0) "
        "- (SELECT sum(value) FROM json_each(monthly_charges))) > 0.006",
        "SELECT customer_id, p.value FROM billing, json_each(payment_history) p "
        "WHERE p.value ->> 'date' > '2025-09-18'",
        "SELECT customer_id FROM billing "
        "WHERE doc ->> '$.last_payment.date' <> payment_history ->> '$[0].date'",
        "SELECT ticket_id FROM support_tickets WHERE customer_id NOT IN (SELECT customer_id FROM customers)",
        "SELECT lower(demographics ->> '$.email') e FROM customers GROUP BY e HAVING count(*) > 1",
        "SELECT phone FROM user_device d JOIN customers c USING (customer_id) "
        "WHERE phone <> demographics ->> '$.phone'",
    ],
)
def test_the_generated_world_is_consistent(telecom, larger, odd):
    environment = Environment(telecom, larger)
    assert environment.world.all(odd, {}) == []
    environment.close()


def test_a_new_ticket_gets_a_number_of_its_own(world, image):
    customer = one(world, "SELECT customer_id FROM customers LIMIT 1")["customer_id"]
    result = world.step("create_support_ticket", {"customer_id": customer, "category": "tv"})
    assert result.text.startswith(
        f"Success: Created support ticket TICKET{image.counts['support_tickets'] + 1:03d}"
    )
    assert one(world, "SELECT count(*) AS n FROM support_tickets")["n"] == image.counts["support_tickets"] + 1


BAD_CALLS = [
    ("calculate", {"expression": "2 ** x"}, "guard", "Error: invalid characters in expression"),
    ("calculate", {"expression": "7 / 0"}, "guard", "Error: division by zero"),
    ("calculate", {"expression": "2 +"}, "guard", "Error: invalid syntax"),
    ("find_customer_by_email", {"email": "x@example.com"}, "guard", "Error: No customer found with email"),
    ("find_customer_by_phone", {"phone": "(555) 000-0000"}, "guard", "Error: No customer found with phone"),
    ("find_customer_by_phone", {"phone": ""}, "guard", "Error: No customer found with phone"),
    ("get_customer_details", {"customer_id": "x"}, "guard", "Error: Customer not found: x"),
    (
        "get_billing_details",
        {"customer_id": "x"},
        "guard",
        "Error: No billing information found for customer: x",
    ),
    ("get_service_details", {"service_id": "x"}, "guard", "Error: Service not found: x"),
    ("get_device_details", {"device_name": "x"}, "guard", "Error: Device not found: x"),
    ("get_support_ticket_details", {"ticket_id": "x"}, "guard", "Error: Support ticket not found: x"),
    ("manage_service", {"customer_id": "x", "action": "list"}, "guard", "Error: Customer not found: x"),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "suspend"},
        "guard",
        "Error: Service ID is required",
    ),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "suspend", "service_id": "HELD"},
        "guard",
        "Error: Invalid action: suspend. Valid actions are: add, remove, list",
    ),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "add", "service_id": "x"},
        "guard",
        "Error: Service not found: x",
    ),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "add", "service_id": "HELD"},
        "guard",
        "Error: Customer CUSTOMER already has service: HELD",
    ),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "add", "service_id": "FREE", "devices_ids": ["1", "99"]},
        "guard",
        "Error: Device not found: 99 in devices [{'device_id': '1'",
    ),
    (
        "manage_service",
        {"customer_id": "CUSTOMER", "action": "remove", "service_id": "FREE"},
        "guard",
        "Error: Customer CUSTOMER does not have service: FREE",
    ),
    (
        "troubleshoot_device",
        {"device_name": "Nimbus 7", "issue": "x"},
        "guard",
        "Error: 'x' is not a valid Issue",
    ),
    (
        "troubleshoot_device",
        {"device_name": "x", "issue": "no_service"},
        "guard",
        "Error: Device not found: x",
    ),
    (
        "troubleshoot_device",
        {"device_name": "Channel Box", "issue": "slow_speeds"},
        "guard",
        "Error: type object 'Issue' has no attribute 'NO_SIGNAL'",
    ),
    (
        "create_support_ticket",
        {"customer_id": "x", "category": "tv"},
        "guard",
        "Error: Customer not found: x",
    ),
    (
        "create_support_ticket",
        {"customer_id": "CUSTOMER", "category": "x"},
        "guard",
        "Error: Invalid category: x. Valid categories: mobile, internet, tv, billing, account, device, "
        "security, phone",
    ),
    (
        "create_support_ticket",
        {"customer_id": "CUSTOMER", "category": "tv", "priority": "x"},
        "guard",
        "Error: Invalid priority: x. Valid priorities: low, medium, high, urgent",
    ),
    ("add_device", {"customer_id": "x", "device_name": "Nimbus 7"}, "guard", "Error: Customer not found: x"),
    ("add_device", {"customer_id": "CUSTOMER", "device_name": "x"}, "guard", "Error: Invalid device name: x"),
    (
        "manage_billing",
        {"customer_id": "x", "paperless": True, "auto_pay": True, "billing_cycle": "monthly"},
        "guard",
        "Error: Customer not found: x",
    ),
    ("get_senior_discount", {"original_price": "$9"}, "guard", "Error: original_price must be a number"),
    (
        "modify_support_ticket",
        {"ticket_id": "x", "status": "open", "priority": "low"},
        "guard",
        "Error: Support ticket not found: x",
    ),
    (
        "record_payment",
        {"customer_id": "x", "amount": 5, "method": "credit_card", "date": "2025-09-18"},
        "guard",
        "Error: No billing information found for customer: x",
    ),
    ("check_sim", {"phone": "x"}, "guard", "Error: you have no phone with the number x"),
    # Shapes that expected actions of the benchmark have.
    (
        "manage_devices",
        {"customer_id": "x", "action": "list"},
        "unknown_tool",
        "Error: unknown tool manage_devices",
    ),
    ("get_services", {"customer_id": "x"}, "schema", "Error: "),
    ("troubleshoot_device", {"device_id": "x", "issue": "no_service"}, "schema", "Error: "),
]


@pytest.mark.parametrize(("tool", "arguments", "status", "text"), BAD_CALLS)
def test_a_call_that_fails_says_why_and_changes_nothing(world, tool, arguments, status, text):
    customer = one(
        world,
        "SELECT customer_id, services ->> '$[0]' AS held FROM customers "
        "WHERE json_array_length(services) > 1 LIMIT 1",
    )
    free = one(
        world,
        "SELECT service_id FROM services WHERE category = 'security' AND service_id NOT IN "
        f"(SELECT s.value FROM customers, json_each(services) s "
        f"WHERE customer_id = '{customer['customer_id']}') LIMIT 1",
    )
    names = {"CUSTOMER": customer["customer_id"], "HELD": customer["held"], "FREE": free["service_id"]}
    arguments = {k: names.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()}
    for name, value in names.items():
        text = text.replace(name, value)
    before = world.hash()
    result = world.step(tool, arguments)
    assert (result.status, result.text[: len(text)]) == (status, text)
    assert world.hash() == before


def test_every_guard_can_fail(telecom):
    """One bad call for each guard of the agent's tools; a customer without a bill exists in no world here."""
    guards = {tool.name: len(tool.simulate.guards) for tool in telecom.tools if tool.actor == "agent"}
    tried: dict[str, set[str]] = {name: set() for name in guards}
    for tool, arguments, status, text in BAD_CALLS:
        if status == "guard" and tool in tried and arguments.get("phone") != "":
            tried[tool].add(text)
    guards["manage_billing"] -= 1
    assert {name: len(texts) for name, texts in tried.items()} == guards


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("calculate", {"expression": "95.00 - 40.00"}, "55.0"),
        ("calculate", {"expression": "(2 + 3) * -1.25"}, "-6.25"),
        ("think", {"thought": "hm"}, ""),
        ("get_senior_discount", {"original_price": "95.00"}, "90.00"),
        ("get_senior_discount", {"original_price": " 3 "}, "0.00"),
        ("troubleshoot_device", {"device_name": "Night Owl Kit", "issue": "no_service"}, "Unknown issue"),
        ("troubleshoot_device", {"device_name": "Harbor Mesh", "issue": "battery_drain"}, "Unknown issue"),
    ],
)
def test_tools_that_only_work_something_out(world, tool, arguments, text):
    assert world.step(tool, arguments).text == text


def test_a_customer_is_found_by_mail_in_any_case_and_by_the_digits_of_the_number(world):
    row = one(
        world,
        "SELECT customer_id, demographics ->> '$.email' AS email, demographics ->> '$.phone' AS phone "
        "FROM customers ORDER BY rowid DESC LIMIT 1",
    )
    digits = "".join(c for c in row["phone"] if c.isdigit())
    assert world.step("find_customer_by_email", {"email": row["email"].upper()}).text == row["customer_id"]
    for phone in (row["phone"], digits, f"+{digits[:3]}.{digits[3:]} (home)"):
        assert world.step("find_customer_by_phone", {"phone": phone}).text == row["customer_id"]
    assert world.step("find_customer_by_phone", {"phone": "1" + digits}).status == "guard"


def test_adding_a_service_attaches_devices_and_charges_and_removing_undoes_it(world):
    who = one(
        world,
        "SELECT customer_id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM json_each(c.services) "
        "WHERE value LIKE 'tv%') LIMIT 1",
    )["customer_id"]
    start = json.loads(world.step("get_customer_details", {"customer_id": who}).text)
    add = {"customer_id": who, "action": "add", "service_id": "tv_sport", "devices_ids": ["1"]}
    assert (
        world.step("manage_service", add).text == f"Success: Added service 'Sport channels' to customer {who}"
    )
    customer = json.loads(world.step("get_customer_details", {"customer_id": who}).text)
    assert customer["services"] == [*start["services"], "tv_sport"]
    assert customer["devices"] == [{**start["devices"][0], "service": "tv_sport"}, *start["devices"][1:]]
    charges = json.loads(world.step("get_billing_details", {"customer_id": who}).text)["monthly_charges"]
    assert charges["tv_sport"] == 45.0
    listed = json.loads(world.step("manage_service", {"customer_id": who, "action": "list"}).text)
    assert [service["service_id"] for service in listed["services"]] == customer["services"]
    gone = world.step(
        "manage_service", {"customer_id": who, "action": "remove", "service_id": "tv_sport"}
    ).text
    name = start["devices"][0]["name"]
    assert gone == (
        f"Success: Removed service 'Sport channels' from customer {who}. "
        f"Devices [{name!r}] are now no longer associated with the service."
    )
    customer = json.loads(world.step("get_customer_details", {"customer_id": who}).text)
    assert customer["services"] == start["services"] and customer["devices"][0]["service"] is None
    charges = json.loads(world.step("get_billing_details", {"customer_id": who}).text)["monthly_charges"]
    assert "tv_sport" not in charges


def test_a_payment_lowers_the_balance_at_most_to_zero(world):
    row = one(
        world, "SELECT customer_id, current_balance AS owed FROM billing WHERE current_balance > 10 LIMIT 1"
    )
    pay = {"customer_id": row["customer_id"], "amount": 4, "method": "credit_card", "date": "2025-09-18"}
    answer = json.loads(world.step("record_payment", pay).text)
    assert answer == {**pay, "amount": "4.00", "current_balance": f"{row['owed'] - 4:.2f}"}
    assert json.loads(world.step("record_payment", {**pay, "amount": 9999}).text)["current_balance"] == "0.00"
    bill = json.loads(world.step("get_billing_details", {"customer_id": row["customer_id"]}).text)
    assert [payment["amount"] for payment in bill["payment_history"][-2:]] == [4.0, 9999.0]
    assert bill["last_payment"]["method"] == "credit_card" and bill["current_balance"] == 0


def test_bill_settings_are_json_booleans_and_leave_the_profile_alone(world):
    who = one(world, "SELECT customer_id FROM billing LIMIT 1")["customer_id"]
    profile = world.step("get_customer_details", {"customer_id": who}).text
    call = {"customer_id": who, "paperless": False, "auto_pay": True, "billing_cycle": "annual"}
    answer = json.loads(world.step("manage_billing", call).text)
    assert answer["customer_id"] == who
    assert answer["billing"]["paperless"] is False
    assert answer["billing"]["auto_pay"] is True
    assert answer["billing"]["billing_cycle"] == "annual"
    assert world.step("get_customer_details", {"customer_id": who}).text == profile


def phone(world: Environment, **state: object) -> dict[str, str]:
    """The arguments for a phone with a mobile plan in the given state."""
    number = one(world, "SELECT phone FROM user_device LIMIT 1")["phone"]
    state = {"airplane_mode": 0, "mobile_data": 1, "sim": "active", "hung": 0, "bars": 3, **state}
    for column, value in state.items():
        world.world.connection.execute(
            f"UPDATE user_device SET {column} = ? WHERE phone = ?", (value, number)
        )
    return {"phone": number}


def test_the_phone_has_six_tools_of_the_user_which_reveal_nothing(telecom):
    users = {tool.name: tool for tool in telecom.tools if tool.actor == "user"}
    assert {name: tool.effect for name, tool in users.items()} == {
        "check_status_bar": "read",
        "check_sim": "read",
        "run_speed_test": "read",
        "toggle_airplane_mode": "write",
        "toggle_mobile_data": "write",
        "reboot_phone": "write",
    }
    assert all(tool.reveals is None for tool in users.values())


def test_airplane_mode_cuts_the_connection_until_it_is_toggled_again(world):
    mine = phone(world)
    before = world.hash()
    assert world.step("run_speed_test", mine).text == "36 Mbit/s, good"
    assert world.step("toggle_airplane_mode", mine).text == "Airplane mode is now on"
    assert world.step("check_status_bar", mine).text.startswith("Airplane symbol")
    assert world.step("run_speed_test", mine).text.startswith("No connection")
    assert world.step("toggle_airplane_mode", mine).text == "Airplane mode is now off"
    assert world.hash() == before


@pytest.mark.parametrize(
    ("state", "cure"),
    [
        ({"mobile_data": 0}, "toggle_mobile_data"),
        ({"airplane_mode": 1}, "toggle_airplane_mode"),
        ({"hung": 1}, "reboot_phone"),
    ],
)
def test_each_trouble_has_its_cure(world, state, cure):
    mine = phone(world, **state)
    assert world.step("run_speed_test", mine).text.startswith("No connection")
    for other in {"toggle_mobile_data", "toggle_airplane_mode", "reboot_phone"} - {cure}:
        world.step(other, mine)
        assert world.step("run_speed_test", mine).text.startswith("No connection")
        world.step(other, mine)
    world.step(cure, mine)
    assert world.step("run_speed_test", mine).text == "36 Mbit/s, good"


@pytest.mark.parametrize(
    ("sim", "text"), [("locked", "SIM card locked, PIN needed"), ("missing", "No SIM card found")]
)
def test_no_setting_helps_where_the_card_is_not_read(world, sim, text):
    mine = phone(world, sim=sim)
    assert world.step("check_sim", mine).text == text
    assert world.step("check_status_bar", mine).text.startswith("SIM symbol crossed out")
    world.step("reboot_phone", mine)
    assert world.step("run_speed_test", mine).text.startswith("No connection")


def test_what_the_agent_removes_the_phone_feels(world):
    mine = phone(world)
    row = one(
        world,
        "SELECT d.customer_id, s.value AS plan FROM user_device d JOIN customers c USING (customer_id), "
        f"json_each(c.services) s WHERE d.phone = '{mine['phone']}' AND s.value LIKE 'mobile%'",
    )
    world.step(
        "manage_service", {"customer_id": row["customer_id"], "action": "remove", "service_id": row["plan"]}
    )
    assert world.step("check_status_bar", mine).text.startswith("No bars, searching")
    assert world.step("run_speed_test", mine).text.startswith("No connection")


def test_what_is_revealed_is_true_after_every_tool(telecom, world):
    row = one(
        world,
        "SELECT c.customer_id, demographics ->> '$.email' AS email, demographics ->> '$.phone' AS phone, "
        "(SELECT value FROM json_each(services) WHERE value LIKE 'internet%') AS old FROM customers c "
        "WHERE old IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM json_each(services) WHERE value = 'internet_fibre_2000') LIMIT 1",
    )
    who = {"customer_id": row["customer_id"]}
    ticket = one(world, "SELECT ticket_id FROM support_tickets LIMIT 1")
    calls = [
        ("find_customer_by_email", {"email": row["email"]}),
        ("find_customer_by_phone", {"phone": row["phone"]}),
        ("get_customer_details", who),
        ("get_billing_details", who),
        ("get_services", {}),
        ("get_service_details", {"service_id": row["old"]}),
        ("get_device_details", {"device_name": "Harbor Mesh"}),
        ("get_support_ticket_details", ticket),
        ("add_device", {**who, "device_name": "Harbor Mesh"}),
        ("manage_service", {**who, "action": "remove", "service_id": row["old"]}),
        (
            "manage_service",
            {**who, "action": "add", "service_id": "internet_fibre_2000", "devices_ids": ["1"]},
        ),
        ("manage_service", {**who, "action": "list"}),
        ("create_support_ticket", {**who, "category": "tv", "priority": "high"}),
        ("modify_support_ticket", {**ticket, "status": "closed", "priority": "low"}),
        ("manage_billing", {**who, "paperless": True, "auto_pay": False, "billing_cycle": "quarterly"}),
        ("record_payment", {**who, "amount": 7.5, "method": "bank_transfer", "date": "2025-09-18"}),
    ]
    assert {tool for tool, _ in calls} == {tool.name for tool in telecom.tools if tool.reveals}
    known = KnownWorld(telecom)
    for step, (tool, arguments) in enumerate(calls):
        result = world.step(tool, arguments)
        assert result.ok, result
        known.see_result(step, tool, arguments, result.text, not result.ok)
        assert untrue(known, world) == []
    counts = {
        table: known.world.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in telecom.state
    }
    assert counts == {
        "services": 18,
        "devices": 1,
        "customers": 1,
        "billing": 1,
        "support_tickets": 2,
        "user_device": 0,
    }
    known.close()


def untrue(known: KnownWorld, world: Environment) -> list[tuple]:
    """Fields of known documents that are otherwise in the true world."""
    found = []
    for table, spec in known.domain.state.items():
        if spec.document is None:
            continue
        for key, text in known.world.connection.execute(f"SELECT {spec.key}, {spec.document} FROM {table}"):
            true = json.loads(one(world, f"SELECT doc FROM {table} WHERE {spec.key} = '{key}'")["doc"])
            found += [
                (table, key, field, value, true.get(field))
                for field, value in json.loads(text).items()
                if true.get(field) != value
            ]
    return found


def test_failures_and_prose_reveal_nothing(telecom):
    known = KnownWorld(telecom)
    known.see_result(1, "find_customer_by_email", {"email": "x"}, "Error: No customer found", True)
    known.see_result(2, "find_customer_by_email", {"email": "x"}, "Error: No customer found", False)
    known.see_result(3, "get_device_details", {"device_name": "x"}, "no idea", False)
    known.see_result(4, "create_support_ticket", {"customer_id": "c", "category": "tv"}, "Error: no", False)
    for table in telecom.state:
        assert known.world.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    known.close()


def test_a_second_look_replaces_what_the_first_one_showed(telecom):
    known = KnownWorld(telecom)
    for step, charges in ((1, {"tv_sport": 45.0, "taxes_fees": 2.7}), (3, {"taxes_fees": 0.0})):
        bill = {"customer_id": "c", "monthly_charges": charges}
        known.see_result(step, "get_billing_details", {"customer_id": "c"}, json.dumps(bill), False)
    row, cells = known.ask("SELECT monthly_charges FROM billing WHERE customer_id = 'c'", {})
    assert row is not None and json.loads(row["monthly_charges"]) == {"taxes_fees": 0.0}
    assert {cell.step for cell in cells} == {3}
    known.close()


FOUND = ("find_customer_by_email", {"email": "c@example.com"}, "c")
PROFILE = (
    "get_customer_details",
    {"customer_id": "c"},
    json.dumps(
        {
            "customer_id": "c",
            "services": ["tv_a"],
            "devices": [
                {"device_id": "1", "name": "Box", "service": "tv_a"},
                {"device_id": "2", "name": "Screen", "service": None},
            ],
        }
    ),
)
OFFERED = (
    "get_services",
    {},
    json.dumps(
        {
            id: {"service_id": id, "name": f"Plan {id}", "category": "tv", "price": 1.0}
            for id in ("tv_a", "tv_b")
        }
    ),
)
ALSO_OFFERED = (
    "get_service_details",
    {"service_id": "tv_d"},
    json.dumps({"service_id": "tv_d", "name": "Plan tv_d", "category": "tv", "price": 1.0}),
)
REMOVE = {"customer_id": "c", "action": "remove", "service_id": "tv_a"}
ADD = {"customer_id": "c", "action": "add", "service_id": "tv_b", "devices_ids": ["1"]}
REMOVED = (
    "manage_service",
    REMOVE,
    "Success: Removed service 'Plan tv_a' from customer c. Devices ['Box'] are now no longer associated "
    "with the service.",
)
ADDED = ("manage_service", ADD, "Success: Added service 'Plan tv_b' to customer c")
TICKET = {"customer_id": "c", "category": "tv", "priority": "high"}
OPENED = ("create_support_ticket", TICKET, "Success: Created support ticket TICKET003 for customer c")
CLOSED = (
    "modify_support_ticket",
    {"ticket_id": "TICKET003", "status": "closed", "priority": "high"},
    "Success",
)
PAY = {"customer_id": "c", "amount": 1185.5, "method": "credit_card", "date": "2025-09-18"}
BILL = {"customer_id": "c", "paperless": True, "auto_pay": True, "billing_cycle": "monthly"}
CHANGE = {"ticket_id": "TICKET003", "status": "open", "priority": "high"}
DEVICE = {"customer_id": "c", "device_name": "Box"}

VERDICTS = [
    ("billing.cycle", [], "manage_billing", BILL, "kept"),
    ("billing.cycle", [], "manage_billing", {**BILL, "billing_cycle": "weekly"}, "violated"),
    ("payment.method", [], "record_payment", PAY, "kept"),
    ("payment.method", [], "record_payment", {**PAY, "method": "cash"}, "violated"),
    ("payment.date", [], "record_payment", PAY, "kept"),
    ("payment.date", [], "record_payment", {**PAY, "date": "2025-09-31"}, "violated"),
    ("payment.date", [], "record_payment", {**PAY, "date": "today"}, "violated"),
    ("device.issue", [], "troubleshoot_device", {"device_name": "Box", "issue": "no_service"}, "kept"),
    ("device.issue", [], "troubleshoot_device", {"device_name": "Box", "issue": "broken"}, "violated"),
    ("device.in_catalogue", [], "add_device", DEVICE, "kept"),
    (
        "device.in_catalogue",
        [("get_device_details", {"device_name": "Box"}, "Error: Device not found: Box")],
        "add_device",
        DEVICE,
        "violated",
    ),
    (
        "device.in_catalogue",
        [("get_device_details", {"device_name": "Bax"}, "Error: Device not found: Bax")],
        "add_device",
        DEVICE,
        "kept",
    ),
    ("service.action", [], "manage_service", REMOVE, "kept"),
    ("service.action", [], "manage_service", {**REMOVE, "action": "suspend"}, "violated"),
    ("service.offered", [OFFERED], "manage_service", ADD, "kept"),
    ("service.offered", [], "manage_service", ADD, "kept"),
    ("service.offered", [OFFERED], "manage_service", {**ADD, "service_id": "tv_c"}, "violated"),
    ("service.offered", [OFFERED], "manage_service", {**REMOVE, "service_id": "tv_c"}, "kept"),
    (
        "service.offered",
        [("get_service_details", {"service_id": "tv_b"}, "Error: Service not found: tv_b")],
        "manage_service",
        ADD,
        "violated",
    ),
    ("service.held", [], "manage_service", REMOVE, "unknown"),
    ("service.held", [], "manage_service", {"customer_id": "c", "action": "list"}, "kept"),
    ("service.held", [PROFILE], "manage_service", REMOVE, "kept"),
    ("service.held", [PROFILE], "manage_service", {**REMOVE, "service_id": "tv_b"}, "violated"),
    ("service.held", [PROFILE], "manage_service", {**ADD, "service_id": "tv_a"}, "violated"),
    ("service.held", [PROFILE, REMOVED], "manage_service", REMOVE, "violated"),
    ("service.devices_own", [], "manage_service", ADD, "unknown"),
    ("service.devices_own", [], "manage_service", REMOVE, "kept"),
    ("service.devices_own", [PROFILE], "manage_service", ADD, "kept"),
    ("service.devices_own", [PROFILE], "manage_service", {**ADD, "devices_ids": ["1", "3"]}, "violated"),
    ("switch.old_first", [OFFERED, PROFILE], "manage_service", REMOVE, "kept"),
    ("switch.old_first", [OFFERED, PROFILE, ADDED], "manage_service", REMOVE, "violated"),
    ("switch.old_first", [PROFILE, ADDED], "manage_service", REMOVE, "unknown"),
    ("switch.keeps_devices", [OFFERED, PROFILE], "manage_service", ADD, "kept"),
    ("switch.keeps_devices", [OFFERED, PROFILE, REMOVED], "manage_service", ADD, "kept"),
    (
        "switch.keeps_devices",
        [OFFERED, PROFILE, REMOVED],
        "manage_service",
        {**ADD, "devices_ids": ["2"]},
        "violated",
    ),
    ("switch.keeps_devices", [PROFILE, REMOVED], "manage_service", ADD, "unknown"),
    # The device has gone over to tv_b already, so another service does not have to take it.
    (
        "switch.keeps_devices",
        [OFFERED, ALSO_OFFERED, PROFILE, REMOVED, ADDED],
        "manage_service",
        {"customer_id": "c", "action": "add", "service_id": "tv_d"},
        "kept",
    ),
    ("ticket.category", [], "create_support_ticket", TICKET, "kept"),
    ("ticket.category", [], "create_support_ticket", {**TICKET, "category": "refund"}, "violated"),
    ("ticket.priority_values", [], "create_support_ticket", {"customer_id": "c", "category": "tv"}, "kept"),
    ("ticket.priority_values", [], "modify_support_ticket", {**CHANGE, "priority": "top"}, "violated"),
    ("ticket.status_values", [], "modify_support_ticket", CHANGE, "kept"),
    ("ticket.status_values", [], "modify_support_ticket", {**CHANGE, "status": "solved"}, "violated"),
    ("ticket.one_per_issue", [], "create_support_ticket", TICKET, "kept"),
    ("ticket.one_per_issue", [OPENED], "create_support_ticket", TICKET, "violated"),
    ("ticket.one_per_issue", [OPENED], "create_support_ticket", {**TICKET, "category": "billing"}, "kept"),
    ("ticket.one_per_issue", [OPENED, CLOSED], "create_support_ticket", TICKET, "kept"),
    ("ticket.one_per_issue", [OPENED], "create_support_ticket", {**TICKET, "customer_id": "d"}, "kept"),
    ("auth.by_lookup", [], "get_customer_details", {"customer_id": "c"}, "violated"),
    ("auth.by_lookup", [FOUND], "get_customer_details", {"customer_id": "c"}, "kept"),
    ("auth.by_lookup", [FOUND], "get_billing_details", {"customer_id": "d"}, "violated"),
    ("auth.by_lookup", [FOUND], "modify_support_ticket", CHANGE, "kept"),
    ("auth.by_lookup", [], "modify_support_ticket", CHANGE, "violated"),
    ("auth.id_read_back", [FOUND], "record_payment", PAY, "violated"),
    ("auth.id_read_back", [FOUND, "assistant: Your customer id is c."], "record_payment", PAY, "kept"),
    ("auth.id_read_back", [], "record_payment", PAY, "kept"),
    ("format.two_decimals", [], None, {"content": "It is $35.00, or $1,234.50."}, "kept"),
    ("format.two_decimals", [], None, {"content": "It is $35."}, "violated"),
    ("format.two_decimals", [], None, {"content": "It is $35.5 a month"}, "violated"),
    ("format.two_decimals", [], None, {"content": "It is $1,235, and $2.00"}, "violated"),
    ("format.two_decimals", [], None, {"content": "You have 3 devices."}, "kept"),
    ("confirm.listed", [], "manage_service", {"customer_id": "c", "action": "list"}, "kept"),
]
PROPOSALS = [
    ("manage_service", REMOVE, "I will remove tv_a from c.", "I will remove your TV plan."),
    ("manage_service", ADD, "I will add Plan tv_b with device 1.", "I will add it."),
    ("add_device", DEVICE, "I will add the device box to c.", "I will add the device."),
    ("record_payment", PAY, "I will book $1,185.50 by credit card.", "I will book $1,100.00 by credit card."),
    ("modify_support_ticket", CHANGE, "TICKET003 will be open and high.", "Your ticket will be high."),
    ("create_support_ticket", TICKET, "I will open a high TV ticket for c.", "I will look into your TV."),
    ("manage_billing", BILL, "Paperless, auto-pay and monthly, right?", "I will set it up."),
]


def verdicts(telecom, events, tool, arguments) -> dict[str, str]:
    """Verdicts by clause after the given calls and messages."""
    known = KnownWorld(telecom)
    for step, event in enumerate(events):
        if isinstance(event, str):
            role, text = event.split(": ", 1)
            known.see_message(step, role, text)
        else:
            called, given, result = event
            known.see_result(step, called, given, result, result.startswith("Error"))
    findings = check_known(known, tool, arguments)
    known.close()
    assert [finding for finding in findings if finding.problem] == []
    return {finding.clause: finding.verdict for finding in findings}


@pytest.mark.parametrize(("clause", "events", "tool", "arguments", "verdict"), VERDICTS)
def test_verdicts(telecom, clause, events, tool, arguments, verdict):
    assert verdicts(telecom, events, tool, arguments)[clause] == verdict


@pytest.mark.parametrize(("tool", "arguments", "named", "unnamed"), PROPOSALS)
def test_a_change_was_listed_if_it_was_named_before_the_customer_answered(
    telecom, tool, arguments, named, unnamed
):
    start = ["user: I am c, please help."]
    for events, verdict in [
        ([], "violated"),
        ([f"assistant: {unnamed}", "user: yes"], "violated"),
        ([f"assistant: {named}"], "violated"),
        ([f"assistant: {named}", "user: yes"], "kept"),
    ]:
        assert verdicts(telecom, [*start, OFFERED, *events], tool, arguments)["confirm.listed"] == verdict


def test_every_executable_clause_is_seen_kept_and_violated_and_unknown_if_it_needs_facts(telecom):
    seen = {(clause, verdict) for clause, *_, verdict in VERDICTS} | {("confirm.listed", "violated")}
    executable = [clause for clause in telecom.policies if clause.violated_when is not None]
    wanted = {(clause.id, verdict) for clause in executable for verdict in ("kept", "violated")}
    assert seen == wanted | {(clause.id, "unknown") for clause in executable if clause.needs is not None}


def test_a_verdict_cites_what_it_read_and_the_step_that_showed_it(telecom):
    known = KnownWorld(telecom)
    known.see_result(4, *PROFILE, False)
    findings = {finding.clause: finding for finding in check_known(known, "manage_service", REMOVE)}
    known.close()
    assert [
        (cell.table, cell.key, cell.column, cell.step)
        for cell in findings["service.held"].cells
        if cell.column == "services"
    ] == [("customers", "c", "services", 4)]


def test_the_true_world_knows_what_the_known_one_does_not(telecom, world):
    row = one(
        world, "SELECT ticket_id, customer_id, category FROM support_tickets WHERE status = 'open' LIMIT 1"
    )
    call = {"customer_id": row["customer_id"], "category": row["category"]}
    true = {f.clause: f.verdict for f in check_true(world.world, telecom, "create_support_ticket", call)}
    assert true["ticket.one_per_issue"] == "violated"
    assert verdicts(telecom, [], "create_support_ticket", call)["ticket.one_per_issue"] == "kept"


# Recorded changes that break a clause, found by reading the runs: (trait, task, step, clause).
KNOWN_BREACHES = {
    ("none", "13", 6, "auth.id_read_back"),
    ("impatience", "0", 20, "service.action"),
    ("impatience", "0", 28, "ticket.one_per_issue"),
}


def test_recorded_runs_break_no_clause_but_those_that_reading_them_shows(telecom, tau_files):
    broken = set()
    for file in (file for file in tau_files if file.parent.name == "telecom"):
        for run in read_files([file], "telecom"):
            known = KnownWorld(telecom)
            for step, message in enumerate(run.messages):
                if message.role == "assistant":
                    made = [(c.name, c.arguments or {}) for c in message.calls] or [
                        (None, {"content": message.content})
                    ]
                    for tool, arguments in made:
                        broken |= {
                            (file.name.split(".")[2], run.task_id, step, finding.clause)
                            for finding in check_known(known, tool, arguments)
                            if finding.verdict == "violated" or finding.problem
                        }
                if message.role in ("assistant", "user") and message.content:
                    known.see_message(step, message.role, message.content)
                if message.answers is not None:
                    at, position = message.answers
                    call = run.messages[at].calls[position]
                    failed = message.content.startswith("Error")
                    known.see_result(step, call.name, call.arguments or {}, message.content, failed)
            known.close()
    assert broken == KNOWN_BREACHES
