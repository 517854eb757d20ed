"""Hints for files that are not valid TOML, for users who do not know the format."""

from __future__ import annotations

import re
from typing import Final

_LINE_NUMBER: Final = re.compile(r"\(at line (\d+)")
_BARE_VALUE: Final = re.compile(r"^\s*([\w.-]+)\s*=\s*([A-Za-z_./~][^\"'#\[\]{}]*?)\s*(#.*)?$")
_BARE_WORD_HINTS: Final = dict.fromkeys(("true", "yes", "on"), "is written true")
_BARE_WORD_HINTS.update(dict.fromkeys(("false", "no", "off"), "is written false"))
_BARE_WORD_HINTS.update(dict.fromkeys(("none", "null", "nil"), "is not a value: leave the key out"))
_PATTERN_HINTS: Final = (
    (
        re.compile(r'"[^"]*\\[^"]*"'),
        "in double quotes a backslash begins an escape: write a path in single quotes, as in 'C:\\new\\train.txt', or "
        "with forward slashes",
    ),
    (re.compile("[\u201c\u201d\u2018\u2019\u201e]"), 'quotes must be straight ones, as in task = "tagging"'),
    (
        re.compile(r"^\s*[\w.-]+\s*:(\s|$)"),
        "write a key and its value as in key = value; a table begins with [name]",
    ),
)
"""Patterns of common mistakes in a line, with the hint for each."""


def suggest_fix(text: str, error_message: str) -> str:
    """Return a hint about the line that a TOML parser complains of; empty if the mistake is not recognized."""
    match = _LINE_NUMBER.search(error_message)
    lines = text.splitlines()
    line = lines[int(match[1]) - 1] if match and int(match[1]) <= len(lines) else ""
    hint = _suggest_for_line(line)
    return f"; {hint}" if hint else ""


def _suggest_for_line(line: str) -> str:
    """Return the hint for a line; empty if no pattern matches."""
    if match := _BARE_VALUE.match(line):
        hint = _BARE_WORD_HINTS.get(match[2].lower())
        return f"{match[2]} {hint}" if hint else f'text must be in quotes, as in {match[1]} = "{match[2]}"'
    return next((hint_of_pattern for pattern, hint_of_pattern in _PATTERN_HINTS if pattern.search(line)), "")
