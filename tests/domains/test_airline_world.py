"""The airline pack runs: results and refusals are the benchmark's, and SQL judges what it can judge."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from castline.engine.trajectories import read_files
from castline.engine.world import Environment, KnownWorld, build, check_known, check_true, replay
from castline.specs import load_domain

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CASTLINE_SHARED", ROOT.parent / "shared"))
AIRLINE = SHARED / "data" / "airline"

needs_benchmark = pytest.mark.skipif(
    not AIRLINE.is_dir(),
    reason=f"tau-bench's airline files are not in {AIRLINE} (CASTLINE_SHARED names the folder)",
)

ANA, REX, IDA, GIL = "ana_berg_0001", "rex_lund_0002", "ida_moss_0003", "gil_roe_0004"


def open_for(basic: int, economy: int, business: int, seats: int = 5) -> dict[str, Any]:
    cabins = ("basic_economy", "economy", "business")
    prices = dict(zip(cabins, (basic, economy, business), strict=True))
    return {"status": "available", "available_seats": dict.fromkeys(cabins, seats), "prices": prices}


def flight(
    number: str, origin: str, destination: str, leaves: str, arrives: str, **dates: Any
) -> dict[str, Any]:
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": leaves,
        "scheduled_arrival_time_est": arrives,
        "dates": {f"2024-05-{day.removeprefix('d')}": state for day, state in dates.items()},
    }


LANDED, CANCELLED, DELAYED = {"status": "landed"}, {"status": "cancelled"}, {"status": "delayed"}
FLIGHTS = [
    flight(
        "HAT001",
        "DEN",
        "BOS",
        "08:00:00",
        "12:00:00",
        d14=LANDED,
        d15=LANDED,
        d20=open_for(60, 120, 300),
        d21=CANCELLED,
        d22=open_for(70, 130, 310),
    ),
    flight("HAT002", "BOS", "DEN", "16:00:00", "20:00:00", d15=DELAYED, d23=open_for(65, 125, 305, seats=1)),
    flight("HAT003", "DEN", "JFK", "06:00:00", "09:00:00", d20=open_for(50, 100, 200)),
    flight(
        "HAT004", "JFK", "BOS", "08:30:00", "10:00:00", d20=open_for(51, 101, 201), d21=open_for(52, 102, 202)
    ),
    flight("HAT005", "JFK", "BOS", "11:00:00", "13:00:00", d20=open_for(53, 103, 203)),
    flight("HAT006", "DEN", "JFK", "22:00:00", "01:00:00+1", d20=open_for(54, 104, 204)),
]


def method(kind: str, number: int, amount: int | None = None) -> dict[str, Any]:
    told = {"brand": "visa", "last_four": "1234"} if amount is None else {"amount": amount}
    return {"source": kind, **told, "id": f"{kind}_{number}"}


def profile(membership: str, reservations: list[str], *methods: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": {"first_name": "A", "last_name": "B"},
        "payment_methods": {each["id"]: each for each in methods},
        "saved_passengers": [],
        "membership": membership,
        "reservations": reservations,
    }


CARDS = [method("credit_card", 1), method("credit_card", 2)]
GIFTS = [method("gift_card", n, 30) for n in (1, 2, 3, 4)]
CERTIFICATES = [method("certificate", 1, 150), method("certificate", 2, 50)]
USERS = {
    ANA: profile("silver", ["OLDECO", "BASICS", "FRESH1", "BUSIN1", "FLOWN1"], *CARDS, *GIFTS, *CERTIFICATES),
    REX: profile("regular", ["REGUL1", "AIROFF"], method("credit_card", 9)),
    IDA: profile("regular", ["INSUR1"], method("credit_card", 8)),
    GIL: profile("gold", ["GOLDEN"], method("credit_card", 7)),
}


def reservation(
    name: str, user: str, cabin: str, *segments: tuple[str, str, int], **other: Any
) -> dict[str, Any]:
    routes = {each["flight_number"]: (each["origin"], each["destination"]) for each in FLIGHTS}
    return {
        "reservation_id": name,
        "user_id": user,
        "origin": "DEN",
        "destination": "BOS",
        "flight_type": "one_way",
        "cabin": cabin,
        "flights": [
            {
                "origin": routes[n][0],
                "destination": routes[n][1],
                "flight_number": n,
                "date": date,
                "price": price,
            }
            for n, date, price in segments
        ],
        "passengers": [person("Ana"), person("Ben")],
        "payment_history": [{"payment_id": "credit_card_1", "amount": 200}],
        "created_at": "2024-05-02T10:00:00",
        "total_baggages": 4,
        "nonfree_baggages": 0,
        "insurance": "no",
        **other,
    }


def person(first: str) -> dict[str, str]:
    return {"first_name": first, "last_name": "Berg", "dob": "1980-02-03"}


ON_20, ON_22 = "2024-05-20", "2024-05-22"
RESERVATIONS = [
    reservation("OLDECO", ANA, "economy", ("HAT001", ON_20, 100)),
    reservation("BASICS", ANA, "basic_economy", ("HAT001", ON_20, 55)),
    reservation("FRESH1", ANA, "economy", ("HAT001", ON_20, 100), created_at="2024-05-14T16:00:00"),
    reservation("GOLDEN", GIL, "business", ("HAT001", ON_20, 250)),
    reservation("BUSIN1", ANA, "business", ("HAT001", ON_20, 250)),
    reservation("FLOWN1", ANA, "business", ("HAT001", "2024-05-14", 250)),
    reservation(
        "REGUL1", REX, "economy", ("HAT001", ON_20, 100), passengers=[person("Rex")], total_baggages=1
    ),
    reservation("AIROFF", REX, "economy", ("HAT001", "2024-05-21", 100), passengers=[person("Rex")]),
    reservation(
        "INSUR1",
        IDA,
        "economy",
        ("HAT002", "2024-05-15", 100),
        insurance="yes",
        origin="BOS",
        destination="DEN",
    ),
]


@pytest.fixture(scope="module")
def airline():
    return load_domain(ROOT / "domains" / "airline")


@pytest.fixture(scope="module")
def image(airline, tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    for name, rows in (("flights", FLIGHTS), ("users", USERS), ("reservations", RESERVATIONS)):
        (folder / f"{name}.json").write_text(json.dumps(rows))
    return build(airline, directories=[folder])


@pytest.fixture
def world(airline, image):
    environment = Environment(airline, image)
    yield environment
    environment.close()


def booking(**changes: Any) -> dict[str, Any]:
    return {
        "user_id": ANA,
        "origin": "DEN",
        "destination": "BOS",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [{"flight_number": "HAT001", "date": ON_20}],
        "passengers": [person("Ana"), person("Ben")],
        "payment_methods": [{"payment_id": "credit_card_1", "amount": 240}],
        "total_baggages": 4,
        "nonfree_baggages": 0,
        "insurance": "no",
        **changes,
    }


def paid(*parts: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"payment_id": name, "amount": amount} for name, amount in parts]


def change(**changes: Any) -> dict[str, Any]:
    return {
        "reservation_id": "OLDECO",
        "cabin": "economy",
        "flights": [{"flight_number": "HAT001", "date": ON_22}],
        "payment_id": "credit_card_1",
        **changes,
    }


def bags(total: int, nonfree: int, payment: str = "credit_card_1", name: str = "OLDECO") -> dict[str, Any]:
    return {
        "reservation_id": name,
        "total_baggages": total,
        "nonfree_baggages": nonfree,
        "payment_id": payment,
    }


def user(environment: Environment, name: str) -> dict[str, Any]:
    return json.loads(environment.step("get_user_details", {"user_id": name}).text)


def step(environment: Environment, tool: str, arguments: dict[str, Any]) -> Any:
    result = environment.step(tool, arguments)
    assert result.ok, result.text
    return json.loads(result.text)


ONE, TWO = {"flight_number": "HAT003", "date": ON_20}, {"flight_number": "HAT005", "date": ON_20}


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("book_reservation", booking(user_id="nobody"), "user not found"),
        (
            "book_reservation",
            booking(flights=[{"flight_number": "HAT999", "date": ON_20}]),
            "flight HAT999 not found",
        ),
        (
            "book_reservation",
            booking(flights=[ONE, {"flight_number": "HAT001", "date": "2024-06-01"}]),
            "flight HAT001 not found on date 2024-06-01",
        ),
        (
            "book_reservation",
            booking(flights=[{"flight_number": "HAT001", "date": "2024-05-21"}]),
            "flight HAT001 not available on date 2024-05-21",
        ),
        (
            "book_reservation",
            booking(flights=[{"flight_number": "HAT002", "date": "2024-05-23"}]),
            "not enough seats on flight HAT002",
        ),
        (
            "book_reservation",
            booking(payment_methods=paid(("gift_card_7", 1))),
            "payment method gift_card_7 not found",
        ),
        (
            "book_reservation",
            booking(payment_methods=paid(("gift_card_1", 31))),
            "not enough balance in payment method gift_card_1",
        ),
        (
            "book_reservation",
            booking(insurance="yes", nonfree_baggages=1, payment_methods=paid(("credit_card_1", 240.5))),
            "payment amount does not add up, total price is 350, but paid 240.5",
        ),
        ("cancel_reservation", {"reservation_id": "XXXXXX"}, "reservation not found"),
        ("get_reservation_details", {"reservation_id": "XXXXXX"}, "user not found"),
        ("get_user_details", {"user_id": "nobody"}, "user not found"),
        ("send_certificate", {"user_id": "nobody", "amount": 50}, "user not found"),
        ("update_reservation_baggages", bags(5, 1, "credit_card_9"), "payment method not found"),
        (
            "update_reservation_baggages",
            bags(5, 1, "certificate_1"),
            "certificate cannot be used to update reservation",
        ),
        ("update_reservation_baggages", bags(5, 1, "gift_card_1"), "gift card balance is not enough"),
        ("update_reservation_flights", change(reservation_id="XXXXXX"), "reservation not found"),
        (
            "update_reservation_flights",
            change(payment_id="certificate_1"),
            "certificate cannot be used to update reservation",
        ),
        ("update_reservation_flights", change(payment_id="gift_card_1"), "gift card balance is not enough"),
        (
            "update_reservation_passengers",
            {"reservation_id": "OLDECO", "passengers": [person("Ana")]},
            "number of passengers does not match",
        ),
        ("calculate", {"expression": "sum(1, 2)"}, "invalid characters in expression"),
    ],
)
def test_a_guard_answers_as_the_benchmark_does_and_changes_nothing(world, tool, arguments, error):
    before = world.hash()
    result = world.step(tool, arguments)
    assert (result.status, result.text) == ("guard", f"Error: {error}")
    assert world.hash() == before


def test_a_booking_is_priced_paid_and_entered_in_the_profile(world):
    payment = paid(("certificate_1", 140), ("gift_card_1", 30), ("credit_card_1", 296))
    arguments = booking(flights=[ONE, TWO], insurance="yes", payment_methods=payment)
    found = step(world, "book_reservation", arguments)
    assert found["reservation_id"] == "HATHAT" and found["created_at"] == "2024-05-15T15:00:00"
    assert [(leg["price"], leg["origin"], leg["destination"]) for leg in found["flights"]] == [
        (100, "DEN", "JFK"),
        (103, "JFK", "BOS"),
    ]
    ana = user(world, ANA)
    assert ana["reservations"][-1] == "HATHAT"
    assert "certificate_1" not in ana["payment_methods"] and "certificate_2" in ana["payment_methods"]
    assert ana["payment_methods"]["gift_card_1"]["amount"] == 0
    assert step(world, "book_reservation", booking())["reservation_id"] == "HATHAU"
    assert step(world, "book_reservation", booking())["reservation_id"] == "HATHAV"


def test_cancelling_books_every_payment_back(world):
    found = step(world, "cancel_reservation", {"reservation_id": "OLDECO"})
    assert found["status"] == "cancelled"
    assert found["payment_history"] == paid(("credit_card_1", 200), ("credit_card_1", -200))


def test_kept_flights_keep_their_price_and_the_cabin_is_not_recorded(world):
    both = [{"flight_number": "HAT001", "date": ON_20}]
    assert step(world, "update_reservation_flights", change(flights=both))["payment_history"] == paid(
        ("credit_card_1", 200)
    )
    found = step(world, "update_reservation_flights", change(flights=both, cabin="business"))
    assert found["cabin"] == "economy"
    assert found["flights"][0]["price"] == 300
    assert found["payment_history"][-1] == {"payment_id": "credit_card_1", "amount": 400}


def test_a_refund_of_a_change_raises_the_gift_card(world):
    arguments = change(reservation_id="BUSIN1", cabin="basic_economy", payment_id="gift_card_2")
    found = step(world, "update_reservation_flights", arguments)
    assert found["payment_history"][-1]["amount"] == 2 * (70 - 250)
    assert user(world, ANA)["payment_methods"]["gift_card_2"]["amount"] == 30 + 360


def test_searches_find_what_can_be_booked_and_connects(world):
    route = {"origin": "DEN", "destination": "BOS", "date": ON_20}
    (direct,) = step(world, "search_direct_flight", route)
    assert (
        direct["flight_number"] == "HAT001" and "dates" not in direct and direct["prices"]["economy"] == 120
    )
    assert step(world, "search_direct_flight", route | {"date": "2024-05-21"}) == []
    pairs = step(world, "search_onestop_flight", route)
    assert [[leg["flight_number"] for leg in pair] for pair in pairs] == [
        ["HAT003", "HAT005"],
        ["HAT006", "HAT004"],
    ]
    overnight = pairs[1][1]
    # What the benchmark shows for the second day are the first day's prices.
    assert (overnight["date"], overnight["prices"]["economy"]) == ("2024-05-21", 101)


def test_three_certificates_can_be_sent(world):
    texts = [world.step("send_certificate", {"user_id": REX, "amount": 50}) for _ in range(4)]
    assert texts[0].text == f"Certificate certificate_3221322 added to user {REX} with amount 50."
    assert [result.ok for result in texts] == [True, True, True, False]
    assert user(world, REX)["payment_methods"]["certificate_3221324"]["amount"] == 50


def test_sums_are_worked_out_to_the_cent(world):
    assert world.step("calculate", {"expression": "2 * (10 / 3)"}).text == "6.67"
    assert world.step("calculate", {"expression": "3 + 4"}).text == "7.0"


KEPT, VIOLATED, UNKNOWN = "kept", "violated", "unknown"

Call = tuple[str, dict[str, Any]]


def cancel(name: str) -> Call:
    return "cancel_reservation", {"reservation_id": name}


def book(**changes: Any) -> Call:
    return "book_reservation", booking(**changes)


def fly(**changes: Any) -> Call:
    return "update_reservation_flights", change(**changes)


def pack(total: int, nonfree: int, name: str = "OLDECO") -> Call:
    return "update_reservation_baggages", bags(total, nonfree, name=name)


def rename(*people: dict[str, str]) -> Call:
    return "update_reservation_passengers", {"reservation_id": "OLDECO", "passengers": list(people)}


def send(user: str, amount: float) -> Call:
    return "send_certificate", {"user_id": user, "amount": amount}


def own(name: str) -> list[Call]:
    """The reads of a careful agent: the reservation, and its owner's profile."""
    owner = next(each["user_id"] for each in RESERVATIONS if each["reservation_id"] == name)
    return [("get_user_details", {"user_id": owner}), ("get_reservation_details", {"reservation_id": name})]


PROFILE = [("get_user_details", {"user_id": ANA})]
SEARCHED = [
    ("search_direct_flight", {"origin": "DEN", "destination": "BOS", "date": date}) for date in (ON_20, ON_22)
]
UPGRADE = (
    "update_reservation_flights",
    change(cabin="business", flights=[{"flight_number": "HAT001", "date": ON_20}]),
)
REX_READ = [("get_user_details", {"user_id": REX})] + [
    ("get_reservation_details", {"reservation_id": name}) for name in ("REGUL1", "AIROFF")
]
IDA_READ = own("INSUR1")
PAIR = [ONE, TWO]
BASIC = change(reservation_id="BASICS", cabin="basic_economy")
CANCELLED_BY_AIRLINE = "My flight was cancelled by the airline."

# Clause, what was read and said before, the call, the verdict on what is visible, the one on what is so.
CASES = [
    ("ids.user", own("OLDECO"), f"I am {ANA}.", cancel("OLDECO"), KEPT, KEPT),
    ("ids.user", own("OLDECO"), "Cancel OLDECO.", cancel("OLDECO"), VIOLATED, VIOLATED),
    ("ids.user", [], f"I am {ANA}.", cancel("OLDECO"), UNKNOWN, KEPT),
    ("ids.reservation", [], "OLDECO, please.", cancel("OLDECO"), KEPT, KEPT),
    ("ids.reservation", [], "My trip.", cancel("OLDECO"), VIOLATED, VIOLATED),
    ("rules.look_up", [], "", cancel("OLDECO"), VIOLATED, KEPT),
    ("rules.look_up", own("OLDECO"), "", cancel("OLDECO"), KEPT, KEPT),
    ("book.five_passengers", [], "", book(passengers=[person("A")] * 6), VIOLATED, VIOLATED),
    ("book.five_passengers", [], "", book(passengers=[person("A")] * 5), KEPT, KEPT),
    ("payment.in_profile", PROFILE, "", book(payment_methods=paid(("credit_card_9", 1))), VIOLATED, VIOLATED),
    ("payment.in_profile", PROFILE, "", book(), KEPT, KEPT),
    ("payment.in_profile", [], "", book(), UNKNOWN, KEPT),
    ("payment.in_profile", own("OLDECO"), "", fly(payment_id="paypal_1"), VIOLATED, VIOLATED),
    (
        "payment.one_certificate",
        PROFILE,
        "",
        book(payment_methods=paid(("certificate_1", 1), ("certificate_2", 1))),
        VIOLATED,
        VIOLATED,
    ),
    (
        "payment.one_certificate",
        PROFILE,
        "",
        book(payment_methods=paid(("certificate_1", 1), ("credit_card_2", 1))),
        KEPT,
        KEPT,
    ),
    ("payment.one_certificate", [], "", book(), UNKNOWN, KEPT),
    (
        "payment.one_credit_card",
        PROFILE,
        "",
        book(payment_methods=paid(("credit_card_1", 1), ("credit_card_2", 1))),
        VIOLATED,
        VIOLATED,
    ),
    ("payment.one_credit_card", PROFILE, "", book(), KEPT, KEPT),
    (
        "payment.three_gift_cards",
        PROFILE,
        "",
        book(payment_methods=paid(*((f"gift_card_{n}", 30) for n in (1, 2, 3, 4)))),
        VIOLATED,
        VIOLATED,
    ),
    (
        "payment.three_gift_cards",
        PROFILE,
        "",
        book(payment_methods=paid(*((f"gift_card_{n}", 30) for n in (1, 2, 3)))),
        KEPT,
        KEPT,
    ),
    ("baggage.allowance", PROFILE, "", book(total_baggages=5, nonfree_baggages=0), VIOLATED, VIOLATED),
    ("baggage.allowance", PROFILE, "", book(total_baggages=5, nonfree_baggages=1), KEPT, KEPT),
    ("baggage.allowance", [], "", book(), UNKNOWN, KEPT),
    ("baggage.allowance", own("BASICS"), "", pack(4, 0, name="BASICS"), VIOLATED, VIOLATED),
    ("baggage.allowance", own("BASICS"), "", pack(4, 2, name="BASICS"), KEPT, KEPT),
    ("baggage.allowance", [*own("OLDECO"), UPGRADE], "", pack(6, 0), KEPT, KEPT),
    ("baggage.allowance", own("GOLDEN"), "", pack(7, 0, name="GOLDEN"), VIOLATED, VIOLATED),
    ("baggage.allowance", own("GOLDEN"), "", pack(7, 1, name="GOLDEN"), KEPT, KEPT),
    ("baggage.only_added", own("OLDECO"), "", pack(3, 0), VIOLATED, VIOLATED),
    ("baggage.only_added", own("OLDECO"), "", pack(4, 0), KEPT, KEPT),
    ("baggage.only_added", own("OLDECO"), "", pack(5, 1), KEPT, KEPT),
    ("baggage.only_added", [], "", pack(3, 0), UNKNOWN, VIOLATED),
    ("insurance.asked", [], "Book it.", book(), VIOLATED, VIOLATED),
    ("insurance.asked", [], "Book it, without insurance.", book(), KEPT, KEPT),
    ("flights.available", SEARCHED, "", book(), KEPT, KEPT),
    ("flights.available", [], "", book(), UNKNOWN, KEPT),
    (
        "flights.available",
        [],
        "",
        book(flights=[{"flight_number": "HAT001", "date": "2024-05-21"}]),
        UNKNOWN,
        VIOLATED,
    ),
    ("flights.available", own("OLDECO"), "", UPGRADE, KEPT, KEPT),
    ("flights.basic_economy", own("BASICS"), "", ("update_reservation_flights", BASIC), VIOLATED, VIOLATED),
    (
        "flights.basic_economy",
        own("BASICS"),
        "",
        ("update_reservation_flights", BASIC | {"cabin": "economy", "flights": UPGRADE[1]["flights"]}),
        KEPT,
        KEPT,
    ),
    (
        "flights.basic_economy",
        [*own("BASICS"), ("update_reservation_flights", UPGRADE[1] | {"reservation_id": "BASICS"})],
        "",
        ("update_reservation_flights", BASIC | {"cabin": "business"}),
        KEPT,
        KEPT,
    ),
    ("flights.basic_economy", [], "", ("update_reservation_flights", BASIC), UNKNOWN, VIOLATED),
    ("flights.same_route", [*own("OLDECO"), *SEARCHED], "", fly(), KEPT, KEPT),
    (
        "flights.same_route",
        [*own("OLDECO"), ("search_onestop_flight", {"origin": "DEN", "destination": "BOS", "date": ON_20})],
        "",
        fly(flights=PAIR),
        KEPT,
        KEPT,
    ),
    (
        "flights.same_route",
        [*own("OLDECO"), ("search_direct_flight", {"origin": "DEN", "destination": "JFK", "date": ON_20})],
        "",
        fly(flights=[ONE]),
        VIOLATED,
        VIOLATED,
    ),
    ("flights.same_route", own("OLDECO"), "", fly(flights=[ONE]), UNKNOWN, VIOLATED),
    ("passengers.same_number", own("OLDECO"), "", rename(person("A")), VIOLATED, VIOLATED),
    ("passengers.same_number", own("OLDECO"), "", rename(person("A"), person("B")), KEPT, KEPT),
    ("passengers.same_number", [], "", rename(), UNKNOWN, VIOLATED),
    ("change.payment_source", own("OLDECO"), "", fly(payment_id="certificate_1"), VIOLATED, VIOLATED),
    ("change.payment_source", own("OLDECO"), "", fly(payment_id="gift_card_1"), KEPT, KEPT),
    ("change.payment_source", [], "", fly(), UNKNOWN, KEPT),
    ("cancel.eligible", own("OLDECO"), "My plans changed.", cancel("OLDECO"), VIOLATED, VIOLATED),
    ("cancel.eligible", own("FRESH1"), "", cancel("FRESH1"), KEPT, KEPT),
    ("cancel.eligible", own("BUSIN1"), "", cancel("BUSIN1"), KEPT, KEPT),
    ("cancel.eligible", own("INSUR1"), "", cancel("INSUR1"), KEPT, KEPT),
    ("cancel.eligible", own("AIROFF"), CANCELLED_BY_AIRLINE, cancel("AIROFF"), UNKNOWN, KEPT),
    ("cancel.eligible", own("OLDECO"), CANCELLED_BY_AIRLINE, cancel("OLDECO"), UNKNOWN, VIOLATED),
    (
        "cancel.eligible",
        [*own("OLDECO"), *SEARCHED],
        CANCELLED_BY_AIRLINE,
        cancel("OLDECO"),
        VIOLATED,
        VIOLATED,
    ),
    ("cancel.eligible", [*own("OLDECO"), UPGRADE], "", cancel("OLDECO"), KEPT, KEPT),
    ("cancel.eligible", [], "", cancel("OLDECO"), UNKNOWN, VIOLATED),
    ("cancel.not_flown", own("FLOWN1"), "", cancel("FLOWN1"), VIOLATED, VIOLATED),
    ("cancel.not_flown", own("BUSIN1"), "", cancel("BUSIN1"), KEPT, KEPT),
    ("cancel.not_flown", own("INSUR1"), "", cancel("INSUR1"), UNKNOWN, KEPT),
    ("compensation.entitled", REX_READ, "", send(REX, 100), VIOLATED, VIOLATED),
    ("compensation.entitled", REX_READ[:2], "", send(REX, 100), UNKNOWN, VIOLATED),
    ("compensation.entitled", PROFILE, "", send(ANA, 100), KEPT, KEPT),
    ("compensation.entitled", IDA_READ, "", send(IDA, 100), KEPT, KEPT),
    ("compensation.amount", REX_READ, "", send(REX, 100), KEPT, KEPT),
    ("compensation.amount", REX_READ, "", send(REX, 50), KEPT, VIOLATED),
    ("compensation.amount", REX_READ, "", send(REX, 200), VIOLATED, VIOLATED),
    ("compensation.amount", IDA_READ, "", send(IDA, 100), KEPT, KEPT),
    ("compensation.amount", [], "", send(IDA, 100), UNKNOWN, KEPT),
]


class Talk:
    """A conversation whose messages and calls both worlds see."""

    def __init__(self, airline, world):
        self.airline, self.world, self.known, self.count = airline, world, KnownWorld(airline), 0

    def say(self, role: str, content: str) -> None:
        self.count += 1
        self.known.see_message(self.count, role, content)
        self.world.world.connection.execute(
            "INSERT INTO messages VALUES (?, ?, ?)", (self.count, role, content)
        )

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        self.count += 1
        result = self.world.step(tool, arguments)
        self.known.see_result(self.count, tool, arguments, result.text, not result.ok)
        row = (self.count, tool, json.dumps(arguments), result.text, int(not result.ok))
        self.world.world.connection.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", row)

    def verdicts(self, clause: str, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
        known = {found.clause: found for found in check_known(self.known, tool, arguments)}
        true = {found.clause: found for found in check_true(self.world.world, self.airline, tool, arguments)}
        assert [found for found in (*known.values(), *true.values()) if found.problem] == []
        return known[clause].verdict, true[clause].verdict


@pytest.fixture
def talk(airline, world):
    found = Talk(airline, world)
    yield found
    found.known.close()


@pytest.mark.parametrize(("clause", "reads", "said", "call", "known", "true"), CASES)
def test_a_clause_is_judged_by_what_is_visible_and_by_what_is_so(
    talk, clause, reads, said, call, known, true
):
    talk.say("user", said)
    for read in reads:
        talk.call(*read)
    assert talk.verdicts(clause, *call) == (known, true)


def test_every_clause_with_sql_is_shown_kept_and_violated(airline):
    shown = {
        clause: {case[5] for case in CASES if case[0] == clause} for clause in {case[0] for case in CASES}
    }
    for clause in airline.policies:
        if clause.violated_when is None or clause.id == "confirm.before_change":
            continue
        if clause.id == "rules.look_up":
            # Whatever there is has a record in the true world: only in the known one can it be missing.
            continue
        assert shown[clause.id] == {"kept", "violated"}, clause.id


PROPOSAL = "I will cancel reservation BUSIN1 and refund 200 dollars. Do you confirm?"


@pytest.mark.parametrize(
    ("messages", "verdict"),
    [
        ([], "violated"),
        (["My id is x.", "May I have the reservation id?", "BUSIN1"], "violated"),
        (["Cancel BUSIN1.", PROPOSAL, "Yes, please."], "kept"),
        (["Cancel BUSIN1.", PROPOSAL, "No, leave it."], "violated"),
        (["Cancel BUSIN1.", PROPOSAL, "No problem, yes."], "kept"),
        (["Cancel BUSIN1.", PROPOSAL], "violated"),
    ],
)
def test_a_change_needs_a_question_and_no_refusal(talk, messages, verdict):
    for number, message in enumerate(messages):
        talk.say("assistant" if number % 2 else "user", message)
    assert talk.verdicts("confirm.before_change", "cancel_reservation", {"reservation_id": "BUSIN1"}) == (
        verdict,
        verdict,
    )


def test_one_yes_does_not_cover_a_change_that_was_not_put_to_the_customer(talk):
    for role, message in (("user", "Cancel."), ("assistant", PROPOSAL), ("user", "Yes.")):
        talk.say(role, message)
    talk.call(*cancel("BUSIN1"))
    assert (
        talk.verdicts("confirm.before_change", "cancel_reservation", {"reservation_id": "FRESH1"})[0]
        == "violated"
    )
    assert talk.verdicts("confirm.before_change", "update_reservation_baggages", bags(5, 1))[0] == "violated"


def test_a_verdict_cites_what_it_read_and_when_that_was_shown(talk):
    talk.call("get_reservation_details", {"reservation_id": "BASICS"})
    found = {f.clause: f for f in check_known(talk.known, "update_reservation_flights", BASIC)}
    cells = {(cell.table, cell.key, cell.column, cell.step) for cell in found["flights.basic_economy"].cells}
    assert ("reservations", "BASICS", "cabin", 1) in cells


def known_documents(known: KnownWorld, table: str, key: str) -> dict[str, Any]:
    return {
        name: json.loads(doc)
        for name, doc in known.world.connection.execute(f"SELECT {key}, doc FROM {table}")
    }


def test_what_results_reveal_is_what_is_so(talk):
    talk.call("get_user_details", {"user_id": ANA})
    for name in ("OLDECO", "BASICS", "BUSIN1"):
        talk.call("get_reservation_details", {"reservation_id": name})
    for tool in ("search_direct_flight", "search_onestop_flight"):
        talk.call(tool, {"origin": "DEN", "destination": "BOS", "date": ON_20})
    payment = paid(("certificate_1", 150), ("gift_card_1", 20), ("credit_card_1", 70))
    talk.call("book_reservation", booking(payment_methods=payment))
    talk.call(
        "update_reservation_flights",
        change(reservation_id="BUSIN1", cabin="economy", payment_id="gift_card_2"),
    )
    talk.call("update_reservation_flights", change(flights=UPGRADE[1]["flights"], payment_id="gift_card_3"))
    talk.call("update_reservation_baggages", bags(5, 1, "gift_card_2"))
    talk.call(
        "update_reservation_passengers",
        {"reservation_id": "BASICS", "passengers": [person("X"), person("Y")]},
    )
    talk.call("send_certificate", {"user_id": ANA, "amount": 50})
    talk.call(*cancel("BUSIN1"))
    for table, key in (("users", "user_id"), ("reservations", "reservation_id")):
        true = {
            n: json.loads(d)
            for n, d in talk.world.world.connection.execute(f"SELECT {key}, doc FROM {table}")
        }
        known = known_documents(talk.known, table, key)
        assert known and known == {name: true[name] for name in known}
    flights = known_documents(talk.known, "flights", "flight_number")
    assert set(flights) == {"HAT001", "HAT003", "HAT004", "HAT005", "HAT006"}
    true_flights = {each["flight_number"]: each for each in FLIGHTS}
    for number, seen in flights.items():
        for date, state in seen["dates"].items():
            assert state.items() <= true_flights[number]["dates"][date].items()
    assert flights["HAT004"]["dates"] == {"2024-05-21": {"status": "available"}}


def test_a_balance_is_unknown_after_a_charge_nobody_saw_the_price_of(talk):
    talk.call("get_user_details", {"user_id": ANA})
    talk.call("update_reservation_flights", change(flights=UPGRADE[1]["flights"], payment_id="gift_card_3"))
    methods = known_documents(talk.known, "users", "user_id")[ANA]["payment_methods"]
    assert "amount" not in methods["gift_card_3"] and methods["gift_card_4"]["amount"] == 30


@pytest.fixture(scope="module")
def generated(airline):
    return build(airline)


def rows(environment: Environment, table: str) -> list[dict[str, Any]]:
    return [json.loads(doc) for (doc,) in environment.world.connection.execute(f"SELECT doc FROM {table}")]


def test_the_same_seed_makes_the_same_world_and_another_scale_a_larger_one(airline, generated):
    assert build(airline).data == generated.data
    assert build(airline, seed=1).data != generated.data
    assert generated.counts == {"flights": 60, "users": 30, "reservations": 80}
    larger = build(airline, scale=3).counts
    assert larger["users"] == 90 and larger["reservations"] == 240 and larger["flights"] > 60


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_generated_world_holds_together(airline, seed):
    environment = Environment(airline, build(airline, seed=seed))
    flights = {each["flight_number"]: each for each in rows(environment, "flights")}
    users = dict(environment.world.connection.execute("SELECT user_id, doc FROM users"))
    assert all(len(each["dates"]) == 10 for each in flights.values())
    owned = {name: key for key, doc in users.items() for name in json.loads(doc)["reservations"]}
    booked = rows(environment, "reservations")
    assert owned == {each["reservation_id"]: each["user_id"] for each in booked}
    for each in booked:
        owner = json.loads(users[each["user_id"]])
        assert (
            each["created_at"][:10] < each["flights"][0]["date"] or each["created_at"] < "2024-05-15T15:00:00"
        )
        assert each["passengers"][0]["dob"] == owner["dob"]
        payment = each["payment_history"][0]
        assert payment["payment_id"] in owner["payment_methods"]
        people = len(each["passengers"])
        fare = sum(leg["price"] for leg in each["flights"]) + (30 if each["insurance"] == "yes" else 0)
        assert payment["amount"] == people * fare + 50 * each["nonfree_baggages"]
        for leg in each["flights"]:
            assert leg["date"] in flights[leg["flight_number"]]["dates"]
        # What was booked is what the policy allows.
        stay = [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in each["flights"]]
        arguments = {
            "reservation_id": each["reservation_id"],
            "cabin": each["cabin"],
            "flights": stay,
            "payment_id": "x",
        }
        found = check_true(environment.world, airline, "update_reservation_flights", arguments)
        verdicts = {finding.clause: finding.verdict for finding in found}
        assert verdicts["flights.same_route"] == verdicts["flights.basic_economy"] == "kept"
        arguments = bags(each["total_baggages"], each["nonfree_baggages"], "x", each["reservation_id"])
        found = check_true(environment.world, airline, "update_reservation_baggages", arguments)
        assert {finding.clause: finding.verdict for finding in found}["baggage.allowance"] == "kept"
    environment.close()


def test_a_generated_world_has_something_of_everything(airline, generated):
    environment = Environment(airline, generated)
    states = {day["status"] for each in rows(environment, "flights") for day in each["dates"].values()}
    assert states >= {"available", "cancelled", "landed", "delayed", "on time"}
    booked = rows(environment, "reservations")
    assert {each["cabin"] for each in booked} == {"basic_economy", "economy", "business"}
    assert {each["flight_type"] for each in booked} == {"one_way", "round_trip"}
    assert {len(each["passengers"]) for each in booked} == {1, 2, 3, 4}
    assert any(each["created_at"] > "2024-05-14T15:00:00" for each in booked)
    search = {"origin": "SFO", "destination": "JFK", "date": "2024-05-18"}
    assert step(environment, "search_direct_flight", search) and step(
        environment, "search_onestop_flight", search
    )
    environment.close()


@needs_benchmark
def test_recorded_tau_bench_runs_replay(airline):
    image = build(airline, directories=[AIRLINE / "db"])
    files = sorted(AIRLINE.glob("tau-bench.gpt*.json"))
    found = replay(airline, image, read_files(files, airline.name))
    assert found.calls and found.matched == found.calls
    assert found.evaluated and found.rewards_agree == found.evaluated
    # Addresses had a province then, which is a state now; each profile that was read shows it.
    assert found.renamed == found.tools["get_user_details"][0] > 0


@needs_benchmark
def test_without_the_former_name_of_a_field_only_profiles_differ(airline):
    image = build(airline, directories=[AIRLINE / "db"])
    runs = read_files(sorted(AIRLINE.glob("tau-bench.gpt*.json")), airline.name)
    unaware = airline.model_copy(update={"renamed": {}})
    found = replay(unaware, image, itertools.islice(runs, 15))
    assert found.renamed == 0
    assert {difference.tool for difference in found.differences} == {"get_user_details"}
    renamed = [d.recorded.replace('"province"', '"state"') for d in found.differences]
    assert [json.loads(text) for text in renamed] == [json.loads(d.replayed) for d in found.differences]
    assert found.rewards_agree == found.evaluated


@needs_benchmark
def test_recorded_tau_trait_runs_replay(airline):
    image = build(airline, directories=[AIRLINE / "db", AIRLINE / "db-tau-trait"])
    files = sorted(AIRLINE.glob("tau-trait.gpt*.json"))
    found = replay(airline, image, read_files(files, airline.name))
    assert found.calls and found.matched == found.calls
    assert found.evaluated and found.rewards_agree == found.evaluated
    # What the loader is told not to rely on is what fails here, or lies on dates without flights.
    assert set(found.quarantined) <= {task.task_id for task in airline.unreliable_tasks}
