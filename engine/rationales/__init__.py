"""Rationales: the prompt and the answer's schema for one action, and reading the answer back."""

from .fit import TooLong
from .prompt import Prompt, prompt
from .rationale import Checks, Fix, Rationale, Unreadable, decode, parse

__all__ = ["Checks", "Fix", "Prompt", "Rationale", "TooLong", "Unreadable", "decode", "parse", "prompt"]
