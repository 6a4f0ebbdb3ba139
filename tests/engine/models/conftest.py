"""Requests like the ones a run makes, for the tests on real weights."""

import os
from importlib.util import find_spec

import pytest
from castline.engine.models import ModelError, Request, Sampling, embedded, longest_answer

# Read once, when the first test imports torch: threads that spin while they wait take minutes here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def critique_schema(number):
    """A schema of its own for every step: evidence ids, enums with spaces, bounded strings, integers."""
    evidence = [f"step {step} \u00a7{part}" for step in range(number % 5 + 3) for part in "abc"]
    return {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["valid", "invalid", "insufficient information"]},
            "evidence": {"type": "array", "items": {"enum": evidence}, "minItems": 1, "maxItems": 2},
            "risk": {"type": "integer", "minimum": 1, "maximum": 5},
            "why": {"type": "string", "minLength": 4, "maxLength": 40},
            "fix": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 20}]},
            "number": {"const": number},
        },
        "required": ["verdict", "evidence", "risk", "why", "fix", "number"],
        "additionalProperties": False,
    }


def critique_request(number, **sampling):
    schema = critique_schema(number)
    messages = (
        {"role": "system", "content": "You judge actions at a library desk."},
        {"role": "user", "content": f"Action {number}: renew loan L{number:04}. Judge it as JSON."},
    )
    return Request(messages, schema, Sampling(**{"max_tokens": longest_answer(schema), **sampling}))


@pytest.fixture(scope="session")
def critique():
    return critique_request


@pytest.fixture(scope="session")
def needs():
    """Skips without importing: torch reads its thread settings at import, and the backend sets them."""

    def skip_unless_installed(*packages):
        for package in packages:
            if find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
        try:
            embedded.packaged_file()
        except ModelError as problem:
            pytest.skip(problem.message)

    return skip_unless_installed
