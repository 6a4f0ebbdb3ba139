"""Mistakes of the user: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_SNIPPET = 120
"""Characters of a source line that a rendered problem shows."""


class UserError(Exception):
    """A mistake the user can fix. The command line prints it without a traceback and exits with status 2."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or doubtful, in a file."""

    severity: Literal["error", "warning"]
    message: str
    hint: str | None = None
    file: str = ""
    line: int | None = None
    """From 1; None when the problem is the file or folder itself."""
    column: int | None = None
    """From 1, in characters."""
    snippet: str | None = None
    """The source line, without its line break."""

    def render(self) -> str:
        """`file:line:column: error: message`, then the line with a caret, then the hint."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        lines = [f"{place}: {self.severity}: {self.message}" if place else f"{self.severity}: {self.message}"]
        if self.snippet is not None and self.column is not None:
            start = max(0, self.column - _SNIPPET // 2) if len(self.snippet) > _SNIPPET else 0
            shown, before = self.snippet[start : start + _SNIPPET], self.snippet[start : self.column - 1]
            # tabs are kept so that the caret stands under its character at any tab width
            indent = "".join("\t" if letter == "\t" else " " for letter in before)
            lines += [f"  {shown}", f"  {indent}^"]
        if self.hint:
            lines.append(f"  {self.hint}" if self.hint.startswith("did you mean") else f"  hint: {self.hint}")
        return "\n".join(lines)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems by file, then by place in it; those of a whole file first."""
    return tuple(sorted(problems, key=lambda p: (p.file, p.line or 0, p.column or 0, p.severity, p.message)))


class SpecErrors(UserError):
    """Everything that is wrong with a domain, in one exception."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = in_order(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the nearest known word, or None when nothing is near."""
    # difflib is needed only when something is wrong
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean `{by_lower[near[0]]}`?" if near else None
