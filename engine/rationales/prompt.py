"""From a view to the prompt of a role and the schema of its answer, together never too long for the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError, TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...specs import CHECKS, Domain, UserError
from ...specs.rationale_schema import rationale_schema
from ..models.budget import longest_answer
from ..views import StepView
from . import transcript
from .fit import Fitted, TooLong, fit

NEXT_MESSAGE = "\x1e"
"""Where a rendered template changes from the system message to the user's."""

CHAT_MARKUP = 64
"""Tokens set aside for what a chat template adds around two messages."""

EVIDENCE_EXAMPLE = "7#/items/2/price"


@dataclass(frozen=True)
class Prompt:
    """What a model is asked about one action.

    `messages` are chat messages, `schema` the answer's JSON Schema, `max_tokens` enough for any answer that the
    schema allows, `evidence` what may be cited. `left_out` names what the view holds and the prompt does not.
    """

    messages: tuple[dict[str, str], ...]
    schema: dict[str, Any]
    max_tokens: int
    evidence: dict[str, str]
    left_out: tuple[str, ...]


def prompt(view: StepView, *, context: int, count_tokens: Callable[[str], int]) -> Prompt:
    """The prompt of the view's role for its action.

    `context` is what the model takes for prompt and answer together, in tokens, and `count_tokens` its
    tokenizer. Raises `TooLong` where even the shortest form does not fit, `UserError` for a template that
    cannot be rendered.
    """
    longest = longest_answer(_schema(view, list(view.citable())))
    around = sum(count_tokens(message["content"]) for message in _render(view, ""))
    fitted = fit(view.messages, context - longest - around - CHAT_MARKUP, count_tokens, bool(view.policies))
    evidence = view.citable(fitted.shown)
    schema = _schema(view, list(evidence))
    return Prompt(
        messages=_render(view, fitted.text),
        schema=schema,
        max_tokens=longest_answer(schema),
        evidence=evidence,
        left_out=(*fitted.left_out, *_narrowed(view)),
    )


def _schema(view: StepView, evidence: list[str]) -> dict[str, Any]:
    return rationale_schema(
        view.domain,
        evidence=evidence,
        clauses=[clause.id for clause in view.clauses],
        tool=view.tool,
        arguments=view.action.arguments,
    )


def _narrowed(view: StepView) -> list[str]:
    governing = {clause.id for clause in view.clauses}
    return [f"clause {clause.id}" for clause in view.policies if clause.id not in governing]


def action_text(view: StepView) -> str:
    """The action under judgement, with what its turn says and calls beside it."""
    action = view.action
    if action.kind == "reply":
        return f"reply to the user: {action.text}"
    lines = [f"calls {transcript.call_text(action)}"]
    if view.tools and view.tool is None:
        lines.append("(no tool of this name is declared)")
    if action.text:
        lines.append(f"beside the call it writes: {action.text}")
    lines += [f"in the same turn it calls {transcript.call_text(sibling)}" for sibling in view.siblings]
    return "\n".join(lines)


def _render(view: StepView, conversation: str) -> tuple[dict[str, str], ...]:
    domain = view.domain
    template = _template(view.role, domain.prompts.get(view.role))
    try:
        text = template.render(
            domain=domain,
            role=view.role,
            notes=view.notes,
            transcript=conversation.replace(NEXT_MESSAGE, " "),
            action=action_text(view).replace(NEXT_MESSAGE, " "),
            clauses=view.clauses,
            tools=(view.tool,) if view.tool else (),
            error_kinds=domain.error_kinds(),
            checks=CHECKS,
            evidence_example=EVIDENCE_EXAMPLE,
            fields=domain.rationale,
            next_message=NEXT_MESSAGE,
        )
    except TemplateError as error:
        raise UserError(f"the prompt of {view.role!r} in domain {domain.name} fails: {error}") from None
    parts = [part.strip() for part in text.split(NEXT_MESSAGE, 1)]
    roles = ("system", "user") if len(parts) == 2 else ("user",)
    return tuple({"role": role, "content": part} for role, part in zip(roles, parts, strict=True))


@lru_cache(maxsize=32)
def _template(role: str, override: str | None) -> Any:
    environment = _environment()
    try:
        return environment.from_string(override) if override is not None else environment.get_template(f"{role}.jinja")
    except TemplateNotFound:
        raise UserError(f"no prompt for the role {role!r}", "a domain can bring one under `prompts:`") from None
    except TemplateError as error:
        raise UserError(f"the prompt of {role!r} cannot be read: {error}") from None


class _Packaged(BaseLoader):
    """The templates shipped beside this module, so that a domain's own can extend them."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool]]:
        file = resources.files(__package__) / "prompts" / template
        if not file.is_file():
            raise TemplateNotFound(template)
        return file.read_text(encoding="utf-8"), None, lambda: True


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = ImmutableSandboxedEnvironment(
        loader=_Packaged(), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return environment


__all__ = ["Fitted", "Prompt", "TooLong", "action_text", "prompt"]
