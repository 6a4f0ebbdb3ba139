"""The airline pack keeps tau-bench's interface and says all that its policy says, in other words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from castline.specs import load_domain

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CASTLINE_SHARED", ROOT.parent / "shared"))
AIRLINE = SHARED / "data" / "airline"

needs_benchmark = pytest.mark.skipif(
    not AIRLINE.is_dir(),
    reason=f"tau-bench's airline files are not in {AIRLINE} (CASTLINE_SHARED names the folder)",
)

# One row per line of the benchmark's policy that states anything: line number, its first words, and the
# clauses that carry it. What is background rather than rule is carried by the clause that relies on it.
POLICY_COVERAGE = [
    (3, "the current time", "time.now"),
    (5, "as an airline", "scope.services"),
    (7, "before taking any", "confirm.before_change"),
    (9, "you should not", "facts.no_invention tone.no_opinion"),
    (11, "you should only", "turn.one_action"),
    (13, "you should deny", "rules.refuse"),
    (15, "you should transfer", "handover.only_outside"),
    (19, "each user has", "ids.user payment.in_profile"),
    (21, "each reservation has", "ids.reservation flights.same_route"),
    (23, "each flight has", "flights.available"),
    (24, "if the status", "flights.available"),
    (25, "if the status", "flights.available"),
    (26, "if the status", "flights.available"),
    (30, "the agent must", "ids.user book.trip_asked"),
    (32, "passengers each reservation", "book.five_passengers book.passenger_details book.together"),
    (
        34,
        "payment each reservation",
        "payment.one_certificate payment.one_credit_card payment.three_gift_cards payment.certificate_rest "
        "payment.in_profile",
    ),
    (36, "checked bag allowance", "baggage.allowance baggage.fee"),
    (38, "travel insurance the", "insurance.asked insurance.terms"),
    (42, "the agent must", "ids.user ids.reservation"),
    (
        44,
        "change flights basic",
        "flights.basic_economy flights.same_route flights.kept_prices rules.look_up",
    ),
    (46, "change cabin all", "cabin.open_to_all cabin.difference cabin.whole_trip"),
    (48, "change baggage and", "baggage.only_added insurance.only_at_booking"),
    (50, "change passengers the", "passengers.same_number passengers.no_handover"),
    (52, "payment if the", "change.payment_source change.payment_asked"),
    (56, "the agent must", "ids.user ids.reservation cancel.reason"),
    (58, "all reservations can", "cancel.eligible cancel.insured_reason rules.look_up"),
    (60, "the agent can", "cancel.whole_trip cancel.not_flown cancel.flown_handover"),
    (62, "the refund will", "refund.timing"),
    (66, "if the user", "compensation.entitled compensation.amount compensation.facts_first"),
    (68, "if the user", "compensation.amount compensation.delayed_after_change compensation.facts_first"),
    (70, "do not proactively", "compensation.on_request compensation.entitled"),
]

GENERAL = {"facts.no_invention", "turn.one_action"}

CHANGES = {
    "book_reservation": "write",
    "update_reservation_flights": "write",
    "update_reservation_passengers": "write",
    "update_reservation_baggages": "irreversible",
    "cancel_reservation": "irreversible",
    "send_certificate": "irreversible",
}


@pytest.fixture(scope="module")
def airline():
    return load_domain(ROOT / "domains" / "airline")


@pytest.fixture(scope="module")
def benchmark_tools() -> dict[str, dict]:
    functions = [tool["function"] for tool in json.loads((AIRLINE / "tau-bench.tools.json").read_text())]
    return {function["name"]: function for function in functions}


def without_descriptions(schema: object) -> object:
    """A JSON Schema reduced to what a caller must match; being closed only makes it stricter."""
    if isinstance(schema, list):
        return [without_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_descriptions(part) for name, part in value.items()}
        if key == "properties"
        else without_descriptions(value)
        for key, value in schema.items()
        if key not in ("description", "additionalProperties")
    }


def governing(domain, tool: str) -> set[str]:
    return {clause.id for clause in domain.clauses_for(tool)}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def runs_of_words(text: str, length: int) -> set[str]:
    found = words(text)
    return {" ".join(found[start : start + length]) for start in range(len(found) - length + 1)}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


@needs_benchmark
def test_tools_have_the_names_and_parameters_of_the_benchmark(airline, benchmark_tools):
    assert {tool.name: without_descriptions(tool.parameters) for tool in airline.tools} == {
        name: without_descriptions(function["parameters"]) for name, function in benchmark_tools.items()
    }


def test_the_six_tools_that_change_something_are_declared_so(airline):
    effects = {tool.name: tool.effect for tool in airline.tools}
    assert {n: effect for n, effect in effects.items() if effect in ("write", "irreversible")} == CHANGES
    assert {name for name, effect in effects.items() if effect == "none"} == {
        "think",
        "calculate",
        "transfer_to_human_agents",
    }


@needs_benchmark
def test_every_statement_of_the_benchmark_policy_is_carried_by_a_clause(airline):
    stated = {
        number: " ".join(words(line)[:3])
        for number, line in enumerate((AIRLINE / "tau-bench.policy.md").read_text().splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    }
    assert {number: start for number, start, _ in POLICY_COVERAGE} == stated
    assert len(POLICY_COVERAGE) == len(stated)


def test_every_clause_carries_something_the_benchmark_says(airline):
    carried = {clause for _, _, clauses in POLICY_COVERAGE for clause in clauses.split()}
    assert {clause.id for clause in airline.policies} == carried


def test_the_policy_names_the_clock(airline):
    assert airline.clock == "2024-05-15 15:00:00"


def test_tools_without_a_clause_of_their_own_are_those_the_policy_says_nothing_special_about(airline):
    only_general = {tool.name for tool in airline.tools if governing(airline, tool.name) <= GENERAL}
    assert only_general == {
        "calculate",
        "get_reservation_details",
        "get_user_details",
        "list_all_airports",
        "think",
    }


def test_every_change_needs_agreement_and_every_change_of_a_trip_an_identified_customer(airline):
    for tool in CHANGES:
        assert {"confirm.before_change", "rules.refuse"} <= governing(airline, tool)
        if tool != "send_certificate":
            assert "ids.user" in governing(airline, tool)


def test_whatever_follows_from_records_or_was_never_said_is_found_by_sql(airline):
    assert {clause.id for clause in airline.policies if clause.violated_when} == {
        "confirm.before_change",
        "ids.user",
        "ids.reservation",
        "rules.look_up",
        "book.five_passengers",
        "payment.in_profile",
        "payment.one_certificate",
        "payment.one_credit_card",
        "payment.three_gift_cards",
        "baggage.allowance",
        "baggage.only_added",
        "insurance.asked",
        "flights.available",
        "flights.basic_economy",
        "flights.same_route",
        "passengers.same_number",
        "change.payment_source",
        "cancel.eligible",
        "cancel.not_flown",
        "compensation.entitled",
        "compensation.amount",
    }


@needs_benchmark
def test_no_eight_words_in_a_row_are_those_of_the_benchmark(airline, benchmark_tools):
    theirs: set[str] = set()
    for text in [(AIRLINE / "tau-bench.policy.md").read_text(), *strings(benchmark_tools)]:
        theirs |= runs_of_words(text, 8)
    ours = [clause.text for clause in airline.policies]
    ours += [tool.description for tool in airline.tools]
    ours += [text for tool in airline.tools for text in strings(tool.parameters)]
    ours += [text for tool in airline.tools if (s := tool.simulate) for text in (s.confirm, s.report) if text]
    assert theirs
    assert [text for text in ours if runs_of_words(text, 8) & theirs] == []
