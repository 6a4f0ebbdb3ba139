"""The auditor: deterministic gates over a rationale and the view that it was written from, one column each.

A rationale that fails a gate is stored with its failure; what is curated is decided later, in SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..specs import ErrorKind

from .rationales import Prompt, Rationale
from .rationales.prompt import action_text
from .views import StepView

_LITERAL = re.compile(
    r"""
    [\w.+-]+@[\w-]+(?:\.[\w-]+)+        # e-mail address
    | [#$€£]?\d[\d,]*(?:\.\d+)?\w*      # amount, number, date part, id that begins with a digit
    | \#?[A-Za-z_]\w*\d\w*              # id with a digit: W2378156, gift_card_1234, L2041
    """,
    re.VERBOSE,
)
_CITATION = re.compile(r"\d+(?:\.\d+|\#/\S+)?")
_ORDINALS = frozenset(str(number) for number in range(11))


@dataclass(frozen=True)
class Audit:
    """`findings` says in words what failed, gate by gate."""

    schema_valid: bool
    references_visible: bool
    literals_grounded: bool
    consistent: bool
    findings: tuple[str, ...] = ()


def audit(rationale: Rationale, answer: Any, prompt: Prompt, view: StepView) -> Audit:
    """Run every gate. `answer` is the decoded answer that `rationale` was read from."""
    schema = _schema_findings(answer, prompt, view)
    references = _reference_findings(rationale, prompt, view)
    literals = _literal_findings(rationale, prompt, view)
    contradictions = _contradictions(rationale, {kind.id: kind for kind in view.domain.error_kinds()})
    return Audit(
        schema_valid=not schema,
        references_visible=not references,
        literals_grounded=not literals,
        consistent=not contradictions,
        findings=(*schema, *references, *literals, *contradictions),
    )


def _schema_findings(answer: Any, prompt: Prompt, view: StepView) -> list[str]:
    """The decoder's schema again, and what constrained decoding leaves to be checked: a corrected value against
    the full schema of its argument."""
    import jsonschema_rs

    problems = jsonschema_rs.Draft202012Validator(prompt.schema).iter_errors(answer)
    found = [f"schema: {'/'.join(map(str, problem.instance_path))}: {problem.message[:200]}" for problem in problems]
    fix = answer.get("fix") if isinstance(answer, dict) else None
    target = fix.get("target") if isinstance(fix, dict) else None
    if not found and view.tool is not None and isinstance(fix, dict) and target and fix.get("value") is not None:
        name, *index = target.removeprefix("/arguments/").split("/")
        schema = view.tool.parameters["properties"].get(name.replace("~1", "/").replace("~0", "~"), {})
        schema = schema.get("items", {}) if index else schema
        validator = jsonschema_rs.Draft202012Validator(schema)
        found += [f"schema: fix/value: {problem.message[:200]}" for problem in validator.iter_errors(fix["value"])]
    return found


def _reference_findings(rationale: Rationale, prompt: Prompt, view: StepView) -> list[str]:
    clauses = {clause.id for clause in view.clauses}
    unseen = [f"references: {item} is not visible" for item in rationale.evidence if item not in prompt.evidence]
    unknown = [f"references: no clause {item} governs this" for item in rationale.clauses if item not in clauses]
    return unseen + unknown


def _literal_findings(rationale: Rationale, prompt: Prompt, view: StepView) -> list[str]:
    """Every entity-like literal of the explanation and the hint must stand in the prompt."""
    known: set[str] = set()
    for text in (*prompt.evidence.values(), action_text(view)):
        known |= _literals(text)
    findings = []
    for field, text in (("explanation", rationale.explanation), ("fix/hint", rationale.fix.hint or "")):
        for literal in sorted(_literals(text) - known):
            if literal not in _ORDINALS and not _is_citation(literal, text, prompt):
                findings.append(f"literals: {literal} in the {field} has no visible origin")
    return findings


def _is_citation(literal: str, text: str, prompt: Prompt) -> bool:
    cited = {match.group() for match in _CITATION.finditer(text)}
    return any(item in prompt.evidence and item.startswith(literal) for item in cited)


@lru_cache(maxsize=8192)
def _literals(text: str) -> frozenset[str]:
    """Entity-like literals, normalised: case, currency signs, thousands separators and trailing zeros do not
    make another value."""
    return frozenset(_normal(match.group()) for match in _LITERAL.finditer(text))


def _normal(literal: str) -> str:
    bare = literal.lower().lstrip("#$€£").replace(",", "").rstrip(".")
    if re.fullmatch(r"\d+\.\d+", bare):
        bare = bare.rstrip("0").rstrip(".")
    return bare


def _contradictions(rationale: Rationale, kinds: dict[str, ErrorKind]) -> list[str]:
    """Verdict, checks, error and fix must tell one story."""
    checks = rationale.checks.model_dump()
    failing = {check for check, status in checks.items() if status == "fail"}
    kind = kinds.get(rationale.error or "")
    found = []
    if rationale.verdict == "valid":
        if failing:
            found.append(f"consistency: valid, but {', '.join(sorted(failing))} fails")
        if rationale.error is not None:
            found.append(f"consistency: valid, but with the error {rationale.error}")
        if rationale.clauses:
            found.append("consistency: valid, but clauses are broken")
        if rationale.fix.kind != "none":
            found.append(f"consistency: valid, but the fix is {rationale.fix.kind}")
        return found
    if rationale.error is None:
        found.append(f"consistency: {rationale.verdict}, but without an error")
    if rationale.fix.kind == "none":
        found.append(f"consistency: {rationale.verdict}, but without a fix")
    if rationale.verdict == "invalid" and not failing:
        found.append("consistency: invalid, but no check fails")
    if kind is not None and checks[kind.check] == "pass":
        found.append(f"consistency: the error {kind.id} is one of {kind.check}, which passes")
    return found


