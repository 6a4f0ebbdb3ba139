"""Each gate fails on what it is for, and on nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from castline.engine.audit import Audit, audit
from castline.engine.rationales import Prompt, Unreadable, decode, parse, prompt
from castline.engine.trajectories import Message, ToolCall, Trajectory
from castline.engine.views import StepView, view
from castline.specs import Domain, load_domain

LIBRARY = load_domain(Path(__file__).parents[2] / "domains" / "library")
ACCOUNT = {
    "patron_id": "P104",
    "loans": [{"loan_id": "L2041", "title": "Tidelands", "due": "2026-03-06", "renewals": 2}],
    "fees": [{"fee_id": "F208", "amount": 1234.5, "email": "ada@example.org"}],
    "cards": {"a/b": "gift_card_77"},
}
MESSAGES = (
    Message(role="user", content="Please renew Tidelands. It is order #W2378156 of 14 March."),
    Message(role="assistant", calls=(ToolCall(name="get_account", arguments={"patron_id": "P104"}),)),
    Message(role="tool", content=json.dumps(ACCOUNT), answers=(1, 0), actor="agent"),
    *(Message(role="user", content="Yes, please.") for _ in range(9)),
    Message(role="assistant", calls=(ToolCall(name="renew_loan", arguments={"loan_id": "L2041"}),)),
)
CLEAN: dict[str, Any] = {
    "evidence": ["2#/loans/0/renewals", "renew.limit"],
    "checks": {"grounding": "pass", "policy": "fail", "tool": "pass", "progress": "unknown"},
    "explanation": "Loan L2041 has been renewed 2 times already, which is the limit.",
    "error": "limit_exceeded",
    "clauses": ["renew.limit"],
    "verdict": "invalid",
    "fix": {"kind": "refuse", "hint": "Say that L2041 cannot be renewed again."},
    "confidence": 0.9,
    "risk": "low",
}
GATES = ("schema_valid", "references_visible", "literals_grounded", "consistent")


def seen_by(domain: Domain, messages=MESSAGES) -> tuple[StepView, Prompt]:
    run = Trajectory(trajectory_id="t", domain=domain.name, source="test", messages=messages)
    seen = view(run, len(messages) - 1, "critic", domain)
    return seen, prompt(seen, context=32768, count_tokens=len)


VIEW, PROMPT = seen_by(LIBRARY)


def audited(changes: dict[str, Any], seen: StepView = VIEW, built: Prompt = PROMPT) -> Audit:
    answer = {**CLEAN, **changes}
    return audit(parse(json.dumps(answer)), answer, built, seen)


def failing(found: Audit) -> list[str]:
    return [gate for gate in GATES if not getattr(found, gate)]


def test_a_clean_rationale_passes_every_gate():
    found = audited({})
    assert failing(found) == []
    assert found.findings == ()


def test_a_clean_valid_verdict_passes_too():
    passing = dict.fromkeys(CLEAN["checks"], "pass")
    found = audited(
        {
            "checks": passing,
            "explanation": "It is what the patron asked for.",
            "error": "none",
            "clauses": [],
            "verdict": "valid",
            "fix": {"kind": "none"},
        }
    )
    assert found.findings == ()


@pytest.mark.parametrize(
    ("gate", "changes"),
    [
        ("schema_valid", {"confidence": 0.42}),
        ("schema_valid", {"risk": "huge"}),
        ("schema_valid", {"explanation": ""}),
        ("schema_valid", {"explanation": "word " * 60}),
        ("schema_valid", {"clauses": ["renew.limit"] * 4}),
        ("schema_valid", {"error": "limit"}),
        ("schema_valid", {"fix": {"kind": "pray", "hint": "Hope."}}),
        ("schema_valid", {"fix": {"kind": "read_first", "tool": "renew_loan", "hint": "Read."}}),
        ("schema_valid", {"fix": {"kind": "revise_arguments", "hint": "Revise."}}),
        ("literals_grounded", {"explanation": "Loan L2042 has been renewed 2 times."}),
        ("literals_grounded", {"fix": {"kind": "refuse", "hint": "It is due on 2026-03-20."}}),
        ("consistent", {"verdict": "valid"}),
        ("consistent", {"error": "none"}),
        ("consistent", {"fix": {"kind": "none"}}),
        ("consistent", {"error": "ungrounded_value"}),
        ("consistent", {"checks": {**CLEAN["checks"], "policy": "pass"}}),
        ("consistent", {"checks": dict.fromkeys(CLEAN["checks"], "unknown")}),
        (
            "consistent",
            {"error": "stale_value", "checks": {**CLEAN["checks"], "grounding": "fail", "policy": "pass"}},
        ),
    ],
)
def test_a_planted_violation_fails_exactly_its_gate(gate, changes):
    found = audited(changes)
    assert failing(found) == [gate]
    assert found.findings


@pytest.mark.parametrize("evidence", [["12"], ["2#/loans/1/due"], ["2.7"], ["escalate"], ["identity.last"]])
def test_a_reference_to_what_is_not_visible_fails(evidence):
    found = audited({"evidence": evidence})
    assert failing(found) == ["schema_valid", "references_visible"]
    assert f"references: {evidence[0]} is not visible" in found.findings


def test_a_clause_that_does_not_govern_the_action_fails():
    found = audited({"clauses": ["fees.late_only"]})
    assert failing(found) == ["schema_valid", "references_visible"]
    assert "references: no clause fees.late_only governs this" in found.findings


@pytest.mark.parametrize(
    "text",
    [
        "The fee is 1234.50.",
        "The fee is 1,234.5, or $1,234.50!",
        "The fee is €1234.5",
        "L2041, l2041 and #L2041 are one loan.",
        "See #W2378156 (W2378156).",
        "Write to Ada@example.org.",
        "It was due on 2026-03-06.",
        "It was due on 2026\u201103\u201106.",
        "It was due on March 6th, 2026, the 06 of 03.",
        "The 2nd renewal, not the 3rd, of 10.",
        "The 14th, a loan of 14 days.",
        "The ids have at most 5 letters.",
        "\uff2c2041 is full-width.",
        "gift_card_77 pays.",
        "Renewed twice, so no.",
        "As [2] and [11] show.",
        "See message 11.",
        "2#/loans/0/due says so.",
        "The card (2#/cards/a~1b) and 2#/loans/0/due: both.",
        "As the second sentence, 0.2, says.",
        "“L2041” — \u2018P104\u2019…",
        "订单W2378156号",
    ],
)
def test_literals_with_a_visible_origin_pass(text):
    assert audited({"explanation": text}).findings == ()


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("Loan L2014 is meant.", "l2014"),
        ("The fee is 1243.50.", "1243.5"),
        ("The fee is $12,345.", "12345"),
        ("Fees of 1,234,50 apply.", "234"),
        ("Order #W2378165 is meant.", "w2378165"),
        ("Write to eve@example.org.", "eve@example.org"),
        ("It is due on 2026-03-14.", "2026-03-14"),
        ("It is due on 06.", None),
        ("The 21st is a holiday.", "21"),
        ("As [17] shows.", "17"),
        ("There are 11 messages.", "11"),
        ("As 2.9 shows.", "2.9"),
        ("It costs $0.2 more.", "0.2"),
        ("2#/loans/7/due says so.", None),
        ("2#/cards/W9 says so.", "w9"),
        ("gift_card_78 pays.", "gift_card_78"),
        ("Nummer Ä7841 passt.", "7841"),
        ("订单W99号", "w99"),
        ("٩٩", "99"),
    ],
)
def test_literals_out_of_nowhere_fail(text, literal):
    found = audited({"explanation": text})
    expected = [] if literal is None else [f"literals: {literal} in the explanation has no visible origin"]
    assert [each for each in found.findings if literal is None or literal in each] == expected


def test_what_a_prompt_left_out_is_no_origin():
    long = (
        *MESSAGES[:2],
        MESSAGES[2].model_copy(update={"content": json.dumps({**ACCOUNT, "x": "y " * 4000})}),
    )
    seen, built = seen_by(LIBRARY, (*long, *MESSAGES[3:]))
    assert "result 2" not in built.left_out
    built = prompt(seen, context=len(json.dumps(built.messages)), count_tokens=len)
    assert "result 2" in built.left_out
    found = audited(
        {"evidence": ["0"], "explanation": "The patron is P104, the card gift_card_77."}, seen, built
    )
    assert found.findings == ("literals: gift_card_77 in the explanation has no visible origin",)


SHOP = Domain.model_validate(
    {
        "name": "shop",
        "tools": [
            {
                "name": "order",
                "description": "Order.",
                "effect": "write",
                "parameters": {
                    "type": "object",
                    "$defs": {
                        "sku": {
                            "type": "string",
                            "maxLength": 5,
                            "pattern": "^S[0-9]+$",
                            "title": "Such as S4711",
                        }
                    },
                    "properties": {
                        "sku": {"$ref": "#/$defs/sku"},
                        "skus": {"type": "array", "items": {"$ref": "#/$defs/sku"}},
                        "day": {"type": "string", "maxLength": 10, "format": "date"},
                        "n": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2},
                    },
                },
            }
        ],
        "errors": [],
    }
)
ORDER = ToolCall(name="order", arguments={"sku": "X", "skus": ["S1", "X2"], "day": "soon", "n": 1, "odd": 1})


@pytest.mark.parametrize(
    ("target", "value", "problem"),
    [
        ("sku", "S12", None),
        ("sku", "T12", '"T12" does not match "^S[0-9]+$"'),
        ("skus/1", "S3", None),
        ("skus/1", "3S", '"3S" does not match "^S[0-9]+$"'),
        ("day", "2026-03-06", None),
        ("day", "06.03.2026", '"06.03.2026" is not a "date"'),
        ("n", 4, None),
        ("n", 3, "3 is not a multiple of 2"),
        ("sku", None, None),
    ],
)
def test_a_corrected_value_is_checked_against_all_that_its_argument_says(target, value, problem):
    seen, built = seen_by(SHOP, (MESSAGES[0], Message(role="assistant", calls=(ORDER,))))
    fix = {"kind": "revise_arguments", "target": f"/arguments/{target}", "value": value, "hint": "Mend it."}
    checks = {**CLEAN["checks"], "tool": "fail", "policy": "pass"}
    answer = {**CLEAN, "evidence": ["0"], "clauses": [], "error": "schema_violation", "checks": checks}
    answer |= {"explanation": "It is malformed.", "fix": fix}
    del answer["risk"]
    found = audit(parse(json.dumps(answer)), answer, built, seen)
    assert found.findings == (() if problem is None else (f"schema: fix/value: {problem}",))
    assert found.schema_valid == (problem is None)


def test_what_the_called_tool_says_of_its_parameters_is_visible():
    seen, built = seen_by(SHOP, (MESSAGES[0], Message(role="assistant", calls=(ORDER,))))
    for text, grounded in (("An id is such as S4711.", True), ("An id is such as S4712.", False)):
        found = audited({"explanation": text, "fix": {"kind": "none"}}, seen, built)
        assert found.literals_grounded == grounded


def test_a_value_for_a_target_that_was_not_given_fails():
    seen, built = seen_by(SHOP, (MESSAGES[0], Message(role="assistant", calls=(ORDER,))))
    fix = {"kind": "revise_arguments", "target": "/arguments/skus/2", "value": "S3", "hint": "Mend it."}
    assert not audited({"fix": fix, "evidence": ["0"]}, seen, built).schema_valid


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"evidence": [', "not JSON"),
        ("[1]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        (json.dumps({**CLEAN, "confidence": float("nan")}), "NaN is no JSON number"),
        (json.dumps({**CLEAN, "explanation": "\ud800"}), "lone surrogate"),
        (json.dumps({**CLEAN, "\udc00": 1}), "lone surrogate"),
        (json.dumps({**CLEAN, "verdict": "maybe"}), "verdict: "),
        (json.dumps({**CLEAN, "checks": {"policy": "fail"}}), "checks.grounding: "),
        (json.dumps({**CLEAN, "fix": {"kind": "none", "more": 1}}), "fix.more: "),
        (json.dumps({name: item for name, item in CLEAN.items() if name != "clauses"}), "clauses: "),
    ],
)
def test_an_unreadable_answer_says_why(text, reason):
    with pytest.raises(Unreadable, match=reason):
        parse(text)


@pytest.mark.parametrize("odd", ["[" * 300 + "]" * 300, "1e999", "-0", "9" * 400, '"\\u0000"', '{"a": {}}'])
def test_any_json_in_a_field_of_the_domain_is_audited(odd):
    text = json.dumps(CLEAN).replace('"low"', odd)
    found = audit(parse(text), decode(text), PROMPT, VIEW)
    assert failing(found) == ["schema_valid"]


def test_reading_drops_repetitions_and_keeps_the_domains_own_fields():
    read = parse(json.dumps({**CLEAN, "evidence": ["1", "1", "0"], "clauses": ["a", "a"], "fields": 7}))
    assert read.evidence == ("1", "0")
    assert read.clauses == ("a",)
    assert read.fields == {"risk": "low", "fields": 7}
    assert parse(json.dumps({**CLEAN, "error": "none"})).error is None
