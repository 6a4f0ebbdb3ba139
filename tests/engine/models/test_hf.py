"""The transformers backend on real weights."""

import json

import jsonschema_rs
import pytest
from castline.engine.models import Request, Sampling, open_model

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model(needs):
    needs("transformers", "torch", "outlines", "llguidance", "gguf")
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
    assert "the context 6144" in answers[0].error
    assert "tuple" in answers[1].error


def test_seeds_decide_and_the_kept_prefix_changes_nothing(model):
    def ask(seed):
        text = "The sea. " * 100 + "Write one sentence about the sea."
        return Request(({"role": "user", "content": text},), None, Sampling(20, temperature=1.0, seed=seed))

    answers = dict(model.generate([ask(1), ask(1), ask(2)]))
    assert answers[0].cached_tokens == 0
    assert answers[1].prompt_tokens - 128 <= answers[1].cached_tokens < answers[1].prompt_tokens
    assert answers[0].text == answers[1].text != answers[2].text
    assert answers[0].finish_reason == "length"
    assert answers[0].completion_tokens == 20


def test_growing_prefixes_are_computed_once(model):
    words = ["loan", "book", "desk", "renew", "fine", "due"] * 150
    requests = [
        Request(({"role": "user", "content": " ".join(words[: 150 * step])},), None, Sampling(1))
        for step in range(1, 7)
    ]
    before = model.metrics()
    answers = dict(model.generate(requests))
    computed = model.metrics()["computed_prompt_tokens"] - before["computed_prompt_tokens"]
    assert computed <= answers[5].prompt_tokens + 5 * 128
