"""The transformers backend on real weights."""

import json

import jsonschema_rs
import pytest
from castline.engine.models import Request, Sampling, open_model

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model():
    for package in ("transformers", "torch", "outlines", "llguidance", "gguf"):
        pytest.importorskip(package)
    model = open_model("embedded", backend="transformers")
    model.start()
    yield model
    model.close()


def test_every_answer_follows_its_own_schema(model, critique):
    requests = [critique(number) for number in range(4)]
    for index, answer in model.generate(requests):
        assert answer.finish_reason == "stop"
        assert jsonschema_rs.validator_for(requests[index].schema).is_valid(json.loads(answer.text))
        assert answer.text == json.dumps(json.loads(answer.text), ensure_ascii=False, separators=(",", ":"))
        assert 0 < answer.completion_tokens <= requests[index].sampling.max_tokens


def test_bad_requests_are_data(model, critique):
    long = Request(({"role": "user", "content": "word " * 9000},), None, Sampling(5))
    odd = Request(({"role": "user", "content": "x"},), {"type": "tuple"}, Sampling(5))
    roles = Request(({"role": "user"},), None, Sampling(5))
    answers = dict(model.generate([long, odd, roles, critique(1)]))
    assert [answers[n].finish_reason for n in range(4)] == ["error", "error", "error", "stop"]
    assert "the context 8192" in answers[0].error
    assert "tuple" in answers[1].error


def test_seeds_decide_and_the_kept_prefix_changes_nothing(model):
    def ask(seed):
        messages = ({"role": "user", "content": "Write one sentence about the sea."},)
        return Request(messages, None, Sampling(12, temperature=1.0, seed=seed))

    answers = dict(model.generate([ask(1), ask(1), ask(2)]))
    assert answers[0].text == answers[1].text != answers[2].text
    assert answers[0].finish_reason == "length"
    assert answers[0].completion_tokens == 12
    assert answers[1].cached_tokens == answers[1].prompt_tokens - 1
