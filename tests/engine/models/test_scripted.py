"""The scripted model behaves like a model: deterministic, valid, cut by its budget, failing as data."""

import json
import time

import jsonschema_rs
import pytest
from castline.engine.models import (
    ModelError,
    Request,
    Sampling,
    ScriptedModel,
    draw,
    longest_answer,
    open_model,
)
from castline.engine.models.canary import check_constraints

SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["valid", "invalid"]},
        "clauses": {"type": "array", "items": {"enum": ["a.b", "c d"]}, "minItems": 1, "maxItems": 2},
        "note": {"anyOf": [{"type": "string", "minLength": 3, "maxLength": 9}, {"type": "null"}]},
        "risk": {"type": "integer", "minimum": 1, "maximum": 3},
        "sure": {"type": "boolean"},
        "kind": {"const": "x"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["verdict", "clauses", "note", "risk", "sure", "kind", "score"],
    "additionalProperties": False,
}


def ask(text="hello", schema=SCHEMA, **sampling):
    return Request(({"role": "user", "content": text},), schema, Sampling(**{"max_tokens": 500, **sampling}))


def test_answers_are_valid_instances_with_the_keys_in_order():
    check = jsonschema_rs.validator_for(SCHEMA)
    for _, answer in ScriptedModel().generate([ask(f"request {n}") for n in range(200)]):
        assert answer.finish_reason == "stop"
        assert list(json.loads(answer.text)) == list(SCHEMA["properties"])
        assert check.is_valid(json.loads(answer.text))


def test_the_same_request_gets_the_same_answer_and_another_seed_another():
    assert draw(ask()) == draw(ask())
    assert len({draw(ask(seed=seed)) for seed in range(9)}) > 1


def test_a_function_answers_in_its_place():
    model = ScriptedModel(lambda request: request.messages[-1]["content"].upper())
    assert [(index, answer.text) for index, answer in model.generate([ask("a"), ask("b")])] == [
        (0, "A"),
        (1, "B"),
    ]


def test_an_answer_over_the_budget_is_cut():
    [(_, answer)] = ScriptedModel(lambda request: "x" * 100).generate([ask(max_tokens=5)])
    assert answer.finish_reason == "length"
    assert answer.completion_tokens == 5
    assert answer.text == "x" * 19


def test_a_bad_request_is_data_and_the_rest_goes_on():
    model = ScriptedModel(context=50)
    answers = dict(model.generate([ask("x" * 400), ask(schema={"type": "tuple"}), ask()]))
    assert [answers[n].finish_reason for n in range(3)] == ["error", "error", "stop"]
    assert "101 tokens" in (answers[0].error or "")
    assert "tuple" in (answers[1].error or "")
    assert model.metrics()["errors"] == 2


def test_the_budget_of_a_schema_is_enough():
    schema = {**SCHEMA, "properties": {k: v for k, v in SCHEMA["properties"].items() if k != "score"}}
    requests = [ask(f"{n}", schema, max_tokens=longest_answer(schema)) for n in range(100)]
    assert all(answer.finish_reason == "stop" for _, answer in ScriptedModel().generate(requests))


def test_the_canary_passes_a_model_that_obeys_and_stops_one_that_does_not():
    check_constraints(ScriptedModel())
    with pytest.raises(ModelError, match="constraints are not enforced"):
        check_constraints(ScriptedModel(lambda request: '{"canary":"a guess"}'))
    with pytest.raises(ModelError, match=r"not enforced.*out of order"):
        check_constraints(ScriptedModel(out_of_order))


def out_of_order(request):
    raise ValueError("out of order")


def test_scripted_seconds_take_that_long_per_answer():
    model = open_model("scripted:0.05")
    began = time.perf_counter()
    list(model.generate([ask(), ask()]))
    assert time.perf_counter() - began >= 0.1
