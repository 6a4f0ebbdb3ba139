"""A domain's own template: what it may replace, what it may not reach, and what a mistake in it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from castline.engine.rationales import TooLong, prompt
from castline.engine.rationales.prompt import CHAT_MARKUP
from castline.engine.trajectories import Message, ToolCall, Trajectory
from castline.engine.views import view
from castline.specs import PROMPT_NAMES, Domain, UserError, load_domain

LIBRARY = load_domain(Path(__file__).parents[3] / "domains" / "library")
CALL = ToolCall(name="renew_loan", arguments={"loan_id": "L1"})
RUN = Trajectory(
    trajectory_id="t",
    domain="library",
    source="test",
    messages=(
        Message(role="user", content="Please renew L1."),
        Message(role="assistant", calls=(ToolCall(name="get_account", arguments={}),)),
        Message(role="tool", content=json.dumps({"loans": ["L1"] * 400}), answers=(1, 0), actor="agent"),
        Message(role="assistant", calls=(CALL,)),
    ),
)


def domain(template: str, **parts) -> Domain:
    return Domain.model_validate(
        {**LIBRARY.model_dump(by_alias=True), "prompts": {"critic": template}, **parts}
    )


def asked(template: str, context: int = 8192, **parts) -> list[tuple[str, str]]:
    seen = view(RUN, 3, "critic", domain(template, **parts))
    built = prompt(seen, context=context, count_tokens=lambda text: len(text) // 4 + 1)
    assert built.tokens + CHAT_MARKUP + built.max_tokens <= context
    return [(message["role"], message["content"]) for message in built.messages]


def test_a_template_replaces_the_prompt_and_without_a_system_part_is_one_message():
    assert asked("Judge {{ action }} by {{ clauses | map(attribute='id') | join(', ') }}.") == [
        (
            "user",
            'Judge calls renew_loan {"loan_id":"L1"} by identity.first, identity.own_account, '
            "confirm.changes, confirm.yes, renew.limit, renew.waiting.",
        )
    ]


def test_a_template_extends_the_shipped_one_block_by_block():
    system, user = asked(
        '{% extends "critic.jinja" %}{% block system %}{{ super() }}\nBe brief.{% endblock %}'
    )
    assert system[0] == "system" and system[1].startswith("You are a critic.")
    assert system[1].endswith("\nBe brief.")
    shipped = prompt(view(RUN, 3, "critic", LIBRARY), context=32768, count_tokens=len).messages
    assert user == ("user", shipped[1]["content"])
    (_, first), (_, second) = asked('{% extends "critic.jinja" %}{% block system %}Only this.{% endblock %}')
    assert first == "Only this."
    assert second == user[1]


def test_every_documented_name_is_there():
    ((_, text),) = asked(
        "".join(f"<{{{{ {name} }}}}>" for name in PROMPT_NAMES).replace(" notes ", " notes | list ")
    )
    assert all(part in text for part in ("library", "critic", "[0] user", "renew.limit", "loop", "risk"))


def test_a_field_without_a_description_is_named_all_the_same():
    (_, system), _ = asked('{% extends "critic.jinja" %}', rationale={"risk": {"enum": ["low", "high"]}})
    assert "- risk: as its choices say" in system


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ action", "cannot be read: "),
        ("{% block a %}{% block a %}", "cannot be read: "),
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ domain.secret }}", "no attribute 'secret'"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ action + 1 }}", "str"),
        ("{{ transcript.__class__ }}", "unsafe"),
        ("{{ domain.__init__.__globals__ }}", "unsafe|no attribute"),
        ("{{ ''.format.__self__ }}", "unsafe|no attribute"),
        ("{{ clauses.append(1) }}", "unsafe"),
        ("{{ domain.tools[0].update({}) }}", "unsafe"),
        ("{{ domain.source.read_text() }}", "no attribute 'source'"),
        ("{{ tools[0].model_dump() }}", "no attribute 'model_dump'"),
        ("{{ tools[0].parse_file('/etc/hostname') }}", "no attribute 'parse_file'"),
        ("{{ range(10 ** 9) | list }}", "too big|range"),
        ("{% extends 'judge.jinja' %}", "no template judge.jinja"),
        ("{% include '../prompt.py' %}", "no template ../prompt.py"),
        ("{% include '../../../specs/domain.py' %}", "no template"),
        ("{% include '/etc/hostname' %}", "no template"),
        ("{% include 'critic.jinja/../../prompt.py' %}", "no template"),
    ],
)
def test_a_broken_or_prying_template_is_the_users_mistake(template, reason):
    with pytest.raises(UserError, match="the prompt of 'critic'") as caught:
        asked(template)
    assert re.search(reason, caught.value.message), caught.value.message


def test_what_a_role_does_not_see_no_template_shows():
    blind = {"roles": {"critic": {"sees": ["messages"]}}}
    ((_, text),) = asked("{{ domain }} {{ clauses }} {{ tools }}", observability=blind)
    assert "renew.limit" not in text
    assert "get_account" not in text
    ((_, text),) = asked("{{ domain }}")
    assert "renew.limit" in text and "get_account" in text
    assert "card_number" not in text


def test_a_template_that_repeats_the_conversation_still_fits():
    ((_, text),) = asked("{{ transcript }}\n----\n{{ transcript }} {{ action }}", context=3_500)
    assert text.count("(left out)") == 2
    ((_, text),) = asked("{{ transcript }}\n----\n{{ transcript }} {{ action }}", context=8_000)
    assert "(left out)" not in text
    with pytest.raises(TooLong):
        asked("{{ 'word ' * 5000 }}", context=8_000)


def test_a_role_without_a_template_asks_for_one():
    with pytest.raises(UserError, match="no prompt for the role 'agent'") as caught:
        prompt(view(RUN, 3, "agent", LIBRARY), context=8192, count_tokens=len)
    assert "prompts:" in (caught.value.hint or "")


def test_no_template_shows_how_the_world_is_simulated_or_checked():
    hidden = LIBRARY.tool("renew_loan")
    assert hidden is not None and hidden.simulate is not None and LIBRARY.state
    told = " ".join(text for _, text in asked("{{ domain }} {{ clauses }} {{ tools }} {{ fields }}"))
    for word in (
        "simulate",
        "guards",
        "reveals",
        "violated_when",
        "needs",
        "state",
        "faults",
        *LIBRARY.state,
    ):
        assert f"'{word}'" not in told
