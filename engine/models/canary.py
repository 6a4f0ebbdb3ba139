"""The canary: a request that only an enforced schema can answer. Servers ignore unknown options silently."""

from __future__ import annotations

import json
import secrets

from .protocol import Model, ModelError, Request, Sampling


def check_constraints(model: Model) -> None:
    """Asks for an object whose one value must be a fresh random token. Raises ModelError unless it is."""
    token = secrets.token_hex(8)
    schema = {
        "type": "object",
        "properties": {"canary": {"enum": [token]}},
        "required": ["canary"],
        "additionalProperties": False,
    }
    request = Request(
        ({"role": "user", "content": "Write one short sentence."},), schema, Sampling(max_tokens=64)
    )
    [(_, answer)] = model.generate([request])
    if answer.text != json.dumps({"canary": token}, separators=(",", ":")):
        got = answer.error or repr(answer.text[:80])
        raise ModelError(
            f"constraints are not enforced by {model.name} on {model.backend}: "
            f"the canary asked for {token} and got {got}",
            "the versions of the backend and of llguidance may not fit; `castline doctor` lists them",
        )
