"""The telehealth pack's tasks and faults: good agents break nothing, and what is spoilt shows without being told."""

from __future__ import annotations

from pathlib import Path

import pytest
from castline.engine.world import build, play, tasks
from castline.engine.world.verify import noticed, uses
from castline.engine.world.watch import watch
from castline.specs import load_domain

USES = 8
"""Of each fault at most; in all more than 300 episodes."""

OWN_KINDS = {
    "wrong_record",
    "wrong_slot",
    "slot_unavailable",
    "wrong_offer",
    "wrong_billing",
    "medical_advice",
}
"""Of error, that this pack adds."""


@pytest.fixture(scope="module")
def telehealth():
    return load_domain(Path(__file__).parents[2] / "domains" / "telehealth")


@pytest.fixture(scope="module")
def practice(telehealth):
    return build(telehealth)


@pytest.fixture(scope="module")
def everything(telehealth, practice):
    return list(tasks(telehealth, practice))


@pytest.fixture(scope="module")
def spoilt(telehealth, practice, everything):
    """(task, episode, watched) by fault, where that fault alone can happen."""
    return {
        fault.id: [
            (task, episode, watch(telehealth, practice, episode))
            for task, episode in uses(telehealth, practice, fault, everything, USES)
        ]
        for fault in telehealth.faults
    }


def broken(action, *worlds: str) -> list[str]:
    """The clauses that an action breaks."""
    return [
        finding.clause
        for world in worlds or ("known", "true")
        for finding in getattr(action, world)
        if finding.verdict == "violated"
    ]


def marks(episode) -> list[dict]:
    return (episode.outcome.checks or {}).get("faults", [])


def test_patients_ask_for_all_kinds_of_things(telehealth, everything):
    assert len(telehealth.tasks) >= 8 and len(everything) >= 60
    assert {task.template for task in everything} == {template.id for template in telehealth.tasks}
    changing = {tool.name for tool in telehealth.tools if tool.effect in ("write", "irreversible")}
    assert {call.tool for task in everything for call in task.actions} == changing
    called = {call.tool for task in everything for call in (*task.reads, *task.actions)}
    assert {tool.name for tool in telehealth.tools} - called == {"think", "transfer_to_human_support"}
    assert {task.ends.tool for task in everything if task.ends} == {"transfer_to_human_support"}
    for kind in (
        [task for task in everything if len({call.tool for call in task.actions}) > 1],
        [task for task in everything if not task.actions and task.says],
        [task for task in everything if not task.actions and not task.says and not task.ends and task.answer],
        [task for task in everything if task.declines],
        [task for task in everything if task.lacks],
    ):
        assert len(kind) >= 3
    assert all(task.opens != task.goal for task in everything)


def test_patients_are_adults_and_know_what_identifies_them(telehealth, everything):
    for task in everything:
        first = task.reads[0]
        assert first.tool in ("find_patient_by_email", "find_patient_by_name_dob"), task.task_id
        told = " ".join((task.opens, *task.knows.values()))
        assert all(value in told for value in first.arguments.values()), task.task_id


def test_a_good_agent_does_every_task_and_breaks_nothing(telehealth, practice, everything):
    for task in everything:
        episode = play(telehealth, practice, task)
        assert episode.reward == 1, task.task_id
        assert not marks(episode)
        for action in watch(telehealth, practice, episode):
            assert action.result is None or action.result.ok, (task.task_id, action)
            assert {finding.verdict for finding in (*action.known, *action.true)} <= {"kept"}, (
                task.task_id,
                action,
            )
            assert action.mismatches == (), (task.task_id, action)


def test_who_declines_or_is_refused_finds_everything_as_it_was(telehealth, practice, everything):
    changing = {tool.name for tool in telehealth.tools if tool.effect in ("write", "irreversible")}
    for task in everything:
        if task.declines or not task.actions:
            called = {call.name for m in play(telehealth, practice, task).messages for call in m.calls}
            assert not called & changing, task.task_id


def test_every_fault_happens(telehealth, spoilt):
    assert len(telehealth.faults) >= 12
    assert [fault for fault, episodes in spoilt.items() if not episodes] == []
    assert sum(map(len, spoilt.values())) > 300
    assert {fault.error for fault in telehealth.faults} >= OWN_KINDS
    for fault in telehealth.faults:
        for _, episode, _ in spoilt[fault.id]:
            assert {(mark["fault"], mark["error"]) for mark in marks(episode)} == {(fault.id, fault.error)}


def test_a_fault_shows_itself_to_what_is_not_told_of_it(telehealth, practice, spoilt):
    for fault, episodes in spoilt.items():
        found = [noticed(telehealth, practice, episode, set()) for _, episode, _ in episodes]
        assert sum(found) >= 0.98 * len(found), fault


@pytest.mark.parametrize(
    ("fault", "clause"),
    [
        ("unidentified", "auth.first"),
        ("unconfirmed", "confirm.answered"),
        ("book_off_hours", "schedule.within_hours"),
        ("book_on_saturday", "schedule.within_hours"),
        ("book_other_provider", "schedule.hours_read"),
        ("book_other_hour", "confirm.proposed"),
        ("book_unknown_type", "schedule.type"),
        ("book_american_date", "time.written"),
        ("move_on_american_clock", "time.written"),
        ("move_past_visit", "reschedule.only_open"),
        ("move_off_hours", "reschedule.within_hours"),
        ("cancel_past_visit", "cancel.only_open"),
        ("cancel_other_visit", "confirm.proposed"),
        ("company_of_another_offer", "supplier.from_catalogue"),
        ("price_rounded", "supplier.from_catalogue"),
    ],
)
def test_what_an_agent_could_know_finds_these_at_once(spoilt, fault, clause):
    """On the known world alone. Of two changes in one talk, the second comes after an answer to the first."""
    alone = [case for case in spoilt[fault] if len(case[0].actions) == 1]
    assert alone
    for task, episode, seen in alone:
        (step,) = (mark["step"] for mark in marks(episode))
        (action,) = (action for action in seen if action.step == step)
        assert clause in broken(action, "known"), task.task_id


@pytest.mark.parametrize(
    ("fault", "clause"),
    [
        ("book_for_another_patient", "scope.one_patient"),
        ("move_to_taken_slot", "reschedule.no_conflict"),
        ("book_taken_slot", "schedule.slot_free"),
        ("other_medication", "supplier.from_catalogue"),
        ("medication_not_prescribed", "supplier.on_record"),
    ],
)
def test_the_true_world_finds_these(spoilt, fault, clause):
    assert spoilt[fault]
    for task, episode, seen in spoilt[fault]:
        steps = {mark["step"] for mark in marks(episode)}
        assert any(clause in broken(action) for action in seen if action.step in steps), task.task_id


def test_nothing_before_a_fault_is_called_wrong(spoilt):
    for fault, episodes in spoilt.items():
        for task, episode, seen in episodes:
            first = min(mark["step"] for mark in marks(episode))
            for action in seen:
                if action.step < first:
                    assert action.result is None or action.result.ok
                    assert broken(action) == [], (fault, task.task_id, action)


def test_noise_of_all_faults_together(telehealth, practice, everything):
    faulty = 0
    for task in everything[::3]:
        episode = play(telehealth, practice, task, trial=1, fault_rate=0.6)
        faulty += bool(marks(episode))
        first = min((mark["step"] for mark in marks(episode)), default=len(episode.messages))
        for action in watch(telehealth, practice, episode):
            if action.step < first:
                assert broken(action) == [], (task.task_id, action)
        assert episode.reward == 1 or marks(episode), task.task_id
    assert faulty > 50


def test_a_larger_practice_has_more_patients_who_ask(telehealth):
    larger = build(telehealth, seed=5, scale=4)
    made = list(tasks(telehealth, larger, seed=5))
    assert len(made) > 1500
    assert len({task.task_id for task in made}) == len(made)
    again = tasks(telehealth, build(telehealth, seed=5, scale=4), seed=5)
    assert [task.task_id for task in again] == [task.task_id for task in made]
    for task in made[::41]:
        episode = play(telehealth, larger, task)
        assert episode.reward == 1, task.task_id
        assert all(not broken(action) for action in watch(telehealth, larger, episode)), task.task_id
