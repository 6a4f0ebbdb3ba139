"""Retail's tasks and faults: a good agent does all right, and what is spoilt is found by checks not told of it."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from castline.engine.trajectories import Trajectory
from castline.engine.world import Image, build, play, tasks
from castline.engine.world.tasks import Task
from castline.engine.world.verify import FOUND, noticed, uses
from castline.engine.world.watch import Watched, watch
from castline.specs import Domain, load_domain

RETAIL = Path(__file__).parents[2] / "domains" / "retail"


@pytest.fixture(scope="module")
def retail() -> Domain:
    return load_domain(RETAIL)


@pytest.fixture(scope="module")
def shop(retail) -> Image:
    return build(retail)


@pytest.fixture(scope="module")
def made(retail, shop) -> list[Task]:
    return list(tasks(retail, shop))


def wrong(action: Watched, *worlds: str) -> list[str]:
    """What is against an action: how it failed, and the clauses not kept in any of the worlds."""
    failed = [action.result.text] if action.result is not None and not action.result.ok else []
    return failed + [
        finding.clause for world in worlds for finding in getattr(action, world) if finding.verdict != "kept"
    ]


def test_a_good_agent_solves_every_task_and_breaks_nothing_in_either_world(retail, shop, made):
    for task in made:
        episode = play(retail, shop, task)
        assert episode.reward == 1 and episode.outcome.checks is None, task.task_id
        for action in watch(retail, shop, episode):
            assert wrong(action, "known", "true") == [], (task.task_id, action.step)
            assert action.mismatches == (), (task.task_id, action.step)


def test_there_are_tasks_of_every_kind(retail, made):
    of_kind = Counter(task.template for task in made)
    assert len(retail.tasks) >= 8 and len(made) >= 60 and min(of_kind.values()) > 3
    called = {call.tool for task in made for call in (*task.reads, *task.actions)}
    assert {tool.name for tool in retail.tools if tool.effect != "none"} - called == {
        "list_all_product_types"
    }
    for kind in (
        lambda task: len(task.actions) > 1,
        lambda task: not task.actions and task.answer and not task.says,
        lambda task: task.declines,
        lambda task: not task.actions and task.says,
        lambda task: task.ends is not None,
        lambda task: "e-mail address" in task.lacks,
    ):
        assert any(kind(task) for task in made)


def test_a_larger_shop_has_more_tasks_with_ids_that_stay(retail):
    large = build(retail, scale=2)
    ids = [task.task_id for task in tasks(retail, large)]
    assert len(ids) == len(set(ids)) > 600
    assert ids == [task.task_id for task in tasks(retail, build(retail, scale=2))]


def test_each_fault_is_found_by_something_that_is_not_told_of_it(retail, shop, made):
    assert len(retail.faults) >= 12
    for number, fault in enumerate(retail.faults):
        # Other tasks for each, so that together they see most.
        turned = made[number * 17 % len(made) :] + made[: number * 17 % len(made)]
        planted = uses(retail, shop, fault, turned, 8)
        found = sum(noticed(retail, shop, episode, set()) for _, episode in planted)
        assert len(planted) == 8 and found == 8, fault.id


@pytest.fixture(scope="module")
def noisy(retail, shop, made) -> list[tuple[Trajectory, list[Watched]]]:
    """Episodes with at least one fault, each with what was seen of it."""
    chosen = [(task, trial) for trial in (1, 2) for task in made if task.actions]
    played = (play(retail, shop, task, trial=trial, fault_rate=0.7) for task, trial in chosen)
    spoilt = itertools.islice((episode for episode in played if episode.outcome.checks), 320)
    return [(episode, watch(retail, shop, episode)) for episode in spoilt]


def test_what_a_noisy_agent_spoils_is_found_at_its_step_or_by_the_outcome(noisy):
    planted, found, kinds = 0, 0, set()
    for episode, seen in noisy:
        at = {action.step: action for action in seen}
        for fault in episode.outcome.checks["faults"]:
            planted += 1
            kinds.add(fault["fault"])
            found += episode.reward != 1 or wrong(at[fault["step"]], "known", "true") != []
    assert len(noisy) > 300 and len(kinds) > 30
    assert found >= FOUND * planted


def test_nothing_is_held_against_what_a_noisy_agent_does_right(noisy):
    for episode, seen in noisy:
        spoilt = {fault["step"] for fault in episode.outcome.checks["faults"]}
        for action in seen:
            if action.step not in spoilt:
                assert wrong(action, "known", "true") == [], (episode.task_id, action.step)


def test_who_was_not_identified_is_not_identified_for_the_second_change_either(retail, shop, made):
    (unauthenticated,) = [fault for fault in retail.faults if fault.id == "unauthenticated"]
    alone = retail.model_copy(update={"faults": (unauthenticated,)})
    two = [task for task in made if len(task.actions) == 2]
    for trial in range(4):
        for task in two[:10]:
            episode = play(alone, shop, task, trial=trial, fault_rate=0.5)
            changes = [
                n
                for n, message in enumerate(episode.messages)
                if message.role == "assistant" and message.calls
            ]
            if episode.outcome.checks:
                marked = [fault["step"] for fault in episode.outcome.checks["faults"]]
                assert len(changes) == 2 and marked == changes


def test_a_second_change_needs_a_question_of_its_own(retail, shop, made):
    (unconfirmed,) = [fault for fault in retail.faults if fault.id == "unconfirmed"]
    alone = retail.model_copy(update={"faults": (unconfirmed,)})
    second = 0
    for task in made:
        if len(task.actions) == 2:
            episode = play(alone, shop, task, fault_rate=0.5)
            faults = (episode.outcome.checks or {"faults": []})["faults"]
            seen = {action.step: action for action in watch(retail, shop, episode)}
            for fault in faults:
                assert "confirm.before_change" in wrong(seen[fault["step"]], "known")
            second += len(faults) == 1 and faults[0]["right"] == task.actions[1].arguments
    assert second > 3
