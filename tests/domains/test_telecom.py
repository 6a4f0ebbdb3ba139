"""The telecom pack keeps tau-trait's interface and says all that its policy says, in other words."""

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
TELECOM = SHARED / "data" / "telecom"

needs_benchmark = pytest.mark.skipif(
    not TELECOM.is_dir(),
    reason=f"tau-trait's telecom files are not in {TELECOM} (CASTLINE_SHARED names the folder)",
)

# One row per line of the benchmark's policy that states anything: line number, its first words, and the
# clauses that carry it. What is background rather than rule is carried by the clause that relies on it.
POLICY_COVERAGE = [
    (3, "as a telecom", "scope.services"),
    (5, "before taking any", "confirm.listed confirm.agreed"),
    (7, "you should not", "facts.no_invention tone.no_opinion"),
    (9, "you should only", "turn.one_action"),
    (11, "you should deny", "refuse.against_rules"),
    (13, "you should transfer", "handover.only_outside"),
    (15, "when the user", "verify.read_out"),
    (17, "do not suggest", "offer.none_unasked"),
    (21, "each user has", "service.held service.devices_own"),
    (23, "each billing account", "billing.figures"),
    (25, "each device has", "device.in_catalogue"),
    (27, "each service has", "service.offered"),
    (
        29,
        "each support ticket",
        "ticket.status_values ticket.priority_values ticket.priority_fits ticket.one_per_issue",
    ),
    (33, "when adding a", "service.devices_asked service.devices_own"),
    (35, "when removing a", "service.remove_releases"),
    (37, "if the user", "switch.old_first switch.keeps_devices"),
    (41, "when authenticating a", "auth.by_lookup auth.id_read_back"),
    (44, "if output from", "format.verbatim"),
    (46, "all monetary amounts", "format.two_decimals"),
]

# Rules that the benchmark states in a tool's description and nowhere in its policy.
TOOL_COVERAGE = {
    "manage_service": "service.action",
    "create_support_ticket": "ticket.category",
    "manage_billing": "billing.cycle",
    "record_payment": "payment.method payment.date",
    "troubleshoot_device": "device.issue",
}

# What follows from the customer's own phone, which tau-trait does not have.
OWN = {"device.user_acts"}

CHANGES = {
    "manage_service": "write",
    "manage_billing": "write",
    "modify_support_ticket": "write",
    "create_support_ticket": "irreversible",
    "add_device": "irreversible",
    "record_payment": "irreversible",
}


@pytest.fixture(scope="module")
def telecom():
    return load_domain(ROOT / "domains" / "telecom")


@pytest.fixture(scope="module")
def benchmark_tools() -> dict[str, dict]:
    functions = [tool["function"] for tool in json.loads((TELECOM / "tau-trait.tools.json").read_text())]
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


def governing(domain, tool: str | None) -> set[str]:
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
def test_the_agents_tools_have_the_names_and_parameters_of_the_benchmark(telecom, benchmark_tools):
    ours = {t.name: without_descriptions(t.parameters) for t in telecom.tools if t.actor == "agent"}
    theirs = {name: without_descriptions(f["parameters"]) for name, f in benchmark_tools.items()}
    assert ours == theirs


def test_the_tools_that_change_something_are_declared_so(telecom):
    agents = [tool for tool in telecom.tools if tool.actor == "agent"]
    assert len(agents) == 18
    assert {t.name: t.effect for t in agents if t.effect in ("write", "irreversible")} == CHANGES
    assert {t.name for t in agents if t.effect == "none"} == {"think", "calculate", "get_senior_discount"}


@needs_benchmark
def test_every_statement_of_the_benchmark_policy_is_carried_by_a_clause(telecom):
    stated = {
        number: " ".join(words(line)[:3])
        for number, line in enumerate((TELECOM / "tau-trait.policy.md").read_text().splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    }
    assert {number: start for number, start, _ in POLICY_COVERAGE} == stated
    assert len(POLICY_COVERAGE) == len(stated)


def test_every_clause_carries_something_the_benchmark_says_or_the_phone_asks_for(telecom):
    carried = {clause for _, _, clauses in POLICY_COVERAGE for clause in clauses.split()}
    carried |= {clause for clauses in TOOL_COVERAGE.values() for clause in clauses.split()}
    assert {clause.id for clause in telecom.policies} == carried | OWN


def test_a_clause_taken_from_a_tool_description_governs_that_tool(telecom):
    for tool, clauses in TOOL_COVERAGE.items():
        assert set(clauses.split()) <= governing(telecom, tool)


def test_every_change_needs_an_identified_customer_who_agreed(telecom):
    for tool in CHANGES:
        assert {"auth.by_lookup", "confirm.listed", "confirm.agreed"} <= governing(telecom, tool)


def test_rules_for_the_agent_do_not_name_the_customers_own_tools(telecom):
    everywhere = {clause.id for clause in telecom.policies if clause.tools is None}
    for tool in telecom.tools:
        if tool.actor == "user":
            assert governing(telecom, tool.name) == everywhere


def test_each_clause_is_decided_by_sql_or_by_a_model(telecom):
    assert all(clause.judged == (clause.violated_when is None) for clause in telecom.policies)
    assert sum(not clause.judged for clause in telecom.policies) == 19


@needs_benchmark
def test_no_eight_words_in_a_row_are_those_of_the_benchmarks(telecom, benchmark_tools):
    theirs: set[str] = set()
    for file in TELECOM.glob("*.md"):
        theirs |= runs_of_words(file.read_text(), 8)
    for value in (benchmark_tools, json.loads((TELECOM / "tau2.user_tools.json").read_text())):
        for text in strings(value):
            theirs |= runs_of_words(text, 8)
    ours = [clause.text for clause in telecom.policies]
    ours += [tool.description for tool in telecom.tools]
    ours += [kind.text for kind in telecom.errors]
    ours += [text for tool in telecom.tools for text in strings(tool.parameters)]
    assert theirs
    assert [text for text in ours if runs_of_words(text, 8) & theirs] == []
