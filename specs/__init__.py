"""The language of a domain: models, strict YAML loader, lint and JSON Schema."""

from .arguments import validate_arguments
from .domain import Domain
from .error_kinds import BUILT_IN_ERROR_KINDS, CHECKS, ErrorKind
from .find import domain_origin, find_domain, known_domains
from .json_schema import domain_json_schema
from .load import Report, check_domain, load_domain
from .observability import Delay, Observability, Redaction, Role, pointer_segments
from .policies import Clause
from .portable import decoding_schema, portability
from .problems import Problem, SpecErrors, UserError, in_order
from .prompts import PROMPT_NAMES
from .rationale_fields import RATIONALE_FIELDS
from .tools import REPLY, Tool

__all__ = [
    "BUILT_IN_ERROR_KINDS",
    "CHECKS",
    "PROMPT_NAMES",
    "RATIONALE_FIELDS",
    "REPLY",
    "Clause",
    "Delay",
    "Domain",
    "ErrorKind",
    "Observability",
    "Problem",
    "Redaction",
    "Report",
    "Role",
    "SpecErrors",
    "Tool",
    "UserError",
    "check_domain",
    "decoding_schema",
    "domain_json_schema",
    "domain_origin",
    "find_domain",
    "in_order",
    "known_domains",
    "load_domain",
    "pointer_segments",
    "portability",
    "validate_arguments",
]
