"""The telehealth pack keeps tau-trait's interface and says all that its policy says, in other words."""

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
TELEHEALTH = SHARED / "data" / "telehealth"

needs_benchmark = pytest.mark.skipif(
    not TELEHEALTH.is_dir(),
    reason=f"tau-trait's telehealth files are not in {TELEHEALTH} (CASTLINE_SHARED names the folder)",
)

# One row per line of the benchmark's policy that states anything: line number, its first words, and the
# clauses that carry it. What is background rather than rule is carried by the clause that relies on it.
POLICY_COVERAGE = [
    (3, "as a telehealth", "scope.services"),
    (5, "at the beginning", "auth.first"),
    (7, "once the patient", "auth.first scope.services"),
    (9, "you can only", "scope.one_patient scope.others_refused"),
    (
        11,
        "before taking consequential",
        "confirm.details confirm.answered confirm.proposed confirm.explicit_yes confirm.assent",
    ),
    (13, "you should not", "facts.no_invention medical.no_advice medical.no_opinion"),
    (15, "you should at", "turn.one_action"),
    (17, "you should transfer", "handover.only_outside"),
    (21, "all times in", "time.clock time.written"),
    (23, "each patient has", "facts.from_records"),
    (25, "healthcare providers have", "facts.from_records schedule.within_hours"),
    (27, "appointments can be", "cancel.only_open reschedule.only_open"),
    (29, "each appointment has", "booking.id_and_link"),
    (33, "patients must be", "auth.first auth.before_sharing"),
    (35, "authentication can be", "auth.first auth.as_stated auth.birth_date_form"),
    (37, "both methods must", "auth.exact"),
    (41, "patients can schedule", "schedule.within_hours schedule.slot_free"),
    (43, "check provider availability", "schedule.hours_read"),
    (45, "appointment types include", "schedule.type"),
    (47, "insurance copays are", "billing.copay"),
    (49, "each scheduled appointment", "booking.id_and_link"),
    (55, "appointments can only", "reschedule.only_open"),
    (57, "the new date", "reschedule.within_hours time.written"),
    (59, "check for conflicts", "reschedule.no_conflict"),
    (63, "appointments can be", "cancel.only_open"),
    (65, "cannot cancel completed", "cancel.only_open"),
    (67, "cancelled appointment slots", "cancel.slot_released"),
    (71, "providers have different", "facts.from_records"),
    (73, "each provider has", "schedule.within_hours"),
    (75, "consultation fees vary", "facts.from_records"),
    (77, "providers may speak", "facts.from_records"),
    (81, "primary care visits", "billing.copay"),
    (83, "insurance authorization codes", "billing.authorization"),
    (85, "copay amounts are", "billing.copay"),
    (89, "medical records contain", "facts.from_records"),
    (91, "only share medical", "privacy.own_data"),
    (93, "do not provide", "medical.no_advice medical.no_interpretation"),
    (97, "meeting links are", "booking.id_and_link"),
    (99, "if patients have", "handover.technical"),
    (101, "provide meeting links", "support.joining"),
]

# Rules that the benchmark states in a tool's description and nowhere in its policy.
TOOL_COVERAGE = {
    "schedule_appointment": "billing.as_agreed",
    "update_prescription_supplier": "supplier.from_catalogue supplier.on_record",
}

GENERAL = {"auth.first", "scope.one_patient", "facts.no_invention", "turn.one_action"}

CHANGES = {
    "schedule_appointment": "write",
    "reschedule_appointment": "write",
    "update_prescription_supplier": "write",
    "cancel_appointment": "irreversible",
    "update_medical_record_note": "irreversible",
}

EXECUTABLE = {
    "auth.first",
    "auth.as_stated",
    "auth.birth_date_form",
    "scope.one_patient",
    "confirm.answered",
    "confirm.proposed",
    "confirm.assent",
    "time.written",
    "schedule.hours_read",
    "schedule.within_hours",
    "schedule.slot_free",
    "schedule.type",
    "reschedule.only_open",
    "reschedule.within_hours",
    "reschedule.no_conflict",
    "cancel.only_open",
    "supplier.from_catalogue",
    "supplier.on_record",
}


@pytest.fixture(scope="module")
def telehealth():
    return load_domain(ROOT / "domains" / "telehealth")


@pytest.fixture(scope="module")
def benchmark_tools() -> dict[str, dict]:
    functions = [tool["function"] for tool in json.loads((TELEHEALTH / "tau-trait.tools.json").read_text())]
    return {function["name"]: function for function in functions}


def without_descriptions(schema: object) -> object:
    """A JSON Schema reduced to what a caller must match; being closed only makes it stricter, and an empty
    list of properties says nothing."""
    if isinstance(schema, list):
        return [without_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_descriptions(part) for name, part in value.items()}
        if key == "properties"
        else without_descriptions(value)
        for key, value in schema.items()
        if key not in ("description", "additionalProperties") and (key, value) != ("properties", {})
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
def test_tools_have_the_names_and_parameters_of_the_benchmark(telehealth, benchmark_tools):
    assert len(benchmark_tools) == 23
    assert {tool.name: without_descriptions(tool.parameters) for tool in telehealth.tools} == {
        name: without_descriptions(function["parameters"]) for name, function in benchmark_tools.items()
    }


def test_the_five_tools_that_change_something_are_declared_so(telehealth):
    effects = {tool.name: tool.effect for tool in telehealth.tools}
    assert {
        name: effect for name, effect in effects.items() if effect in ("write", "irreversible")
    } == CHANGES
    assert {name for name, effect in effects.items() if effect == "none"} == {
        "think",
        "calculate",
        "transfer_to_human_support",
    }


def test_every_tool_can_be_performed(telehealth):
    assert [tool.name for tool in telehealth.tools if tool.simulate is None] == []


@needs_benchmark
def test_every_statement_of_the_benchmark_policy_is_carried_by_a_clause(telehealth):
    stated = {
        number: " ".join(words(line)[:3])
        for number, line in enumerate((TELEHEALTH / "tau-trait.policy.md").read_text().splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    }
    assert {number: start for number, start, _ in POLICY_COVERAGE} == stated
    assert len(POLICY_COVERAGE) == len(stated)


def test_every_clause_carries_something_the_benchmark_says(telehealth):
    carried = {clause for _, _, clauses in POLICY_COVERAGE for clause in clauses.split()}
    carried |= {clause for clauses in TOOL_COVERAGE.values() for clause in clauses.split()}
    assert {clause.id for clause in telehealth.policies} == carried


def test_a_clause_taken_from_a_tool_description_governs_that_tool(telehealth):
    for tool, clauses in TOOL_COVERAGE.items():
        assert set(clauses.split()) <= governing(telehealth, tool)


def test_clauses_that_sql_decides_are_those_listed_and_the_others_are_judged(telehealth):
    assert {clause.id for clause in telehealth.policies if clause.violated_when} == EXECUTABLE
    assert {clause.id for clause in telehealth.policies if not clause.judged} == EXECUTABLE


def test_tools_without_a_clause_of_their_own_are_those_the_policy_says_nothing_special_about(telehealth):
    special = {tool.name for tool in telehealth.tools if not governing(telehealth, tool.name) <= GENERAL}
    assert special == {
        "find_patient_by_email",
        "find_patient_by_name_dob",
        "transfer_to_human_support",
        *CHANGES,
    }


def test_every_change_needs_an_identified_patient_who_agreed(telehealth):
    for tool in CHANGES:
        needed = {
            "auth.first",
            "scope.one_patient",
            "confirm.details",
            "confirm.answered",
            "confirm.explicit_yes",
            "confirm.assent",
        }
        assert needed <= governing(telehealth, tool)


@needs_benchmark
def test_no_eight_words_in_a_row_are_those_of_the_benchmark(telehealth, benchmark_tools):
    theirs: set[str] = set()
    tasks = json.loads((TELEHEALTH / "tau-trait.tasks_test.json").read_text())
    for text in [
        (TELEHEALTH / "tau-trait.policy.md").read_text(),
        *strings(benchmark_tools),
        *strings(tasks),
    ]:
        theirs |= runs_of_words(text, 8)
    ours = [clause.text for clause in telehealth.policies]
    ours += [kind.text for kind in telehealth.errors]
    ours += [tool.description for tool in telehealth.tools]
    ours += [text for tool in telehealth.tools for text in strings(tool.parameters)]
    ours += [
        text
        for tool in telehealth.tools
        if tool.simulate
        for text in (tool.simulate.confirm, tool.simulate.report)
        if text
    ]
    for file in (ROOT / "domains" / "telehealth").glob("*.yaml"):
        ours += re.findall(r"(?m)^ *#(.*)$", file.read_text())
    assert theirs
    assert [text for text in ours if runs_of_words(text, 8) & theirs] == []
