"""The auditor: deterministic gates over a rationale and the view that it was written from, one column each.

A rationale that fails a gate is stored with its failure; what is curated is decided later, in SQL.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..specs import ErrorKind, pointer_segments
from .evidence import as_json
from .rationales import Prompt, Rationale
from .rationales.prompt import action_text
from .views import StepView

_LITERAL = re.compile(
    r"""
    [\w.+-]+@[\w-]+(?:\.[\w-]+)+                    # e-mail address
    | \d{4}-\d{2}-\d{2}                              # date
    | [#$€£]?\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?   # amount with thousands separators
    | [#$€£]?\d+(?:\.\d+)?\w*                       # amount, number, id that begins with a digit
    | \#?[A-Za-z_]\w*\d\w*                          # id with a digit: W2378156, gift_card_1234, L2041
    """,
    re.VERBOSE | re.ASCII,
)
_CITATION = re.compile(
    r"""
    (?<![\w.,$€£#-]) (?:
        \d+\#/\S*                                   # a value: 3#/loans/0/due
        | \d+\.\d+                                  # a sentence: 7.2
        | (?<=\[)\d+(?=\])                          # a message: [7]
    ) (?![\w])
    | (?:messages?|steps?|results?)\ \d+             # or named as one: message 7
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_SMALL = frozenset(str(number) for number in range(11))
"""Numbers that count or order things and come from nowhere in particular."""


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
    """The decoder's schema again, and what decoding leaves to be checked: a corrected value against the full
    schema of its argument."""
    from jsonschema_rs import Draft202012Validator

    try:
        problems = list(Draft202012Validator(prompt.schema).iter_errors(answer))
    except ValueError as error:
        return [f"schema: cannot be checked: {error}"]
    if problems:
        return [
            f"schema: {'/'.join(map(str, each.instance_path))}: {each.message[:200]}" for each in problems
        ]
    fix = answer["fix"]
    if view.tool is None or fix.get("value") is None:
        return []
    target = pointer_segments(fix["target"].removeprefix("/arguments"))
    validator = Draft202012Validator(view.tool.parameters, validate_formats=True, offline=True)
    corrected = _corrected(view.action.arguments or {}, target, fix["value"])
    return [
        f"schema: fix/value: {problem.message[:200]}"
        for problem in validator.iter_errors(corrected)
        if tuple(map(str, problem.instance_path))[: len(target)] == target
    ]


def _corrected(arguments: dict[str, Any], target: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The arguments with the value where the target, a parameter or an element of one, is."""
    name, *index = target
    if index:
        elements = list(arguments[name])
        elements[int(index[0])] = value
        value = elements
    return {**arguments, name: value}


def _reference_findings(rationale: Rationale, prompt: Prompt, view: StepView) -> list[str]:
    clauses = {clause.id for clause in view.clauses}
    unseen = [
        f"references: {item} is not visible" for item in rationale.evidence if item not in prompt.evidence
    ]
    unknown = [
        f"references: no clause {item} governs this" for item in rationale.clauses if item not in clauses
    ]
    return unseen + unknown


def _literal_findings(rationale: Rationale, prompt: Prompt, view: StepView) -> list[str]:
    """Every entity-like literal of the explanation and the hint must stand in the prompt."""
    known: set[str] = set(_SMALL)
    parameters = "" if view.tool is None else as_json(view.tool.parameters)
    for text in (*prompt.evidence.values(), action_text(view), parameters):
        known |= _literals(text) | _date_parts(text)
    findings = []
    for field, text in (("explanation", rationale.explanation), ("fix/hint", rationale.fix.hint or "")):
        for literal in sorted(_literals(_without_citations(text, prompt)) - known):
            findings.append(f"literals: {literal} in the {field} has no visible origin")
    return findings


def _without_citations(text: str, prompt: Prompt) -> str:
    """The text without the evidence ids that it cites; what merely looks like one stays."""

    def rest(match: re.Match[str]) -> str:
        cited = match.group().split()[-1]
        while cited and cited not in prompt.evidence and not cited[-1].isalnum():
            cited = cited[:-1]
        return " " if cited in prompt.evidence else match.group()

    return _CITATION.sub(rest, text)


@lru_cache(maxsize=8192)
def _literals(text: str) -> frozenset[str]:
    """Entity-like literals, normalised: letter case, dashes, currency signs, thousands separators, trailing
    zeros and the endings of ordinals do not make another value."""
    plain = text if text.isascii() else _ascii_digits(text)
    return frozenset(_normal(match.group()) for match in _LITERAL.finditer(plain))


def _ascii_digits(text: str) -> str:
    """The text with the digits, letters and dashes of ASCII where it has other forms of them."""
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES)
    return re.sub(r"\d", lambda match: str(unicodedata.decimal(match.group())), plain)


@lru_cache(maxsize=8192)
def _date_parts(text: str) -> frozenset[str]:
    """What prose makes of a date: of 2026-03-06 the year, and month and day with and without their zero."""
    parts = [part for date in _DATE.findall(text) for part in date]
    return frozenset([*parts, *(part.lstrip("0") for part in parts)])


def _normal(literal: str) -> str:
    bare = literal.lower().lstrip("#$€£").replace(",", "")
    if ordinal := _ORDINAL.fullmatch(bare):
        return ordinal[1]
    if re.fullmatch(r"\d+\.\d+", bare):
        return bare.rstrip("0").rstrip(".")
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
    if rationale.clauses and checks["policy"] == "pass":
        found.append("consistency: clauses are broken, but policy passes")
    if kind is not None and checks[kind.check] == "pass":
        found.append(f"consistency: the error {kind.id} is one of {kind.check}, which passes")
    return found
