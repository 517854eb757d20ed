"""What is wrong with a file that is no TOML, in words for those who have never written any."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"\(at line (\d+)")
_BARE: Final = re.compile(r"^\s*([\w.-]+)\s*=\s*([A-Za-z_./~][^\"'#\[\]{}]*?)\s*(#.*)?$")
_CALLED: Final = dict.fromkeys(("true", "yes", "on"), "is written true")
_CALLED.update(dict.fromkeys(("false", "no", "off"), "is written false"))
_CALLED.update(dict.fromkeys(("none", "null", "nil"), "is no value: leave the key away"))
_ABOUT: Final = (
    (
        re.compile(r'"[^"]*\\[^"]*"'),
        "in double quotes a backslash begins an escape: write a path in single quotes, as in 'C:\\new\\train.txt', or "
        "with forward slashes",
    ),
    (re.compile("[\u201c\u201d\u2018\u2019\u201e]"), 'quotes must be straight ones, as in task = "tagging"'),
    (
        re.compile(r"^\s*[\w.-]+\s*:(\s|$)"),
        "a key and its value stand as in key = value, and a table begins with [name]",
    ),
)
"""What a line looks like, and what is to be done about it."""


def remedy(text: str, complaint: str) -> str:
    """What to do about the line that a reader of TOML has complained of; empty where that cannot be told."""
    found = _LINE.search(complaint)
    lines = text.splitlines()
    line = lines[int(found[1]) - 1] if found and int(found[1]) <= len(lines) else ""
    told = _about(line)
    return f"; {told}" if told else ""


def _about(line: str) -> str:
    if bare := _BARE.match(line):
        known = _CALLED.get(bare[2].lower())
        return f"{bare[2]} {known}" if known else f'text stands in quotes, as in {bare[1]} = "{bare[2]}"'
    return next((about for pattern, about in _ABOUT if pattern.search(line)), "")
