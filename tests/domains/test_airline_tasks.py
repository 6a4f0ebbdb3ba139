"""The airline's tasks and faults: good agents succeed and break nothing, and what is spoilt shows itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from castline.engine.world import build, play, tasks
from castline.engine.world.verify import noticed, uses
from castline.engine.world.watch import watch
from castline.specs import load_domain

USES = 8
"""Of each fault; in all more than 300 episodes."""


@pytest.fixture(scope="module")
def airline():
    return load_domain(Path(__file__).parents[2] / "domains" / "airline")


@pytest.fixture(scope="module")
def image(airline):
    return build(airline)


@pytest.fixture(scope="module")
def chosen(airline, image):
    return list(tasks(airline, image))


@pytest.fixture(scope="module")
def planted(airline, image, chosen):
    """Faulty episodes by fault; each fault is the only one that can happen in its episodes."""
    return {fault.id: uses(airline, image, fault, chosen, USES) for fault in airline.faults}


def wrong(action) -> list[str]:
    """What the checks in either world, the schema and the guards hold against an action."""
    found = [finding.clause for finding in (*action.known, *action.true) if finding.verdict == "violated"]
    if action.result is not None and not action.result.ok:
        found.append(action.result.text)
    return found


def test_the_tasks_are_of_all_kinds(airline, chosen):
    assert len(airline.tasks) >= 8 and len(chosen) >= 60
    assert {task.template for task in chosen} == {template.id for template in airline.tasks}
    changing = {tool.name for tool in airline.tools if tool.effect in ("write", "irreversible")}
    assert {call.tool for task in chosen for call in task.actions} == changing
    kinds = {
        "several actions": [task for task in chosen if len(task.actions) > 1],
        "declined": [task for task in chosen if task.declines],
        "looked up": [task for task in chosen if not task.actions and task.says],
        "refused": [task for task in chosen if not task.actions and task.answer and not task.says],
        "handed over": [task for task in chosen if task.ends],
    }
    assert all(kinds.values()), kinds
    assert all(task.opens != task.goal for task in chosen)


def test_no_customer_gives_their_id_unasked(chosen):
    assert not [task.task_id for task in chosen if task.knows.get("user id", "never") in task.opens]


def test_a_good_agent_does_every_task_and_breaks_nothing(airline, image, chosen):
    for task in chosen:
        episode = play(airline, image, task)
        assert episode.reward == 1, task.task_id
        for action in watch(airline, image, episode):
            assert wrong(action) == [], (task.task_id, action)
            assert all(finding.verdict == "kept" for finding in action.known), (task.task_id, action)
            assert action.mismatches == (), (task.task_id, action)


def test_every_fault_can_be_planted(airline, planted):
    assert len(airline.faults) >= 12
    assert sum(map(len, planted.values())) > 300
    assert [fault for fault, episodes in planted.items() if not episodes] == []
    kinds = {fault.error for fault in airline.faults}
    assert {"swapped_entity", "stale_value", "unconfirmed", "unauthenticated", "premature_end"} <= kinds
    assert {kind.id for kind in airline.errors} <= kinds


def test_what_is_wrong_shows_itself_without_being_told(airline, image, planted):
    for fault, episodes in planted.items():
        found = [noticed(airline, image, episode, set()) for _, episode in episodes]
        assert sum(found) >= 0.98 * len(found), fault


def test_a_spoilt_call_is_not_the_right_one(airline, planted):
    """An argument that is replaced gets a value, and another one."""
    for fault in airline.faults:
        if fault.argument is not None:
            for task, episode in planted[fault.id]:
                for entry in episode.outcome.checks["faults"]:
                    made = episode.messages[entry["step"]].calls[0].arguments[fault.argument]
                    assert made not in (None, [], entry["right"][fault.argument]), (fault.id, task.task_id)


def test_nothing_before_a_fault_is_called_wrong(airline, image, chosen):
    faulty = 0
    for trial in (1, 2):
        for task in chosen:
            episode = play(airline, image, task, trial=trial, fault_rate=0.5)
            entries = (episode.outcome.checks or {}).get("faults", [])
            faulty += bool(entries)
            first = min((entry["step"] for entry in entries), default=len(episode.messages))
            seen = watch(airline, image, episode)
            assert all(not wrong(action) for action in seen if action.step < first), task.task_id
            assert episode.reward == 1 or entries, task.task_id
    assert faulty > 100


def test_a_larger_world_has_more_tasks_with_ids_that_stay(airline):
    larger = build(airline, seed=3, scale=4)
    made = list(tasks(airline, larger))
    assert len(made) > 800
    assert len({task.task_id for task in made}) == len(made)
    again = list(tasks(airline, build(airline, seed=3, scale=4)))
    assert [task.task_id for task in again] == [task.task_id for task in made]
    for task in made[::23]:
        assert play(airline, larger, task).reward == 1, task.task_id
