"""The retail pack keeps tau-bench's interface and says all that its policy says, in other words."""

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
RETAIL = SHARED / "data" / "retail"

needs_benchmark = pytest.mark.skipif(
    not RETAIL.is_dir(),
    reason=f"tau-bench's retail files are not in {RETAIL} (CASTLINE_SHARED names the folder)",
)

# One row per line of the benchmark's policy that states anything: line number, its first words, and the
# clauses that carry it. `catalog.ids` and the tool schemas carry what is background rather than rule.
POLICY_COVERAGE = [
    (3, "as a retail", "scope.services"),
    (5, "at the beginning", "auth.first"),
    (7, "once the user", "auth.first scope.services"),
    (9, "you can only", "scope.one_customer"),
    (11, "before taking consequential", "confirm.before_change"),
    (13, "you should not", "facts.no_invention tone.no_opinion"),
    (15, "you should at", "turn.one_action"),
    (17, "you should transfer", "handover.only_outside"),
    (21, "all times in", "time.eastern"),
    (23, "each user has", "payment.on_profile"),
    (25, "our retail store", "catalog.ids"),
    (27, "each product has", "catalog.ids"),
    (
        29,
        "each order can",
        "cancel.only_pending modify.only_pending return.only_delivered exchange.only_delivered",
    ),
    (31, "exchange or modify", "items.once items.complete_list delivered.once"),
    (35, "an order can", "cancel.only_pending order.status_checked"),
    (37, "the user needs", "cancel.reason"),
    (39, "after user confirmation", "confirm.before_change outcome.status refund.timing"),
    (43, "an order can", "modify.only_pending order.status_checked"),
    (45, "for a pending", "modify.allowed_parts"),
    (49, "the user can", "payment.different"),
    (51, "if the user", "payment.gift_covers"),
    (53, "after user confirmation", "confirm.before_change outcome.status refund.timing"),
    (57, "this action can", "items.once outcome.status items.complete_list confirm.before_change"),
    (59, "for a pending", "items.same_product items.available"),
    (61, "the user must", "items.price_difference payment.gift_covers"),
    (65, "an order can", "return.only_delivered order.status_checked"),
    (67, "the user needs", "return.details"),
    (69, "the refund must", "return.refund_target"),
    (71, "after user confirmation", "confirm.before_change outcome.status outcome.shipping"),
    (75, "an order can", "exchange.only_delivered order.status_checked items.complete_list"),
    (77, "for a delivered", "items.same_product items.available"),
    (79, "the user must", "items.price_difference payment.gift_covers"),
    (81, "after user confirmation", "confirm.before_change outcome.status outcome.shipping"),
]

# Rules that the benchmark states in a tool's description and nowhere in its policy.
TOOL_COVERAGE = {
    "find_user_id_by_name_zip": "auth.email_before_name",
    "exchange_delivered_order_items": "items.paired items.in_order delivered.once",
    "modify_pending_order_items": "items.paired items.in_order",
    "return_delivered_order_items": "items.in_order delivered.once",
    "transfer_to_human_agents": "handover.only_outside",
}

GENERAL = {
    "auth.first",
    "scope.one_customer",
    "confirm.before_change",
    "facts.no_invention",
    "turn.one_action",
}

CHANGES = {
    "cancel_pending_order": "irreversible",
    "modify_pending_order_items": "irreversible",
    "return_delivered_order_items": "irreversible",
    "exchange_delivered_order_items": "irreversible",
    "modify_pending_order_address": "write",
    "modify_pending_order_payment": "write",
    "modify_user_address": "write",
}


@pytest.fixture(scope="module")
def retail():
    return load_domain(ROOT / "domains" / "retail")


@pytest.fixture(scope="module")
def benchmark_tools() -> dict[str, dict]:
    functions = [tool["function"] for tool in json.loads((RETAIL / "tau-bench.tools.json").read_text())]
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
def test_tools_have_the_names_and_parameters_of_the_benchmark(retail, benchmark_tools):
    assert {tool.name: without_descriptions(tool.parameters) for tool in retail.tools} == {
        name: without_descriptions(function["parameters"]) for name, function in benchmark_tools.items()
    }


def test_the_seven_tools_that_change_something_are_declared_so(retail):
    effects = {tool.name: tool.effect for tool in retail.tools}
    assert {
        name: effect for name, effect in effects.items() if effect in ("write", "irreversible")
    } == CHANGES
    assert {name for name, effect in effects.items() if effect == "none"} == {
        "think",
        "calculate",
        "transfer_to_human_agents",
    }


@needs_benchmark
def test_every_statement_of_the_benchmark_policy_is_carried_by_a_clause(retail):
    stated = {
        number: " ".join(words(line)[:3])
        for number, line in enumerate((RETAIL / "tau-bench.policy.md").read_text().splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    }
    assert {number: start for number, start, _ in POLICY_COVERAGE} == stated
    assert len(POLICY_COVERAGE) == len(stated)


def test_every_clause_carries_something_the_benchmark_says(retail):
    carried = {clause for _, _, clauses in POLICY_COVERAGE for clause in clauses.split()}
    carried |= {clause for clauses in TOOL_COVERAGE.values() for clause in clauses.split()}
    assert {clause.id for clause in retail.policies} == carried


def test_a_clause_taken_from_a_tool_description_governs_that_tool(retail):
    for tool, clauses in TOOL_COVERAGE.items():
        assert set(clauses.split()) <= governing(retail, tool)


def test_tools_without_a_clause_of_their_own_are_those_the_policy_says_nothing_special_about(retail):
    only_general = {tool.name for tool in retail.tools if governing(retail, tool.name) <= GENERAL}
    assert only_general == {
        "find_user_id_by_email",
        "get_user_details",
        "get_order_details",
        "modify_user_address",
        "think",
        "calculate",
    }


def test_every_change_needs_an_identified_customer_who_agreed(retail):
    for tool in CHANGES:
        assert {"auth.first", "scope.one_customer", "confirm.before_change"} <= governing(retail, tool)


@needs_benchmark
def test_no_eight_words_in_a_row_are_those_of_the_benchmark(retail, benchmark_tools):
    theirs: set[str] = set()
    for text in [(RETAIL / "tau-bench.policy.md").read_text(), *strings(benchmark_tools)]:
        theirs |= runs_of_words(text, 8)
    ours = [clause.text for clause in retail.policies]
    ours += [tool.description for tool in retail.tools]
    ours += [text for tool in retail.tools for text in strings(tool.parameters)]
    assert theirs
    assert [text for text in ours if runs_of_words(text, 8) & theirs] == []
