"""The language of a domain: models, strict YAML loader, lint and JSON Schema."""

from .domain import Domain
from .error_kinds import BUILT_IN_ERROR_KINDS, CHECKS, ErrorKind
from .find import domain_origin, find_domain, known_domains
from .load import load_domain
from .observability import Delay, Observability, Redaction, Role, pointer_segments
from .policies import Clause
from .problems import Problem, SpecErrors, UserError
from .tools import REPLY, Tool

__all__ = [
    "BUILT_IN_ERROR_KINDS",
    "CHECKS",
    "REPLY",
    "Clause",
    "Delay",
    "Domain",
    "ErrorKind",
    "Observability",
    "Problem",
    "Redaction",
    "Role",
    "SpecErrors",
    "Tool",
    "UserError",
    "domain_origin",
    "find_domain",
    "known_domains",
    "load_domain",
    "pointer_segments",
]
