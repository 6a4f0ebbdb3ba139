"""Jinja2 for a domain's texts: sandboxed, strict about names, and without what could run for long."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

MISUSED = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a text raises, beside Jinja2's own errors, when it does with a value what cannot be done with it."""
LONGEST = 1_000_000
"""What a product of two values in a template may at most be: as a number, or in characters or items."""


@lru_cache(maxsize=4)
def sandbox(as_json: Callable[[Any], str] = json.dumps) -> SandboxedEnvironment:
    """The environment of every text of a domain; `as_json` is its filter `json`, beside `fromjson`."""
    # it takes as long to import as everything else here
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**":
                raise SecurityError("`**` is not for templates")
            for one, other in ((left, right), (right, left)):
                if (
                    isinstance(one, str | list | tuple)
                    and isinstance(other, int)
                    and len(one) * other > LONGEST
                ):
                    raise SecurityError(f"a product of more than {LONGEST:,} characters or items")
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(undefined=StrictUndefined, autoescape=False)
    for name in set(environment.globals) - {"dict", "namespace"}:
        del environment.globals[name]
    environment.filters |= {"json": as_json, "fromjson": json.loads}
    return environment
