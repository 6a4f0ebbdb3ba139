"""Check the arguments of a call against its tool's schema."""

from __future__ import annotations

import json
import weakref
from typing import TYPE_CHECKING, Any

from .problems import did_you_mean
from .tools import Tool

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

# by identity: a tool holds a dict, so it has no hash, and its content would take longer to hash than to check
_compiled: dict[int, Draft202012Validator] = {}


def validate_arguments(tool: Tool, arguments: Any) -> list[str]:
    """What is wrong with the arguments of a call, one message each; [] when they are valid.

    `arguments` is the parsed JSON value. Formats (date, email, ...) are checked.
    """
    if not isinstance(arguments, dict):
        return [f"the arguments must be an object, not {_shown(arguments)}"]
    try:
        validator = _validator(tool)
        # most calls are valid, and saying so takes a fraction of looking for every error
        if validator.is_valid(arguments):
            return []
        return [_message(error, tool) for error in validator.iter_errors(arguments)]
    except (ValueError, TypeError) as error:
        return [f"the arguments are not JSON: {error}"]


def _validator(tool: Tool) -> Draft202012Validator:
    validator = _compiled.get(id(tool))
    if validator is None:
        # loading it takes longer than all else that most commands do
        from jsonschema_rs import Draft202012Validator

        validator = Draft202012Validator(tool.parameters, validate_formats=True, offline=True)
        _compiled[id(tool)] = validator
        weakref.finalize(tool, _compiled.pop, id(tool), None)
    return validator


def _message(error: ValidationError, tool: Tool) -> str:
    where = ".".join(str(part) for part in error.instance_path)
    prefix = f"`{where}`: " if where else ""
    kind: Any = error.kind
    match kind.name:
        case "required":
            return f"`{'.'.join(filter(None, (where, kind.property)))}` is missing"
        case "additionalProperties":
            known = tool.parameters["properties"] if not where else ()
            near = did_you_mean(kind.unexpected[0], known) if len(kind.unexpected) == 1 else None
            names = ", ".join(f"`{name}`" for name in kind.unexpected)
            return f"{prefix}unknown {names}" + (f"; {near}" if near else "")
        case "type":
            return f"{prefix}{_shown(error.instance)} is not of type {' or '.join(sorted(kind.types))}"
        case "enum":
            options = ", ".join(json.dumps(option, ensure_ascii=False) for option in kind.options)
            return f"{prefix}{_shown(error.instance)} is not one of {options}"
        case "anyOf" | "oneOf":
            return f"{prefix}{_shown(error.instance)} fits none of the {kind.name} alternatives"
        case _:
            return prefix + error.message


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."
