"""The JSON Schema with which an editor completes and checks a domain's YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .domain import Domain
from .rationale_fields import RATIONALE_FIELDS
from .scenarios import WAYS
from .simulation import REVEALED_PATH
from .tools import REPLY

SCHEMA_FILE = Path(__file__).with_name("domain.schema.json")
"""The generated schema, which domains name in their first line."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def domain_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a domain file, generated from the models.

    A folder's files share the keys of one domain, so a file with `castline` must hold the rest of what is
    required only where the loader cannot find it elsewhere: here, `castline` and `name` ask for each other.
    """
    schema = Domain.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.pop("$defs")
    for part in [schema, *definitions.values()]:
        _tidy(part)
    schema.pop("required", None)
    schema["properties"]["castline"].pop("default", None)
    schema["dependentRequired"] = {"castline": ["name"], "name": ["castline"]}
    tool = definitions["Tool"]["properties"]
    tool["parameters"] = {
        "description": tool["parameters"]["description"],
        "type": "object",
        "if": {"properties": {"type": {"const": "object"}}, "required": ["type"]},
        "then": {"allOf": [{"$ref": _DIALECT}, {"properties": {"additionalProperties": {"const": False}}}]},
        "else": {"additionalProperties": {"$ref": _DIALECT, "type": "object"}},
    }
    clause = definitions["Clause"]
    clause["if"] = {"properties": {"judged": {"const": False}}, "required": ["judged"]}
    clause["then"] = {"required": ["violated_when"]}
    clause["else"] = {"anyOf": [{"not": {"required": ["judged"]}}, {"not": {"required": ["violated_when"]}}]}
    clause["dependentRequired"] = {"needs": ["violated_when"]}
    definitions["Simulation"]["anyOf"] = [{"required": ["returns"]}, {"required": ["text"]}]
    definitions["Guard"]["oneOf"] = [{"required": ["unless"]}, {"required": ["when"]}]
    sources = ("file", "rows", "generate")
    definitions["Table"]["oneOf"] = [
        *({"required": [source]} for source in sources),
        {"not": {"anyOf": [{"required": [source]} for source in sources]}},
    ]
    fault = definitions["Fault"]
    fault["oneOf"] = [{"required": [way]} for way in WAYS]
    fault["dependentRequired"] = {"argument": ["with", "tool"], "with": ["argument"]}
    fault["properties"]["repeat"] = {
        "description": fault["properties"]["repeat"]["description"],
        "const": True,
    }
    tool["reveals"]["additionalProperties"]["anyOf"][0]["pattern"] = f"^{REVEALED_PATH}$"
    tool["name"]["not"] = {"const": REPLY}
    definitions["Redaction"]["properties"]["path"]["pattern"] = "^(/([^~]|~[01])*)?$"
    rationale = schema["properties"]["rationale"]
    rationale["additionalProperties"] = {"$ref": _DIALECT, "type": "object"}
    rationale["propertyNames"] = {"pattern": "^[a-z][a-z0-9_]*$", "not": {"enum": list(RATIONALE_FIELDS)}}
    schema["properties"]["prompts"]["additionalProperties"] = {
        "anyOf": [
            {"type": "string", "description": "The prompt's Jinja2 text."},
            {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "description": "A Jinja2 file in the domain's folder."}
                },
                "required": ["file"],
                "additionalProperties": False,
            },
        ]
    }
    return {"$schema": _DIALECT, **schema, "$defs": definitions}


def _tidy(schema: Any) -> None:
    """Remove, in place, the titles that only repeat names, and the null that stands for an absent key."""
    if isinstance(schema, list):
        for part in schema:
            _tidy(part)
        return
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("title"), str):
        del schema["title"]
    if schema.get("default", "") is None:
        del schema["default"]
    choices = [part for part in schema.get("anyOf", []) if part != {"type": "null"}]
    if len(choices) == 1:
        del schema["anyOf"]
        schema.update(choices[0])
    for key, part in schema.items():
        # names of fields, one of which may well be `title`
        for below in part.values() if key in ("properties", "$defs") else [part]:
            _tidy(below)
