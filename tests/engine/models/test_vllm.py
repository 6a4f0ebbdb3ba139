"""vLLM on real weights: one engine for the whole file, since starting it is what costs."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from castline.engine.models import ModelError, Request, Sampling, open_model

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def model(needs):
    needs("vllm", "transformers", "gguf")
    model = open_model("embedded", backend="vllm")
    model.start()
    yield model
    model.close()


def test_every_answer_follows_its_own_schema_and_its_budget_suffices(model, critique, capfd):
    """Half of them drawn at a high temperature, where a small model writes the oddest strings."""
    requests = [critique(n) for n in range(8)] + [critique(n, temperature=1.5, seed=n) for n in range(8, 24)]
    answers, moments = {}, set()
    for index, answer in model.generate(requests):
        answers[index] = answer
        moments.add(round(time.monotonic(), 1))
    assert sorted(answers) == list(range(24))
    for index, answer in answers.items():
        assert answer.finish_reason == "stop", answer
        assert jsonschema_rs.validator_for(requests[index].schema).is_valid(json.loads(answer.text))
        assert answer.prompt_tokens > 20
    assert len(moments) > 3, "answers come as they finish, not all at the end"
    assert capfd.readouterr() == ("", "")


def test_bad_requests_are_data(model, critique):
    long = Request(({"role": "user", "content": "word " * 9000},), None, Sampling(5))
    odd = Request(({"role": "user", "content": "x"},), {"type": "tuple"}, Sampling(5))
    roles = Request(({"role": "user"},), None, Sampling(5))
    answers = dict(model.generate([long, odd, roles, critique(1)]))
    assert [answers[n].finish_reason for n in range(4)] == ["error", "error", "error", "stop"]
    assert "the context 6144" in answers[0].error
    assert "tuple" in answers[1].error


def test_growing_prefixes_are_computed_once(model):
    """Eight steps of one transcript in one batch: at most 1.3 computed tokens for each distinct one."""
    words = random.Random(time.time()).choices(
        ["loan", "book", "desk", "renew", "fine", "due", "card", "shelf"], k=1600
    )
    requests = [
        Request(({"role": "user", "content": " ".join(words[: 200 * step])},), None, Sampling(1))
        for step in range(1, 9)
    ]
    before = model.metrics()
    answers = dict(model.generate(requests))
    after = model.metrics()
    computed = after["computed_prompt_tokens"] - before["computed_prompt_tokens"]
    assert computed / answers[7].prompt_tokens <= 1.3
    assert all(answers[n].cached_tokens > 0 for n in range(1, 8))
    hits = after["prefix_cache_hits"] - before["prefix_cache_hits"]
    assert hits == sum(answer.cached_tokens for answer in answers.values())


def test_seeds_decide(model):
    def ask(seed):
        # Shorter than a block of the prefix cache: a cached block rounds otherwise than a computed one.
        messages = (
            {"role": "system", "content": "A poet."},
            {"role": "user", "content": "One line on the sea."},
        )
        return Request(messages, None, Sampling(12, temperature=1.0, seed=seed))

    answers = dict(model.generate([ask(1), ask(1), ask(2)]))
    assert answers[0].text == answers[1].text != answers[2].text
    assert answers[0].finish_reason == "length"


def test_an_interrupt_gives_up_what_runs_and_the_engine_serves_on(model, critique):
    endless = [Request(({"role": "user", "content": f"Story {n}"},), None, Sampling(4000)) for n in range(40)]
    main = threading.main_thread().ident or 0
    threading.Timer(1.0, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(model.generate(endless))
    began = time.monotonic()
    [(_, answer)] = model.generate([critique(3)])
    assert answer.finish_reason == "stop"
    assert time.monotonic() - began < 60, "the given-up requests still run"


def test_a_kill_of_the_parent_ends_the_engine(model):
    code = "from castline.engine.models import open_model; open_model('embedded', backend='vllm').start()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child = wait_for(lambda: children(parent.pid))[0]
    time.sleep(3)  # in the middle of loading
    os.kill(parent.pid, signal.SIGKILL)
    assert parent.communicate() == (b"", b"")
    wait_for(lambda: not running(child))


def test_an_engine_that_dies_is_reported_with_its_log(needs):
    needs("vllm", "transformers", "gguf")
    model: Any = open_model("embedded", backend="vllm")
    threading.Thread(target=lambda: os.kill(wait_for(lambda: model.child).pid, signal.SIGKILL)).start()
    with pytest.raises(ModelError, match=r"the vLLM process ended \(status -9\)") as caught:
        model.start()
    assert "log" in (caught.value.hint or "")


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid):
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().split(")")[1].split()[0] != "Z"


def wait_for(condition):
    end = time.monotonic() + 30
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value
