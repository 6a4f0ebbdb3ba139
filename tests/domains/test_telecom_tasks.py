"""The telecom tasks and faults: good agents succeed and break nothing, and what is wrong shows itself."""

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
def telecom():
    return load_domain(Path(__file__).parents[2] / "domains" / "telecom")


@pytest.fixture(scope="module")
def image(telecom):
    return build(telecom)


@pytest.fixture(scope="module")
def chosen(telecom, image):
    return list(tasks(telecom, image))


@pytest.fixture(scope="module")
def planted(telecom, image, chosen):
    """Faulty episodes by fault; each fault is the only one that can happen in its episodes."""
    return {fault.id: uses(telecom, image, fault, chosen, USES) for fault in telecom.faults}


def wrong(action) -> list[str]:
    """What the checks hold against an action."""
    found = [finding.clause for finding in (*action.known, *action.true) if finding.verdict == "violated"]
    if action.result is not None and not action.result.ok:
        found.append(action.result.text)
    return found


def test_the_tasks_are_of_all_kinds(telecom, chosen):
    assert len(telecom.tasks) >= 8 and len(chosen) >= 60
    assert {task.template for task in chosen} == {template.id for template in telecom.tasks}
    changing = {tool.name for tool in telecom.tools if tool.effect in ("write", "irreversible")}
    assert {call.tool for task in chosen for call in task.actions} == changing
    kinds = {
        "several actions": [task for task in chosen if len(task.actions) > 1],
        "declined": [task for task in chosen if task.declines],
        "looked up": [task for task in chosen if not task.actions and task.says],
        "refused": [task for task in chosen if not task.actions and task.answer and not task.says],
        "unidentified": [task for task in chosen if task.lacks],
    }
    assert all(kinds.values()), kinds
    assert len({task.goal for task in chosen}) > len(chosen) / 2
    assert all(task.opens != task.goal for task in chosen)


def test_a_good_agent_does_every_task_and_breaks_nothing(telecom, image, chosen):
    for task in chosen:
        episode = play(telecom, image, task)
        assert episode.reward == 1, task.task_id
        for action in watch(telecom, image, episode):
            assert wrong(action) == [], (task.task_id, action)
            assert all(finding.verdict == "kept" for finding in action.known), (task.task_id, action)


def test_only_the_customer_operates_the_phone(telecom, image, chosen):
    own = {tool.name for tool in telecom.tools if tool.actor == "user"}
    operated = set()
    for task in chosen:
        if {call.tool for call in (*task.reads, *task.actions)} & own:
            for message in play(telecom, image, task).messages:
                for call in message.calls:
                    assert (message.role == "user") == (call.name in own)
                    operated.add(call.name)
    assert own <= operated


def test_every_fault_can_be_planted(telecom, planted):
    assert len(telecom.faults) >= 12
    assert sum(map(len, planted.values())) > 300
    assert [fault for fault, episodes in planted.items() if not episodes] == []
    kinds = {fault.error for fault in telecom.faults}
    assert {"swapped_entity", "stale_value", "unconfirmed", "unauthenticated", "premature_end"} <= kinds
    assert {"wrong_device", "devices_dropped", "duplicate_ticket", "misjudged_urgency"} <= kinds


def test_what_is_wrong_shows_itself_without_being_told(telecom, image, planted):
    for fault, episodes in planted.items():
        found = [noticed(telecom, image, episode, set()) for _, episode in episodes]
        assert sum(found) >= 0.98 * len(found), fault


def test_nothing_before_a_fault_is_called_wrong(telecom, image, planted):
    for fault, episodes in planted.items():
        for task, episode in episodes:
            first = min(entry["step"] for entry in episode.outcome.checks["faults"])
            for action in watch(telecom, image, episode):
                if action.step < first:
                    assert wrong(action) == [], (fault, task.task_id, action)


def test_noise_of_all_faults_together(telecom, image, chosen):
    """A call in the middle of an episode is right only if nothing was spoilt before it."""
    faulty = 0
    for task in chosen:
        episode = play(telecom, image, task, trial=1, fault_rate=0.5)
        entries = (episode.outcome.checks or {}).get("faults", [])
        faulty += bool(entries)
        first = min((entry["step"] for entry in entries), default=len(episode.messages))
        seen = watch(telecom, image, episode)
        assert all(not wrong(action) for action in seen if action.step < first), task.task_id
        assert episode.reward == 1 or entries
    assert faulty > 50


def test_a_larger_world_has_more_tasks_with_ids_that_stay(telecom):
    larger = build(telecom, seed=3, scale=4)
    made = list(tasks(telecom, larger))
    assert len(made) > 500
    assert len({task.task_id for task in made}) == len(made)
    again = list(tasks(telecom, build(telecom, seed=3, scale=4)))
    assert [task.task_id for task in again] == [task.task_id for task in made]
    for task in made[::23]:
        assert play(telecom, larger, task).reward == 1, task.task_id
