"""Writer for recipes as TOML; Python's standard library can only read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def format_value(content: Any) -> str:
    """Format `content`, a string, truth value, number, list or mapping, as a TOML value, a mapping as an inline table;
    recipes contain no other values.
    """
    if isinstance(content, Mapping):
        inside = ", ".join(f"{_format_key(key)} = {format_value(entry)}" for key, entry in content.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(content, list):
        return f"[{', '.join(map(format_value, content))}]"
    if isinstance(content, bool | str):
        return json.dumps(content, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON leaves as it is
    assert isinstance(content, int | float), f"no TOML for {type(content).__name__}"
    return repr(content)


def format_document(content: Mapping[str, Any]) -> str:
    """Format the nested tables in `content` as TOML: single values first, then one `[table]` for each top-level table,
    with deeper tables inline.
    """
    plain_values = {key: entry for key, entry in content.items() if not isinstance(entry, Mapping)}
    tables = {key: entry for key, entry in content.items() if isinstance(entry, Mapping)}
    blocks = [_format_lines(plain_values)] if plain_values else []
    blocks += [f"[{_format_key(key)}]\n{_format_lines(entry)}" for key, entry in tables.items()]
    return "\n".join(blocks)


def _format_lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_format_key(key)} = {format_value(entry)}\n" for key, entry in table.items())


def _format_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else format_value(name)
