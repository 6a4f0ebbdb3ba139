"""From a view to the prompt of a role and the schema of its answer, together never too long for the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError, TemplateNotFound
from jinja2.loaders import split_template_path
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...specs import CHECKS, UserError
from ...specs.rationale_schema import rationale_schema
from ..models.budget import longest_answer, longest_value
from ..views import StepView, call_text
from .fit import Fitted, TooLong, fit

CONVERSATION = "\x1f"
"""Stands for the conversation while the room for it is measured."""

NEXT_MESSAGE = "\x1e"
"""Where a rendered template changes from the system message to the user's."""

CHAT_MARKUP = 64
"""Tokens set aside for what a chat template adds around two messages."""

GRAINS = 8
"""The room for a conversation is taken in parts of one eighth of the context: see `fit`."""

EVIDENCE_EXAMPLE = "7#/items/2/price"


@dataclass(frozen=True)
class Prompt:
    """What a model is asked about one action.

    `messages` are chat messages, `schema` the answer's JSON Schema, `max_tokens` enough for any answer that
    it allows, `evidence` what may be cited. `left_out` names what the view holds and the prompt does not.
    `tokens` are those of the messages' contents, the conversation's counted entry by entry.
    """

    messages: tuple[dict[str, str], ...]
    schema: dict[str, Any]
    max_tokens: int
    evidence: dict[str, str]
    left_out: tuple[str, ...]
    tokens: int


def prompt(view: StepView, *, context: int, count_tokens: Callable[[str], int]) -> Prompt:
    """The prompt of the view's role for its action.

    `context` is what the model takes for prompt and answer together, in tokens, and `count_tokens` its
    tokenizer. Raises `TooLong` where even the shortest form does not fit, `UserError` for a template that
    cannot be rendered.
    """
    told = _told(view)
    longest_id = _longest_id(view.citable())
    longest = longest_answer(_schema(view, longest_id))
    around = _render(view, told, CONVERSATION)
    taken = _tokens(around, count_tokens)
    room = context - longest - CHAT_MARKUP - taken
    while True:
        fitted = fit(view.messages, room, count_tokens, bool(view.policies), grain=context // GRAINS)
        messages = _render(view, told, fitted.text)
        # A domain's own template may do anything with the conversation, such as show it twice.
        plain = messages == _filled(around, fitted.text)
        tokens = taken + fitted.tokens if plain else _tokens(messages, count_tokens)
        over = tokens + CHAT_MARKUP + longest - context
        if over <= 0:
            break
        room -= over
    evidence = view.citable(fitted.shown)
    if _longest_id(evidence) != longest_id:
        longest = longest_answer(_schema(view, _longest_id(evidence)))
    return Prompt(
        messages=messages,
        schema=_schema(view, list(evidence)),
        max_tokens=longest,
        evidence=evidence,
        left_out=(*fitted.left_out, *_narrowed(view)),
        tokens=tokens,
    )


def _filled(around: Sequence[dict[str, str]], conversation: str) -> tuple[dict[str, str], ...]:
    return tuple(
        {**m, "content": m["content"].replace(CONVERSATION, conversation, 1).strip()} for m in around
    )


def _tokens(messages: Sequence[dict[str, str]], count_tokens: Callable[[str], int]) -> int:
    return sum(count_tokens(message["content"]) for message in messages)


def _longest_id(evidence: Iterable[str]) -> list[str]:
    """Of all that may be cited only the longest id counts for the length of an answer."""
    return sorted(evidence, key=_spelled)[-1:]


_spelled = lru_cache(maxsize=2**16)(longest_value)


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
    lines = [f"calls {call_text(action)}"]
    if view.tools and view.tool is None:
        lines.append("(no tool of this name is declared)")
    if action.text:
        lines.append(f"beside the call it writes: {action.text}")
    lines += [f"in the same turn it calls {call_text(sibling)}" for sibling in view.siblings]
    return "\n".join(lines)


def _render(view: StepView, told: dict[str, Any], conversation: str) -> tuple[dict[str, str], ...]:
    domain = view.domain
    template = _template(view.role, domain.prompts.get(view.role))
    try:
        text = template.render(
            **told,
            role=view.role,
            notes=view.notes,
            transcript=conversation.replace(NEXT_MESSAGE, " "),
            action=action_text(view).replace(NEXT_MESSAGE, " "),
            evidence_example=EVIDENCE_EXAMPLE,
            next_message=NEXT_MESSAGE,
        )
    # A template is the domain's own program: whatever it raises is a mistake in it.
    except Exception as error:
        said = f"no template {error}" if isinstance(error, TemplateNotFound) else str(error)
        raise UserError(f"the prompt of {view.role!r} in domain {domain.name} fails: {said}") from None
    parts = [part.strip() for part in text.split(NEXT_MESSAGE, 1)]
    roles = ("system", "user") if len(parts) == 2 else ("user",)
    return tuple({"role": role, "content": part} for role, part in zip(roles, parts, strict=True))


TOLD_OF_TOOLS = {"name", "description", "effect", "actor", "parameters"}
TOLD_OF_CLAUSES = {"id", "text", "severity"}
"""What a template may show of a tool and of a clause; how the world is simulated and checked is hidden."""


def _told(view: StepView) -> dict[str, Any]:
    """What the spec tells a template, as plain data: a model has methods, some of which read files."""
    domain = view.domain
    kinds = [kind.model_dump() for kind in domain.error_kinds()]
    return {
        "domain": {
            "name": domain.name,
            "title": domain.title,
            "description": domain.description,
            "tools": [tool.model_dump(include=TOLD_OF_TOOLS) for tool in view.tools],
            "policies": [clause.model_dump(include=TOLD_OF_CLAUSES) for clause in view.policies],
        },
        "clauses": [clause.model_dump(include=TOLD_OF_CLAUSES) for clause in view.clauses],
        "tools": [view.tool.model_dump(include=TOLD_OF_TOOLS)] if view.tool else [],
        "error_kinds": kinds,
        "checks": {check: [kind["id"] for kind in kinds if kind["check"] == check] for check in CHECKS},
        "fields": domain.rationale,
    }


@lru_cache(maxsize=32)
def _template(role: str, override: str | None) -> Any:
    environment = _environment()
    try:
        return (
            environment.from_string(override)
            if override is not None
            else environment.get_template(f"{role}.jinja")
        )
    except TemplateNotFound:
        raise UserError(
            f"no prompt for the role {role!r}", "a domain can bring one under `prompts:`"
        ) from None
    except TemplateError as error:
        raise UserError(f"the prompt of {role!r} cannot be read: {error}") from None


class _Packaged(BaseLoader):
    """The templates shipped beside this module, so that a domain's own can extend them."""

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool]]:
        # Raises TemplateNotFound for a name that leads out of the folder.
        file = resources.files(str(__package__)).joinpath("prompts", *split_template_path(template))
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
