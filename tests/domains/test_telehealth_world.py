"""The telehealth pack's world answers as tau-trait's does; its checks find what is wrong and only that."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from castline.engine.trajectories import read_files
from castline.engine.world import Environment, KnownWorld, build, check_known, check_true, replay
from castline.engine.world.replay import perform
from castline.specs import load_domain

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CASTLINE_SHARED", ROOT.parent / "shared"))
TELEHEALTH = SHARED / "data" / "telehealth"

needs_benchmark = pytest.mark.skipif(
    not TELEHEALTH.is_dir(),
    reason=f"tau-trait's telehealth files are not in {TELEHEALTH} (CASTLINE_SHARED names the folder)",
)

READS = (
    "patients",
    "providers",
    "appointments",
    "medical_records",
    "telemetry_inventory",
    "telemetry_uploads",
)


@pytest.fixture(scope="module")
def telehealth():
    return load_domain(ROOT / "domains" / "telehealth")


@pytest.fixture(scope="module")
def practice(telehealth):
    return build(telehealth)


@pytest.fixture
def world(telehealth, practice):
    environment = Environment(telehealth, practice)
    yield environment
    environment.close()


def one(environment: Environment, sql: str) -> dict:
    """The first row of a query over the true world."""
    row = environment.world.first(sql, {"today": "2025-10-28"})
    assert row is not None, sql
    return row


def documents(environment: Environment, table: str) -> list:
    return [
        json.loads(row["doc"]) for row in environment.world.all(f"SELECT doc FROM {table} ORDER BY rowid", {})
    ]


def is_part(shown: object, whole: object) -> bool:
    """Whether all that is shown is in the whole; a list is shown in full or, of objects, each in part.

    An empty list is shown of a missing one as well.
    """
    if shown == []:
        return not whole
    if isinstance(shown, dict):
        return isinstance(whole, dict) and all(
            is_part(value, whole.get(name)) for name, value in shown.items()
        )
    if isinstance(shown, list) and isinstance(whole, list) and any(isinstance(item, dict) for item in shown):
        return all(any(is_part(item, other) for other in whole) for item in shown)
    return shown == whole


def every_read(environment: Environment) -> list[tuple[str, dict]]:
    """Calls that together show all that there is to see."""
    calls: list[tuple[str, dict]] = [("list_available_providers", {}), ("list_telemetry_devices", {})]
    for it in documents(environment, "patients"):
        given = {"patient_id": it["patient_id"]}
        born = {"date_of_birth": it["demographics"]["date_of_birth"]}
        calls += [
            ("find_patient_by_email", {"email": it["demographics"]["email"]}),
            ("find_patient_by_name_dob", {name: value.upper() for name, value in it["name"].items()} | born),
            ("get_patient_details", given),
            ("list_patient_appointments", given),
            ("list_patient_medical_records", given),
            ("get_regimen_options", given),
        ]
    for it in documents(environment, "providers"):
        calls.append(("get_provider_details", {"provider_id": it["provider_id"]}))
    for it in documents(environment, "appointments"):
        calls.append(("get_appointment_details", {"appointment_id": it["appointment_id"]}))
        calls.append(("get_medical_record", {"appointment_id": it["appointment_id"]}))
    for it in documents(environment, "medical_records"):
        calls.append(("get_medical_record", {"record_id": it["record_id"]}))
        for held in it.get("prescriptions", []):
            calls.append(("list_medication_suppliers", {"medication": held["medication"], "limit": 2}))
            calls.append(("list_medication_suppliers", {"medication": held["medication"]}))
    for it in documents(environment, "telemetry_uploads"):
        calls.append(("get_telemetry_upload", {"device_id": it["device_id"], "date": it["date"]}))
        calls.append(("list_telemetry_uploads", {"device_id": it["device_id"]}))
    return calls


# Replay


@needs_benchmark
def test_every_recorded_call_gives_its_recorded_result_and_every_run_its_reward(telehealth):
    image = build(telehealth, directories=[TELEHEALTH / "db"])
    found = replay(
        telehealth, image, read_files(sorted(TELEHEALTH.glob("tau-trait.gpt-5.*.json")), "telehealth")
    )
    assert (found.calls, found.runs, found.evaluated) == (723, 80, 68)
    assert [(item.task_id, item.tool, item.replayed) for item in found.differences] == []
    assert found.disagreements == []


@needs_benchmark
def test_the_tasks_whose_expected_actions_fail_are_declared_unreliable(telehealth):
    image = build(telehealth, directories=[TELEHEALTH / "db"])
    found = replay(telehealth, image, read_files([TELEHEALTH / "tau-trait.gpt-5.none.20.json"], "telehealth"))
    assert set(found.quarantined) == {task.task_id for task in telehealth.unreliable_tasks}


def test_a_recorded_null_is_an_argument_left_out(world):
    arguments = {"specialty": None}
    assert (
        perform(world, "list_available_providers", arguments).text
        == world.step("list_available_providers", {}).text
    )
    assert perform(world, "get_patient_details", {"patient_id": None}).status == "schema"


# Results


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("find_patient_by_email", {"email": "no@one.example"}, "No patient found with email: no@one.example"),
        (
            "find_patient_by_name_dob",
            {"first_name": "No", "last_name": "One", "date_of_birth": "1990-01-01"},
            "No patient found with name: No One and DOB: 1990-01-01",
        ),
        ("get_patient_details", {"patient_id": "x"}, "Patient with ID x not found."),
        ("get_appointment_details", {"appointment_id": "x"}, "Appointment with ID x not found."),
        ("get_provider_details", {"provider_id": "x"}, "Provider with ID x not found."),
        (
            "get_medical_record",
            {},
            "Please provide a record_id or appointment_id to look up the medical record.",
        ),
        ("get_medical_record", {"record_id": "x"}, "Medical record with ID x not found."),
        ("get_medical_record", {"appointment_id": "x"}, "No medical record found for appointment ID x."),
        ("get_regimen_options", {"patient_id": "x"}, "No regimen optimization data available for patient x."),
        ("list_patient_medical_records", {"patient_id": "x"}, "No medical records found for patient x."),
        ("list_patient_appointments", {"patient_id": "x"}, "Patient with ID x not found."),
        (
            "list_medication_suppliers",
            {"medication": "x"},
            "No supplier information found for x. (Tip: ensure the medication name matches the catalog)",
        ),
        (
            "list_medication_suppliers",
            {"medication": "metformin", "country_filter": "Chile"},
            "No suppliers in Chile for metformin.",
        ),
        ("list_telemetry_devices", {"status_filter": "lost"}, "No telemetry devices with status lost."),
        (
            "get_telemetry_upload",
            {"device_id": "x", "date": "2025-10-20"},
            "No telemetry upload found for device x on 2025-10-20.",
        ),
        ("cancel_appointment", {"appointment_id": "x"}, "Appointment with ID x not found."),
        (
            "reschedule_appointment",
            {"appointment_id": "x", "new_date": "2025-11-04", "new_time": "10:00"},
            "Appointment with ID x not found.",
        ),
        ("update_medical_record_note", {"record_id": "x", "note": "n"}, "Error: medical record x not found"),
        ("calculate", {"expression": "2 + two"}, "Error: invalid characters in expression"),
        ("calculate", {"expression": "1 / 0"}, "Error: division by zero"),
        ("calculate", {"expression": "1 +"}, "Error: invalid syntax (<string>, line 1)"),
    ],
)
def test_a_guard_answers_as_the_benchmark_does_and_changes_nothing(world, tool, arguments, text):
    before = world.hash()
    result = world.step(tool, arguments)
    assert (result.text, result.status) == (text, "guard")
    assert world.hash() == before


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("list_available_providers", {"specialty": "Alchemy"}, "No providers found with specialty: Alchemy"),
        ("list_available_providers", {"specialty": ""}, "No providers found."),
        (
            "list_telemetry_uploads",
            {"device_id": "x"},
            "No telemetry uploads found for device x in the specified window.",
        ),
        (
            "check_drug_interactions",
            {"primary_medication": "Cetirizine", "current_medications": ["Metformin"]},
            "No documented high-risk interactions found for the supplied medications. "
            "Continue monitoring as per care plan.",
        ),
        ("calculate", {"expression": "(1 + 2) * 2.345"}, "7.04"),
        ("think", {"thought": "hm"}, ""),
    ],
)
def test_a_search_that_finds_nothing_succeeds(world, tool, arguments, text):
    result = world.step(tool, arguments)
    assert (result.text, result.status) == (text, "ok")


def test_interactions_are_found_either_way_round_and_whatever_the_case(world):
    arguments = {"primary_medication": "SUMATRIPTAN", "current_medications": ["sertraline", "omeprazole"]}
    assert world.step("check_drug_interactions", arguments).text.splitlines() == [
        "Drug interaction analysis:",
        "Sumatriptan + Sertraline: severity=high, risk_score=8, overlap_hours=24. "
        "Do not combine until a clinician has been asked.",
        "Sertraline + Omeprazole: severity=low, risk_score=2, overlap_hours=12. No change is usually needed.",
        "",
        "Medications to hold today: Sumatriptan",
        "Emergency escalation required: Yes",
        "Peak overlap risk window (hours): 24",
        "Highest severity interaction: Sumatriptan + Sertraline (high)",
    ]


FREE_SLOT = """
    SELECT patients.patient_id, providers.provider_id, day.value AS date, slot.value AS time
    FROM patients, providers, json_each('["2025-10-30"]') AS day, json_each(schedule, '$.thursday') AS slot
"""


def test_a_booking_takes_the_next_id_and_what_the_plan_says(world):
    it = one(world, FREE_SLOT + " WHERE specialty = 'Cardiology'")
    last = one(world, "SELECT max(CAST(substr(appointment_id, 5) AS INTEGER)) AS id FROM appointments")["id"]
    copay = one(
        world,
        "SELECT insurance -> '$.primary.copay_specialist' AS copay FROM patients "
        f"WHERE patient_id = '{it['patient_id']}'",
    )["copay"]
    booked = world.step("schedule_appointment", it | {"appointment_type": "follow_up"})
    assert booked.ok and f"Appointment ID: APPT{last + 1}\n" in booked.text
    assert f"Copay: ${float(copay):.2f}\n" in booked.text and "Type: Follow Up\n" in booked.text
    again = world.step("schedule_appointment", it | {"appointment_type": "follow_up"})
    assert (
        again.text
        == f"Provider {it['provider_id']} already has an appointment scheduled at {it['time']} on 2025-10-30."
    )


def test_a_booking_without_insurance_costs_nothing_and_keeps_the_voucher(world):
    it = one(world, FREE_SLOT)
    paid = {
        "appointment_type": "sick_visit",
        "bill_insurance": False,
        "voucher_id": "V-1",
        "payment_notes": "desk",
    }
    lines = world.step("schedule_appointment", it | paid).text.splitlines()
    assert lines[8:13] == [
        "Insurance Billing: Skipped",
        "Payment Method: Telehealth Voucher",
        "Voucher Applied: V-1",
        "Amount Due Today: $0.00",
        "Billing Notes: desk",
    ]
    stored = documents(world, "appointments")[-1]
    assert (stored["insurance_billed"], stored["voucher_id"], stored["notes"]) == (False, "V-1", "desk")
    assert stored["insurance_authorization"] is None


@pytest.mark.parametrize(
    ("date", "time", "text"),
    [
        ("2025-11-01", "09:00", "Provider {} does not work on Saturday."),
        ("2025-02-30", "09:00", "Invalid date format: 2025-02-30. Please use YYYY-MM-DD format."),
        ("30 October", "09:00", "Invalid date format: 30 October. Please use YYYY-MM-DD format."),
    ],
)
def test_a_day_that_does_not_fit_is_refused(world, date, time, text):
    it = one(world, FREE_SLOT) | {"date": date, "time": time, "appointment_type": "follow_up"}
    assert world.step("schedule_appointment", it).text == text.format(it["provider_id"])


def test_a_time_outside_the_hours_is_refused_with_the_hours(world):
    it = one(world, FREE_SLOT) | {"time": "03:00", "appointment_type": "follow_up"}
    hours = one(
        world,
        f"SELECT schedule -> 'thursday' AS times FROM providers WHERE provider_id = '{it['provider_id']}'",
    )
    refused = world.step("schedule_appointment", it).text
    assert refused.endswith(
        f"is not available at 03:00 on Thursday. Available times: {', '.join(json.loads(hours['times']))}"
    )


def test_a_cancelled_visit_stays_cancelled_and_its_slot_is_free(world):
    it = one(
        world,
        "SELECT appointment_id, patient_id, provider_id, date, time FROM appointments "
        "WHERE status = 'scheduled'",
    )
    given = {"appointment_id": it["appointment_id"]}
    assert "Cancellation Date: 2025-10-28" in world.step("cancel_appointment", given).text
    assert (
        world.step("cancel_appointment", given).text
        == f"Appointment {it['appointment_id']} is already cancelled."
    )
    moved = world.step("reschedule_appointment", given | {"new_date": it["date"], "new_time": it["time"]})
    assert (
        moved.text
        == f"Cannot reschedule appointment {it['appointment_id']} - appointment has been cancelled."
    )
    it.pop("appointment_id")
    assert world.step("schedule_appointment", it | {"appointment_type": "follow_up"}).ok


def test_a_completed_visit_can_be_neither_moved_nor_cancelled(world):
    given = one(world, "SELECT appointment_id FROM appointments WHERE status = 'completed'")
    for tool, more in (
        ("cancel_appointment", {}),
        ("reschedule_appointment", {"new_date": "2025-11-04", "new_time": "10:00"}),
    ):
        result = world.step(tool, given | more)
        assert result.status == "guard" and result.text.endswith("appointment has already been completed.")


def test_a_booking_without_a_reason_trips_the_details_as_in_the_benchmark(world):
    world.step("schedule_appointment", one(world, FREE_SLOT) | {"appointment_type": "follow_up"})
    booked = documents(world, "appointments")[-1]["appointment_id"]
    assert (
        world.step("get_appointment_details", {"appointment_id": booked}).text == "Error: 'chief_complaint'"
    )


@pytest.mark.parametrize("named", ["metformin", " Metformin 500mg BID ", "Metfor"])
def test_a_supplier_is_set_for_the_prescription_that_a_name_fits(world, named):
    it = one(
        world,
        "SELECT record_id FROM medical_records, json_each(doc, '$.prescriptions') AS held "
        "WHERE held.value ->> 'medication' = 'Metformin'",
    )
    offer = {"supplier_company": "Acme", "brand_name": "Metfo", "price_usd": 3}
    record = json.loads(world.step("update_prescription_supplier", it | offer | {"medication": named}).text)
    held = next(held for held in record["prescriptions"] if held["medication"] == "Metformin")
    assert held["pharmacy"] == "Acme (Metfo)"
    assert held["supplier"] == {"company": "Acme", "brand_name": "Metfo", "price_usd": 3.0, "currency": "USD"}
    others = [held for held in record["prescriptions"] if held["medication"] != "Metformin"]
    assert all("supplier" not in held for held in others)


def test_a_supplier_of_a_medication_that_is_not_prescribed_is_refused(world):
    record = one(world, "SELECT record_id FROM medical_records")["record_id"]
    offer = {"supplier_company": "Acme", "brand_name": "Metfo", "price_usd": 3}
    refused = world.step("update_prescription_supplier", {"record_id": record, "medication": "Zinc"} | offer)
    assert refused.text == f"Error: medication Zinc not found in record {record}"


def test_notes_are_added_with_their_fields_and_without_empty_ones(world):
    record = one(world, "SELECT record_id FROM medical_records")
    world.step("update_medical_record_note", record | {"note": "one", "metadata": {}})
    result = world.step(
        "update_medical_record_note", record | {"note": "two", "metadata": {"by": ["desk"], "n": 1}}
    )
    assert json.loads(result.text)["notes"] == [
        {"note": "one"},
        {"note": "two", "metadata": {"by": ["desk"], "n": 1}},
    ]


# What results reveal


def reveal_everything(telehealth, environment: Environment) -> KnownWorld:
    known = KnownWorld(telehealth)
    for step, (tool, arguments) in enumerate(every_read(environment)):
        result = environment.step(tool, arguments)
        known.see_result(step, tool, arguments, result.text, not result.ok)
    return known


def assert_known_is_part_of_true(environment: Environment, known: KnownWorld) -> None:
    for table, key in (
        ("patients", "patient_id"),
        ("providers", "provider_id"),
        ("appointments", "appointment_id"),
        ("medical_records", "record_id"),
        ("telemetry_inventory", "device_id"),
        ("regimen_plans", "patient_id"),
    ):
        true = {it[key]: it for it in documents(environment, table)}
        for row in known.world.all(f"SELECT {key}, doc FROM {table}", {}):
            shown = json.loads(row["doc"])
            assert shown[key] == row[key]
            assert is_part(shown, true[row[key]]), (table, row[key], shown, true[row[key]])
    uploads = documents(environment, "telemetry_uploads")
    assert all(
        json.loads(row["doc"]) in uploads for row in known.world.all("SELECT doc FROM telemetry_uploads", {})
    )
    offers = {
        row["medication"].lower(): json.loads(row["doc"])
        for row in environment.world.all("SELECT medication, doc FROM medication_suppliers", {})
    }
    for row in known.world.all("SELECT medication, doc FROM medication_suppliers", {}):
        assert is_part(json.loads(row["doc"]), offers[row["medication"].lower()])


def test_what_reads_reveal_is_so_and_leaves_no_one_out(telehealth, world):
    known = reveal_everything(telehealth, world)
    assert_known_is_part_of_true(world, known)
    for table in READS:
        seen, there = (
            known.world.first(f"SELECT count(*) AS n FROM {table}", {}),
            len(documents(world, table)),
        )
        assert seen == {"n": there}, table
    unknown = known.world.all(
        "SELECT appointment_id FROM appointments WHERE status IS NULL OR provider_id IS NULL OR type IS NULL",
        {},
    )
    assert unknown == []
    assert known.world.all("SELECT provider_id FROM providers WHERE schedule IS NULL", {}) == []
    known.close()


@needs_benchmark
def test_what_reads_of_the_benchmarks_own_records_reveal_is_so(telehealth):
    environment = Environment(telehealth, build(telehealth, directories=[TELEHEALTH / "db"]))
    known = reveal_everything(telehealth, environment)
    assert_known_is_part_of_true(environment, known)
    assert known.world.first("SELECT count(*) AS n FROM patients WHERE name IS NULL", {}) == {"n": 0}
    known.close()
    environment.close()


def test_changes_reveal_what_they_made(telehealth, world):
    known = KnownWorld(telehealth)
    visits = world.world.all("SELECT appointment_id FROM appointments WHERE status = 'scheduled' LIMIT 2", {})
    it = one(world, FREE_SLOT)
    held = one(
        world,
        "SELECT record_id, held.value ->> 'medication' AS medication "
        "FROM medical_records, json_each(doc, '$.prescriptions') AS held",
    )
    moved = one(
        world,
        "SELECT appointment_id, '2025-10-30' AS new_date, schedule ->> '$.thursday[1]' AS new_time "
        "FROM appointments JOIN providers USING (provider_id) "
        f"WHERE appointment_id = '{visits[1]['appointment_id']}'",
    )
    calls = [
        ("schedule_appointment", it | {"appointment_type": "follow_up"}),
        ("cancel_appointment", visits[0]),
        ("reschedule_appointment", moved),
        (
            "update_prescription_supplier",
            held | {"supplier_company": "Acme", "brand_name": "B", "price_usd": 2.5},
        ),
        ("update_medical_record_note", {"record_id": held["record_id"], "note": "n"}),
    ]
    for step, (tool, arguments) in enumerate(calls):
        result = world.step(tool, arguments)
        assert result.ok, result
        known.see_result(step, tool, arguments, result.text, False)
    assert_known_is_part_of_true(world, known)
    assert known.world.first("SELECT count(*) AS n FROM appointments", {}) == {"n": 3}
    status = known.world.first(
        "SELECT status FROM appointments WHERE appointment_id = :appointment_id", visits[0]
    )
    assert status == {"status": "cancelled"}
    assert known.world.first(
        "SELECT count(*) AS n FROM medical_records WHERE doc ->> '$.notes[0].note' = 'n'", {}
    ) == {"n": 1}
    known.close()


def test_a_refusal_reveals_nothing_even_when_nobody_marks_it_as_an_error(telehealth, world):
    known = KnownWorld(telehealth)
    refused = [
        ("find_patient_by_email", {"email": "no@one.example"}),
        ("find_patient_by_name_dob", {"first_name": "N", "last_name": "O", "date_of_birth": "1990-01-01"}),
        ("get_patient_details", {"patient_id": "x"}),
        ("get_provider_details", {"provider_id": "x"}),
        ("get_appointment_details", {"appointment_id": "x"}),
        ("get_medical_record", {"record_id": "x"}),
        ("get_regimen_options", {"patient_id": "x"}),
        ("list_patient_appointments", {"patient_id": "x"}),
        ("list_patient_medical_records", {"patient_id": "x"}),
        ("list_medication_suppliers", {"medication": "x"}),
        ("list_telemetry_devices", {"status_filter": "x"}),
        ("list_telemetry_uploads", {"device_id": "x"}),
        ("get_telemetry_upload", {"device_id": "x", "date": "2025-10-20"}),
        ("cancel_appointment", {"appointment_id": "x"}),
        ("reschedule_appointment", {"appointment_id": "x", "new_date": "2025-11-04", "new_time": "10:00"}),
        ("update_medical_record_note", {"record_id": "x", "note": "n"}),
    ]
    for step, (tool, arguments) in enumerate(refused):
        known.see_result(step, tool, arguments, world.step(tool, arguments).text, False)
    for table in telehealth.state:
        assert known.world.all(f"SELECT * FROM {table}", {}) == [], table
    known.close()


def test_a_list_does_not_forget_what_an_update_has_shown(telehealth, world):
    known = KnownWorld(telehealth)
    record = one(world, "SELECT record_id, patient_id FROM medical_records")
    note = {"record_id": record["record_id"], "note": "n"}
    known.see_result(
        0, "update_medical_record_note", note, world.step("update_medical_record_note", note).text, False
    )
    listed = {"patient_id": record["patient_id"]}
    text = world.step("list_patient_medical_records", listed).text
    known.see_result(1, "list_patient_medical_records", listed, text, False)
    row = known.world.first("SELECT doc FROM medical_records WHERE record_id = :record_id", record)
    assert row is not None and "dosage" in json.loads(row["doc"])["prescriptions"][0]
    known.close()


# Clauses


@dataclass
class Conversation:
    """A conversation as it goes on, in the true world and in the known one."""

    environment: Environment
    known: KnownWorld
    step: int = 0

    def say(self, role: str, text: str) -> Conversation:
        self.step += 1
        self.known.see_message(self.step, role, text)
        self.environment.world.connection.execute(
            "INSERT INTO messages VALUES (?, ?, ?)", (self.step, role, text)
        )
        return self

    def call(self, tool: str, **arguments: object) -> Conversation:
        self.step += 1
        result = self.environment.step(tool, arguments)
        self.known.see_result(self.step, tool, arguments, result.text, not result.ok)
        row = (self.step, tool, json.dumps(arguments), result.text, int(not result.ok))
        self.environment.world.connection.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", row)
        return self

    def verdict(self, clause: str, tool: str, **arguments: object) -> tuple[str, str]:
        """What is known of it, and what is true of it."""
        domain = self.environment.domain
        known = {finding.clause: finding for finding in check_known(self.known, tool, arguments)}
        true = {
            finding.clause: finding for finding in check_true(self.environment.world, domain, tool, arguments)
        }
        assert known[clause].problem is None and true[clause].problem is None
        return known[clause].verdict, true[clause].verdict


@pytest.fixture
def talk(telehealth, world):
    known = KnownWorld(telehealth)
    yield Conversation(world, known)
    known.close()


@pytest.fixture
def patient(world) -> dict:
    """A patient with a scheduled visit and a record, who is somebody's contact."""
    return one(
        world,
        "SELECT patient_id, demographics ->> 'email' AS email, demographics ->> 'date_of_birth' AS born, "
        "name ->> 'first_name' AS first, name ->> 'last_name' AS last, "
        "(SELECT appointment_id FROM appointments AS a WHERE a.patient_id = p.patient_id "
        "AND status = 'scheduled') AS visit FROM patients AS p "
        "WHERE visit IS NOT NULL AND p.patient_id IN (SELECT patient_id FROM medical_records) "
        "AND EXISTS (SELECT 1 FROM patients AS kin WHERE kin.emergency_contact ->> 'name' = "
        "(p.name ->> 'first_name') || ' ' || (p.name ->> 'last_name'))",
    )


def identified(talk: Conversation, patient: dict) -> Conversation:
    talk.say("user", f"Hello, I am {patient['first']} {patient['last']}, {patient['email']}.")
    return talk.call("find_patient_by_email", email=patient["email"])


def test_nothing_is_served_before_a_look_up_succeeds(talk, patient):
    assert talk.verdict("auth.first", "list_available_providers") == ("violated", "violated")
    talk.call("find_patient_by_email", email="no@one.example")
    assert (
        talk.verdict("auth.first", "get_patient_details", patient_id=patient["patient_id"])[0] == "violated"
    )
    identified(talk, patient)
    assert talk.verdict("auth.first", "get_patient_details", patient_id=patient["patient_id"]) == (
        "kept",
        "kept",
    )


def test_a_look_up_takes_what_the_patient_wrote(talk, patient):
    talk.say("user", f"I am {patient['first']} {patient['last']}, {patient['email']}.")
    assert (
        talk.verdict("auth.as_stated", "find_patient_by_email", email=patient["email"].upper())[0] == "kept"
    )
    assert talk.verdict("auth.as_stated", "find_patient_by_email", email="guess@example.com")[0] == "violated"
    named = {"first_name": patient["first"], "last_name": patient["last"]}
    for born, verdict in ((patient["born"], "kept"), ("04/15/1980", "violated"), ("1980-02-31", "violated")):
        given = named | {"date_of_birth": born}
        assert talk.verdict("auth.birth_date_form", "find_patient_by_name_dob", **given)[0] == verdict
        assert talk.verdict("auth.as_stated", "find_patient_by_name_dob", **given)[0] == "kept"
    assert (
        talk.verdict("auth.as_stated", "find_patient_by_name_dob", **(named | {"first_name": "Zoltan"}))[0]
        == "violated"
    )


def test_another_adult_is_off_limits_and_known_to_be_once_the_profile_is_seen(talk, world, patient):
    identified(talk, patient)
    mine, scope = {"patient_id": patient["patient_id"]}, "scope.one_patient"
    other = one(
        world,
        "SELECT patient_id FROM patients WHERE demographics ->> 'date_of_birth' BETWEEN '1970' AND '2000' "
        f"AND name ->> 'last_name' <> '{patient['last']}'",
    )
    assert talk.verdict(scope, "list_patient_appointments", **mine) == ("kept", "kept")
    assert talk.verdict(scope, "list_patient_appointments", **other) == ("unknown", "violated")
    talk.call("get_patient_details", **other)
    assert talk.verdict(scope, "list_patient_appointments", **other) == ("violated", "violated")


def test_children_and_aged_parents_are_served_and_strangers_of_that_age_are_not(talk, world, patient):
    identified(talk, patient).call("get_patient_details", patient_id=patient["patient_id"])
    contact = f"emergency_contact ->> 'name' = '{patient['first']} {patient['last']}'"
    aged = "demographics ->> 'date_of_birth' NOT BETWEEN '1970' AND '2005'"
    kin = world.world.all(f"SELECT patient_id FROM patients WHERE {contact} AND {aged}", {})
    strangers = world.world.all(
        f"SELECT patient_id FROM patients WHERE NOT {contact} AND {aged} "
        f"AND name ->> 'last_name' <> '{patient['last']}'",
        {},
    )
    assert len(kin) == 2 and len(strangers) > 5
    for people, verdict in ((kin, "kept"), (strangers, "violated")):
        for person in people:
            assert talk.verdict("scope.one_patient", "get_regimen_options", **person) == ("unknown", verdict)
            talk.call("get_patient_details", **person)
            assert talk.verdict("scope.one_patient", "get_regimen_options", **person) == (verdict, verdict)


def test_a_visit_or_record_of_somebody_else_is_off_limits(talk, world, patient):
    identified(talk, patient)
    mine = one(world, f"SELECT record_id FROM medical_records WHERE patient_id = '{patient['patient_id']}'")
    assert talk.verdict("scope.one_patient", "cancel_appointment", appointment_id=patient["visit"]) == (
        "unknown",
        "kept",
    )
    talk.call("list_patient_appointments", patient_id=patient["patient_id"])
    assert talk.verdict("scope.one_patient", "cancel_appointment", appointment_id=patient["visit"]) == (
        "kept",
        "kept",
    )
    assert talk.verdict("scope.one_patient", "update_medical_record_note", **mine, note="n")[1] == "kept"
    other = one(
        world,
        "SELECT record_id FROM medical_records JOIN patients USING (patient_id) "
        "WHERE demographics ->> 'date_of_birth' BETWEEN '1970' AND '2000' "
        f"AND name ->> 'last_name' <> '{patient['last']}'",
    )
    assert talk.verdict("scope.one_patient", "update_medical_record_note", **other, note="n") == (
        "unknown",
        "violated",
    )


@pytest.mark.parametrize(
    ("proposal", "answer", "proposed", "assented"),
    [
        ("Shall I book it for 14:00?", "Yes, please.", "kept", "kept"),
        ("Shall I book it for 2:00 PM?", "go ahead", "kept", "kept"),
        ("Would 2 pm suit you?", "Yes.", "kept", "kept"),
        ("Shall I book it for 14:00?", "No, please don't.", "kept", "violated"),
        ("Shall I book it for 14:00?", "Who is that doctor?", "kept", "violated"),
        ("Which day would you like?", "Thursday, yes.", "violated", "kept"),
    ],
)
def test_a_change_is_proposed_and_agreed_to(talk, proposal, answer, proposed, assented):
    talk.say("user", "I need a visit.").say("assistant", proposal).say("user", answer)
    visit = {
        "patient_id": "p",
        "provider_id": "d",
        "date": "2025-11-04",
        "time": "14:00",
        "appointment_type": "follow_up",
    }
    assert talk.verdict("confirm.proposed", "schedule_appointment", **visit)[0] == proposed
    assert talk.verdict("confirm.assent", "schedule_appointment", **visit)[0] == assented


def test_a_proposal_that_follows_the_answer_does_not_count(talk):
    talk.say("user", "Yes, hello.").say("assistant", "I will cancel APPT150.")
    assert talk.verdict("confirm.proposed", "cancel_appointment", appointment_id="APPT150")[0] == "violated"
    talk.say("user", "Yes.")
    assert talk.verdict("confirm.proposed", "cancel_appointment", appointment_id="APPT150")[0] == "kept"


@pytest.mark.parametrize(
    ("date", "time", "verdict"),
    [
        ("2025-11-04", "09:30", "kept"),
        ("11/04/2025", "09:30", "violated"),
        ("2025-11-04", "9:30", "violated"),
        ("2025-11-04", "25:00", "violated"),
    ],
)
def test_days_and_times_are_written_the_databases_way(talk, date, time, verdict):
    visit = {
        "patient_id": "p",
        "provider_id": "d",
        "date": date,
        "time": time,
        "appointment_type": "follow_up",
    }
    assert talk.verdict("time.written", "schedule_appointment", **visit) == (verdict, verdict)
    moved = {"appointment_id": "a", "new_date": date, "new_time": time}
    assert talk.verdict("time.written", "reschedule_appointment", **moved) == (verdict, verdict)


def test_hours_are_read_before_booking_and_kept_to(talk, world):
    good = one(world, FREE_SLOT) | {"appointment_type": "follow_up"}
    bad, sunday = good | {"time": "03:00"}, good | {"date": "2025-11-02"}
    tool = "schedule_appointment"
    assert talk.verdict("schedule.hours_read", tool, **good)[0] == "violated"
    assert talk.verdict("schedule.within_hours", tool, **good) == ("unknown", "kept")
    assert talk.verdict("schedule.within_hours", tool, **bad) == ("unknown", "violated")
    talk.call("get_provider_details", provider_id=good["provider_id"])
    assert talk.verdict("schedule.hours_read", tool, **good)[0] == "kept"
    assert talk.verdict("schedule.within_hours", tool, **good) == ("kept", "kept")
    assert talk.verdict("schedule.within_hours", tool, **bad) == ("violated", "violated")
    assert talk.verdict("schedule.within_hours", tool, **sunday) == ("violated", "violated")


def test_a_taken_slot_shows_only_to_those_who_saw_the_visit(talk, world):
    taken = one(
        world,
        "SELECT patient_id, provider_id, date, time FROM appointments WHERE status = 'pending_approval'",
    ) | {"appointment_type": "follow_up"}
    assert talk.verdict("schedule.slot_free", "schedule_appointment", **taken) == ("kept", "violated")
    visit = one(world, "SELECT appointment_id FROM appointments WHERE status = 'pending_approval'")
    talk.call("get_appointment_details", **visit)
    assert talk.verdict("schedule.slot_free", "schedule_appointment", **taken) == ("violated", "violated")


def test_a_type_of_visit_is_one_of_the_five_or_on_record(talk, world):
    visit = one(world, FREE_SLOT)
    for kind, verdict in (("sick_visit", "kept"), ("brunch", "violated")):
        assert (
            talk.verdict("schedule.type", "schedule_appointment", **visit, appointment_type=kind)[1]
            == verdict
        )
    world.world.rows("UPDATE appointments SET doc = json_set(doc, '$.type', 'brunch')", {}, write=True)
    assert (
        talk.verdict("schedule.type", "schedule_appointment", **visit, appointment_type="brunch")[1] == "kept"
    )


def test_only_open_visits_are_moved_or_called_off(talk, world):
    for status, verdict in (
        ("scheduled", "kept"),
        ("pending_approval", "kept"),
        ("completed", "violated"),
        ("cancelled", "violated"),
    ):
        visit = one(world, f"SELECT appointment_id FROM appointments WHERE status = '{status}'")
        moved = visit | {"new_date": "2025-11-04", "new_time": "10:00"}
        assert talk.verdict("cancel.only_open", "cancel_appointment", **visit) == ("unknown", verdict)
        assert talk.verdict("reschedule.only_open", "reschedule_appointment", **moved) == ("unknown", verdict)
        talk.call("get_appointment_details", **visit)
        assert talk.verdict("cancel.only_open", "cancel_appointment", **visit) == (verdict, verdict)
        assert talk.verdict("reschedule.only_open", "reschedule_appointment", **moved) == (verdict, verdict)


def test_a_visit_is_moved_within_its_own_providers_hours(talk, world):
    it = one(
        world,
        "SELECT appointment_id, provider_id, schedule ->> '$.thursday[0]' AS time "
        "FROM appointments JOIN providers USING (provider_id) WHERE status = 'scheduled'",
    )
    good = {"appointment_id": it["appointment_id"], "new_date": "2025-10-30", "new_time": it["time"]}
    clause, tool = "reschedule.within_hours", "reschedule_appointment"
    talk.call("get_appointment_details", appointment_id=it["appointment_id"])
    assert talk.verdict(clause, tool, **good) == ("unknown", "kept")
    talk.call("get_provider_details", provider_id=it["provider_id"])
    assert talk.verdict(clause, tool, **good) == ("kept", "kept")
    assert talk.verdict(clause, tool, **(good | {"new_time": "03:00"})) == ("violated", "violated")


def test_a_visit_is_not_moved_onto_another_of_the_patient(talk, world):
    it = one(
        world,
        "SELECT a.appointment_id, a.patient_id, b.date, b.time FROM appointments AS a JOIN appointments AS b "
        "USING (patient_id) WHERE a.appointment_id < b.appointment_id "
        "AND a.status = 'scheduled' AND b.status = 'scheduled'",
    )
    clash = {"appointment_id": it["appointment_id"], "new_date": it["date"], "new_time": it["time"]}
    clause, tool = "reschedule.no_conflict", "reschedule_appointment"
    talk.call("get_appointment_details", appointment_id=it["appointment_id"])
    assert talk.verdict(clause, tool, **clash) == ("unknown", "violated")
    talk.call("list_patient_appointments", patient_id=it["patient_id"])
    assert talk.verdict(clause, tool, **clash) == ("violated", "violated")
    assert talk.verdict(clause, tool, **(clash | {"new_date": "2025-10-31", "new_time": "03:00"})) == (
        "kept",
        "kept",
    )


def test_a_supplier_is_an_offer_of_the_catalogue_for_what_the_record_prescribes(talk, world):
    it = one(
        world,
        "SELECT record_id, patient_id, medication, offer.value AS offer FROM medical_records, "
        "medication_suppliers, json_each(medication_suppliers.doc) AS offer "
        "WHERE medication = medical_records.doc ->> '$.prescriptions[0].medication'",
    )
    offer = json.loads(it["offer"])
    good = {
        "record_id": it["record_id"],
        "medication": it["medication"],
        "supplier_company": offer["company"],
        "brand_name": offer["brand_name"],
        "price_usd": offer["price_usd"],
    }
    tool, listed = "update_prescription_supplier", "supplier.from_catalogue"
    assert talk.verdict(listed, tool, **good) == ("unknown", "kept")
    assert talk.verdict("supplier.on_record", tool, **good) == ("unknown", "kept")
    talk.call("list_medication_suppliers", medication=it["medication"].upper())
    talk.call("list_patient_medical_records", patient_id=it["patient_id"])
    assert talk.verdict(listed, tool, **good) == ("kept", "kept")
    with_country = good | {"supplier_company": f"{offer['company']} ({offer['country']})"}
    assert talk.verdict(listed, tool, **with_country) == ("kept", "kept")
    for wrong in (
        {"price_usd": offer["price_usd"] + 1},
        {"brand_name": "Other"},
        {"supplier_company": "Other"},
    ):
        assert talk.verdict(listed, tool, **(good | wrong)) == ("violated", "violated")
    assert talk.verdict("supplier.on_record", tool, **good) == ("kept", "kept")
    assert talk.verdict("supplier.on_record", tool, **(good | {"medication": "Zinc"})) == (
        "violated",
        "violated",
    )


def test_a_finding_cites_the_cells_and_the_steps_that_revealed_them(telehealth, talk, world):
    visit = one(world, "SELECT appointment_id FROM appointments WHERE status = 'completed'")
    talk.call("get_appointment_details", **visit)
    found = {finding.clause: finding for finding in check_known(talk.known, "cancel_appointment", visit)}
    cells = {
        (cell.table, cell.key, cell.column, cell.value, cell.step) for cell in found["cancel.only_open"].cells
    }
    assert ("appointments", visit["appointment_id"], "status", "completed", talk.step) in cells


# The generated practice


def test_the_same_seed_gives_the_same_practice_and_another_seed_another(telehealth, world):
    again, other = (
        Environment(telehealth, build(telehealth)),
        Environment(telehealth, build(telehealth, seed=1)),
    )
    assert again.hash() == world.hash() != other.hash()
    again.close()
    other.close()


@pytest.mark.parametrize(("seed", "scale"), [(0, 1), (7, 1), (0, 5)])
def test_a_practice_of_any_seed_and_size_holds_together(telehealth, seed, scale):
    image = build(telehealth, seed=seed, scale=scale)
    environment = Environment(telehealth, image)
    assert image.counts["patients"] == 60 * scale and image.counts["providers"] == 20 * scale
    assert 120 * scale <= image.counts["appointments"] <= 180 * scale
    patients = {it["patient_id"]: it for it in documents(environment, "patients")}
    providers = {it["provider_id"]: it for it in documents(environment, "providers")}
    visits = documents(environment, "appointments")
    records = documents(environment, "medical_records")
    assert len({it["demographics"]["email"] for it in patients.values()}) == len(patients)
    weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday"]
    by_day = environment.world.all(
        "SELECT appointment_id, (strftime('%w', date) + 6) % 7 AS day FROM appointments", {}
    )
    day_of = {row["appointment_id"]: weekdays[row["day"]] for row in by_day}
    for it in visits:
        provider, plan = providers[it["provider_id"]], patients[it["patient_id"]]["insurance"]["primary"]
        assert it["time"] in provider["schedule"][day_of[it["appointment_id"]]]
        primary = provider["specialty"] == "Primary Care"
        assert it["copay_amount"] == plan["copay_primary" if primary else "copay_specialist"]
        assert (it["status"] in ("scheduled", "pending_approval")) == (it["date"] > "2025-10-28")
    busy = [it for it in visits if it["status"] != "cancelled"]
    assert len({(it["provider_id"], it["date"], it["time"]) for it in busy}) == len(busy)
    assert len({(it["patient_id"], it["date"], it["time"]) for it in busy}) == len(busy)
    took_place = {it["appointment_id"] for it in visits if it["status"] == "completed"}
    assert {it["appointment_id"] for it in records} == took_place and len(records) == len(took_place)
    catalogue = {
        row["medication"] for row in environment.world.all("SELECT medication FROM medication_suppliers", {})
    }
    for it in records:
        taken = [one["name"] for one in patients[it["patient_id"]]["medical_history"]["medications"]]
        assert [held["medication"] for held in it["prescriptions"]] == taken
        assert taken and set(taken) <= catalogue
    for row in environment.world.all("SELECT doc FROM medication_suppliers", {}):
        prices = [offer["price_usd"] for offer in json.loads(row["doc"])]
        assert len(set(prices)) == len(prices) == 6
    environment.close()
