"""The teaching pack: its examples are what they claim to be, and exercise what they are there to show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from castline.engine.world import Environment, build, play, tasks
from castline.engine.world.replay import same_result
from castline.specs import load_domain, validate_arguments

LIBRARY = Path(__file__).parents[2] / "domains" / "library"


@pytest.fixture(scope="module")
def library():
    return load_domain(LIBRARY)


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    return json.loads((LIBRARY / "examples" / "trajectories.json").read_text())


def calls(run: dict) -> list[tuple[int, str, dict]]:
    """(message index, tool name, arguments) of every tool call of a run, in order."""
    return [
        (index, call["function"]["name"], json.loads(call["function"]["arguments"]))
        for index, message in enumerate(run["traj"])
        for call in message.get("tool_calls") or []
    ]


def run_of(runs: list[dict], task_id: int, trial: int) -> dict:
    return next(run for run in runs if (run["task_id"], run["trial"]) == (task_id, trial))


def visible_before(run: dict, index: int) -> str:
    return "\n".join(message["content"] or "" for message in run["traj"][:index])


def test_the_pack_is_small_enough_to_teach(library):
    assert len(library.tools) == 6
    assert len(library.policies) == 10
    assert sum(clause.violated_when is not None for clause in library.policies) == 6
    assert all(tool.simulate for tool in library.tools)
    assert {tool.effect for tool in library.tools} == {"read", "write", "irreversible", "none"}
    assert {clause.severity for clause in library.policies} == {"blocking", "costly", "minor"}


def test_each_of_three_tasks_succeeds_once_and_fails_once(runs):
    outcomes = {(run["task_id"], run["trial"]): run["reward"] for run in runs}
    assert outcomes == {(0, 0): 1.0, (0, 1): 0.0, (1, 0): 1.0, (1, 1): 0.0, (2, 0): 1.0, (2, 1): 0.0}
    assert all(run["info"]["reward_info"]["reward"] == run["reward"] for run in runs)


def test_runs_have_the_shape_of_a_tau_bench_results_file(runs):
    for run in runs:
        assert run.keys() == {"task_id", "trial", "reward", "info", "traj"}
        assert run["info"].keys() == {"task", "source", "user_cost", "reward_info"}
        assert run["info"]["task"].keys() == {"user_id", "actions", "instruction", "outputs"}
        assert run["info"]["reward_info"].keys() == {"reward", "info", "actions"}
        roles = [message["role"] for message in run["traj"]]
        assert roles[:2] == ["system", "user"]
        assert 8 <= len(roles) <= 16
        last = run["traj"][-1]
        assert "###STOP###" in last["content"] or last["name"] == "escalate"


def test_every_call_is_answered_next_and_fits_its_tool(library, runs):
    tools = {tool.name: tool for tool in library.tools}
    for run in runs:
        for index, name, arguments in calls(run):
            assert validate_arguments(tools[name], arguments) == []
            call, answer = run["traj"][index]["tool_calls"][0], run["traj"][index + 1]
            assert run["traj"][index]["content"] is None
            assert (answer["role"], answer["name"], answer["tool_call_id"]) == ("tool", name, call["id"])
            json.loads(answer["content"])


def test_every_id_in_an_argument_was_shown_before(runs):
    for run in runs:
        for index, _, arguments in calls(run):
            for name, value in arguments.items():
                if name.endswith("_id") or name == "email":
                    assert value in visible_before(run, index)


def test_the_expected_actions_are_calls_of_the_successful_run(runs):
    for run in runs:
        expected = [(action["name"], action["kwargs"]) for action in run["info"]["task"]["actions"]]
        assert run["info"]["reward_info"]["actions"] == run["info"]["task"]["actions"]
        made = [(name, arguments) for _, name, arguments in calls(run) if name != "escalate"]
        assert (made == expected) == (run["reward"] == 1.0)


def test_one_failed_run_renews_past_the_limit(runs):
    run = run_of(runs, 0, 1)
    account = json.loads(next(m["content"] for m in run["traj"] if m.get("name") == "get_account"))
    assert ("renew_loan", {"loan_id": "L2041"}) in [call[1:] for call in calls(run)]
    assert [loan["renewals"] for loan in account["loans"] if loan["loan_id"] == "L2041"] == [2]


def test_one_failed_run_renews_another_loan_than_the_one_agreed_on(runs):
    run = run_of(runs, 1, 1)
    account = json.loads(next(m["content"] for m in run["traj"] if m.get("name") == "get_account"))
    titles = {loan["loan_id"]: loan["title"] for loan in account["loans"]}
    index, _, arguments = next(call for call in calls(run) if call[1] == "renew_loan")
    agreed = run["traj"][index - 2]["content"]
    assert titles[arguments["loan_id"]] not in agreed
    assert [title for title in titles.values() if title in agreed] == ["Salt Roads"]


def test_one_failed_run_cancels_a_hold_before_the_patron_was_asked(runs):
    run = run_of(runs, 2, 1)
    index = next(index for index, name, _ in calls(run) if name == "cancel_hold")
    said = [
        message for message in run["traj"][:index] if message["role"] == "assistant" and message["content"]
    ]
    assert said == []


def test_a_card_number_is_there_to_be_redacted(library, runs):
    (redaction,) = library.observability.redact
    assert (redaction.tool, redaction.path) == ("find_patron", "/card_number")
    for run in runs:
        shown = [json.loads(m["content"]) for m in run["traj"] if m.get("name") == "find_patron"]
        assert all(patron["card_number"] for patron in shown) and shown
        (number,) = {patron["card_number"] for patron in shown}
        mentions = [m for m in run["traj"] if number in json.dumps(m)]
        assert [m.get("name") for m in mentions] == ["find_patron"]


def test_the_simulated_desk_gives_the_results_of_the_examples(library, runs):
    image = build(library)
    for run in runs:
        environment = Environment(library, image)
        for index, name, arguments in calls(run):
            given = environment.step(name, arguments)
            assert given.ok
            assert same_result(run["traj"][index + 1]["content"], given.text), (run["task_id"], name)


def test_a_good_agent_solves_every_task(library):
    image = build(library)
    made = list(tasks(library, image))
    assert {task.template for task in made} == {template.id for template in library.tasks}
    assert [task.task_id for task in made if play(library, image, task).reward != 1] == []
