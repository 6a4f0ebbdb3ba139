"""Tasks from templates, scripted episodes, planted faults, and their replay."""

import json

import pytest
from castline.engine.world import build, play, replay, tasks
from castline.engine.world.verify import verify
from castline.engine.world.watch import watch
from castline.specs import Domain, load_domain


def template(shop: Domain, **changes) -> Domain:
    return shop.model_copy(update={"tasks": (shop.tasks[0].model_copy(update=changes),)})


def ids(domain: Domain, image, **how) -> list[str]:
    return [task.task_id for task in tasks(domain, image, **how)]


def test_a_template_gives_a_task_for_each_row_with_an_id_of_its_own(shop, image):
    made = list(tasks(shop, image))
    assert [task.template for task in made] == ["cancel", "cancel", "cancel", "changed_mind"]
    assert len({task.task_id for task in made}) == 4
    assert made[0].goal == "You want to cancel order O1."
    assert made[0].scenario == "You want to cancel order O1. Your address: ada@example.org."
    assert made[0].says == ("4.5",)
    # Nothing but the row decides the id: neither the other rows nor the order.
    backwards = template(
        shop, for_each=shop.tasks[0].for_each.replace("ORDER BY order_id", "ORDER BY order_id DESC")
    )
    assert ids(backwards, image) == ids(template(shop), image)[::-1]


def test_limit_takes_the_first_and_sample_draws_by_the_seed(shop, image):
    every = ids(template(shop), image)
    assert ids(template(shop, limit=2), image) == every[:2]
    assert ids(shop, image, most=1) == [every[0], ids(shop, image)[3]]
    assert ids(shop, image, template=1) == ids(shop, image)[3:]
    drawn = [tuple(ids(template(shop, sample=1), image, seed=seed)) for seed in range(12)]
    assert drawn == [tuple(ids(template(shop, sample=1), image, seed=seed)) for seed in range(12)]
    assert {task for (task,) in drawn} == set(every)


def test_a_text_that_is_one_expression_keeps_its_type(shop, image):
    action = (
        shop.tasks[0]
        .actions[0]
        .model_copy(
            update={
                "arguments": {
                    "a": "{{ number | fromjson }}",
                    "b": " {{ price }} ",
                    "c": ["{{ price }} EUR", 1, None],
                }
            }
        )
    )
    (task, *_) = tasks(template(shop, actions=(action,)), image)
    assert task.actions[0].arguments == {"a": 4.5, "b": 4.5, "c": ["4.5 EUR", 1, None]}


def test_a_good_agent_gets_reward_1_and_no_check_objects(shop, image):
    for task in tasks(shop, image):
        for trial in range(3):
            episode = play(shop, image, task, trial=trial)
            assert (episode.reward, episode.outcome.checks) == (1.0, None)
            seen = watch(shop, image, episode)
            assert all(action.result.ok for action in seen if action.result)
            assert {finding.verdict for action in seen for finding in (*action.known, *action.true)} <= {
                "kept"
            }
    assert seen


def test_a_user_who_declines_is_left_alone(shop, image):
    (task,) = [task for task in tasks(shop, image) if task.declines]
    episode = play(shop, image, task)
    assert [call.name for message in episode.messages for call in message.calls] == ["find_user", "get_order"]
    assert episode.outcome.expected_actions == ()


def test_an_episode_is_the_same_each_time_and_trials_differ(shop, image):
    task = next(tasks(shop, image))
    assert play(shop, image, task) == play(shop, image, task)
    texts = {
        json.dumps([m.content for m in play(shop, image, task, trial=trial).messages]) for trial in range(8)
    }
    assert len(texts) > 1


@pytest.mark.parametrize("fault", ["other_order", "forgotten", "unidentified", "twice"])
def test_a_planted_fault_is_recorded_where_it_is(shop, image, fault):
    (only,) = [item for item in shop.faults if item.id == fault]
    domain = shop.model_copy(update={"faults": (only,)})
    task = next(tasks(shop, image))
    episode = play(domain, image, task, fault_rate=1.0)
    assert episode.outcome.checks is not None
    (planted,) = episode.outcome.checks["faults"]
    assert (planted["fault"], planted["error"]) == (fault, only.error)
    message = episode.messages[planted["step"]]
    right = {"order_id": "O1", "reason": "mistake"}
    if fault == "forgotten":
        assert (planted["call"], planted["tool"]) == (None, None)
        assert message.role == "assistant" and not message.calls
        assert all(call.name != "cancel_order" for item in episode.messages for call in item.calls)
    else:
        call = message.calls[planted["call"]]
        assert (call.name, planted["tool"], planted["right"]) == ("cancel_order", "cancel_order", right)
        assert (call.arguments == right) == (fault != "other_order")
    made = [call.name for item in episode.messages for call in item.calls]
    assert made.count("cancel_order") == {"twice": 2, "forgotten": 0}.get(fault, 1)
    # An order is not looked up either while nobody knows whose it is.
    assert (made[0] == "find_user") == (fault != "unidentified")


def test_noise_comes_at_its_rate(shop, image):
    made = [task for task in tasks(shop, image) if not task.declines]
    for rate, least, most in ((0.0, 0, 0), (0.3, 10, 40), (1.0, 80, 90)):
        episodes = [play(shop, image, task, trial=n, fault_rate=rate) for task in made for n in range(30)]
        assert least <= sum(episode.outcome.checks is not None for episode in episodes) <= most


def test_replaying_an_episode_gives_its_results_and_its_reward(shop, image):
    episodes = [
        play(shop, image, task, trial=n, fault_rate=0.5) for task in tasks(shop, image) for n in range(4)
    ]
    found = replay(shop, image, episodes)
    assert (found.matched, found.rewards_agree, found.evaluated) == (found.calls, found.runs, 16)
    assert found.differences == [] and found.disagreements == [] and found.quarantined == {}


def test_a_replay_says_where_a_recorded_result_is_another(shop, image):
    episode = play(shop, image, next(tasks(shop, image)))
    steps = [n for n, message in enumerate(episode.messages) if message.answers and '"O1"' in message.content]
    changed = [
        message.model_copy(update={"content": '{"order_id": "O1", "status": "lost"}'})
        if n in steps
        else message
        for n, message in enumerate(episode.messages)
    ]
    found = replay(shop, image, [episode.model_copy(update={"messages": tuple(changed), "reward": 0.0})])
    (difference, later) = found.differences
    assert (difference.tool, difference.arguments, difference.first) == (
        "get_order",
        {"order_id": "O1"},
        True,
    )
    assert (difference.step, 0) == episode.messages[steps[0]].answers
    assert (later.tool, later.first) == ("cancel_order", False)
    assert (found.calls - found.matched, found.rewards_agree) == (2, 0)
    assert found.disagreements[0]["derived"] == 1.0


def test_a_task_whose_expected_action_fails_is_set_aside(shop, image):
    episode = play(shop, image, next(tasks(shop, image)))
    wrong = ({"name": "cancel_order", "arguments": {"order_id": "O2", "reason": "late"}},)
    outcome = episode.outcome.model_copy(update={"expected_actions": wrong})
    found = replay(shop, image, [episode.model_copy(update={"outcome": outcome})])
    assert list(found.quarantined) == [episode.task_id]


def changed(shop_folder, tmp_path, old: str, new: str) -> list:
    text = (shop_folder / "domain.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "domain.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "users.csv").write_text((shop_folder / "users.csv").read_text(encoding="utf-8"))
    return [(problem.message, problem.snippet) for problem in verify(load_domain(tmp_path))]


def test_a_world_that_holds_together_has_no_problems(shop_folder, tmp_path):
    assert changed(shop_folder, tmp_path, "name: shop", "name: shop") == []


@pytest.mark.parametrize(
    ("old", "new", "says", "at"),
    [
        (
            "WHERE status = 'open' ORDER",
            "WHERE status <> 'x' ORDER",
            "fails (guard): Error: order O2 is sent",
            "cancel_order",
        ),
        ("status <> 'open'\n", "status = 'open'\n", "a good agent breaks `cancel.open`", "cancel_order"),
        (
            "SELECT status IS NOT NULL FROM",
            "SELECT 0 FROM",
            "cannot know whether `cancel_order` keeps `cancel.open`",
            "cancel_order",
        ),
        (
            "violated_when: SELECT 1 WHERE NOT",
            "violated_when: SELECT json('x') WHERE",
            "cannot be checked",
            "found.first",
        ),
        (
            "cancel_order, drop: authentication",
            "cancel_order, drop: confirmation",
            "`unidentified` is not found",
            "unid",
        ),
        (
            "returns: SELECT body FROM orders WHERE order_id = :order_id\n    reveals",
            "returns: SELECT json_set(body, '$.price', 1) FROM orders WHERE order_id = :order_id"
            "\n    reveals",
            "is known as",
            "reveals: {orders",
        ),
        (
            'says: ["{{ price }}"]',
            'says: ["{{ price }}"]\n    ends: {tool: get_stock}',
            "gets no reward",
            "- id: cancel",
        ),
        ("WHERE order_id = 'O1'\n    user", "WHERE order_id = 'O9'\n    user", "yields no row", "for_each"),
        (
            "draw(10, 'pieces', sku) + 1",
            "CAST(random() * 1e9 AS BIGINT)",
            "another one each time",
            "generate",
        ),
        (
            "goal: You want to cancel order {{ order_id }}.",
            "goal: '{{ price.cents.more }}'",
            "cannot be made",
            "goal",
        ),
    ],
)
def test_what_does_not_hold_together_is_said_at_its_place(shop_folder, tmp_path, old, new, says, at):
    found = [snippet for message, snippet in changed(shop_folder, tmp_path, old, new) if says in message]
    assert found and any(at in str(snippet) for snippet in found), changed(shop_folder, tmp_path, old, new)


def test_the_world_of_another_seed_is_played_as_well(shop):
    other = build(shop, seed=5, scale=3)
    assert all(play(shop, other, task, seed=5).reward == 1 for task in tasks(shop, other, seed=5))
