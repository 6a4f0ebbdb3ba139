"""YAML 1.2's core scalars: what a plain word or number in a spec stands for."""

from __future__ import annotations

import re

Scalar = None | bool | int | float | str

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# YAML 1.1 read these as numbers, and people mean ids, codes or grouped digits by them
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_UNDERSCORE = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?)")

LARGEST = 2**63


class BadScalar(ValueError):
    """A plain scalar that is neither clearly a number nor clearly text."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar: null, bool, int, float, or the text itself.

    Raises BadScalar for a number with a leading zero or `_`, for infinities and NaN, and for an
    integer or a float that does not fit in 64 bits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    quote = f'quote it to keep the text: "{text}"' if len(text) < 40 else "quote it to keep the text"
    if _LEADING_ZERO.fullmatch(text):
        raise BadScalar(f"number `{text}` has a leading zero", f"{quote}; or drop the zero")
    if "_" in text and _UNDERSCORE.fullmatch(text):
        raise BadScalar(f"number `{text}` has a `_`", f"{quote}; or drop the `_`")
    if _NOT_FINITE.fullmatch(text):
        raise BadScalar(f"`{text}` is not a number in JSON", quote)
    if _OCTAL.fullmatch(text):
        return _fits(text, int(text[2:], 8) if len(text) < 40 else LARGEST, quote)
    if _HEXADECIMAL.fullmatch(text):
        return _fits(text, int(text[2:], 16) if len(text) < 40 else LARGEST, quote)
    if _INTEGER.fullmatch(text):
        return _fits(text, int(text) if len(text) < 40 else LARGEST, quote)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise BadScalar("the number is too large", quote)
        return value
    return text


def _fits(text: str, value: int, quote: str) -> int:
    if not -LARGEST <= value < LARGEST:
        raise BadScalar(f"the number has more than 64 bits: {text[:24]}", quote)
    return value
