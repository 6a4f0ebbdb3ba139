"""Arguments against a tool's schema: what is wrong, in words."""

import gc

import pytest
from castline.specs import Tool, arguments, validate_arguments

TOOL = Tool(
    name="renew_loan",
    description="Extend a loan.",
    effect="write",
    parameters={
        "type": "object",
        "properties": {
            "loan_id": {"type": "string", "pattern": "^L[0-9]{4}$"},
            "days": {"type": ["integer", "null"]},
            "until": {"type": "string", "format": "date"},
            "reason": {"enum": ["holiday", "illness"]},
            "copies": {"type": "array", "items": {"type": "object", "required": ["id"]}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["loan_id"],
    },
)


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"loan_id": "L1234"}, []),
        ({"loan_id": "L1234", "days": None, "until": "2024-02-29", "copies": [{"id": 1}], "note": None}, []),
        ({}, ["`loan_id` is missing"]),
        ({"loan_id": 7}, ["`loan_id`: 7 is not of type string"]),
        ({"loan_id": "L1"}, ['`loan_id`: "L1" does not match "^L[0-9]{4}$"']),
        ({"loan_id": "L1234", "days": "2"}, ['`days`: "2" is not of type integer or null']),
        ({"loan_id": "L1234", "until": "2024-02-30"}, ['`until`: "2024-02-30" is not a "date"']),
        ({"loan_id": "L1234", "reason": "ill"}, ['`reason`: "ill" is not one of "holiday", "illness"']),
        ({"loan_id": "L1234", "copies": [{}]}, ["`copies.0.id` is missing"]),
        ({"loan_id": "L1234", "note": 3}, ["`note`: 3 fits none of the anyOf alternatives"]),
        ({"loan_id": "L1234", "loanid": 1}, ["unknown `loanid`; did you mean `loan_id`?"]),
        (None, ["the arguments must be an object, not null"]),
        ([1], ["the arguments must be an object, not [1]"]),
        ('{"loan_id"', ['the arguments must be an object, not "{\\"loan_id\\""']),
    ],
)
def test_messages(given, messages):
    assert validate_arguments(TOOL, given) == messages


def test_everything_wrong_is_said_at_once():
    assert len(validate_arguments(TOOL, {"days": "x", "other": 1})) == 3


@pytest.mark.parametrize("given", [{"loan_id": object()}, {1: 2}, {"loan_id": "\ud800"}])
def test_what_is_not_json_is_a_message_and_no_crash(given):
    (message,) = validate_arguments(TOOL, given)
    assert "not JSON" in message


def test_a_schema_is_compiled_once_per_tool_and_forgotten_with_it():
    tool = Tool(name="ping", description="", effect="none")
    validate_arguments(tool, {})
    compiled = arguments._compiled[id(tool)]
    validate_arguments(tool, {})
    assert arguments._compiled[id(tool)] is compiled
    key = id(tool)
    del tool
    gc.collect()
    assert key not in arguments._compiled


def test_a_validated_tool_is_still_equal_to_its_copy():
    validate_arguments(TOOL, {})
    assert TOOL.model_copy(deep=True) == TOOL
