"""A recipe's nest of tables written as TOML; Python's standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def value(content: Any) -> str:
    """A string, truth value, number, list or (inline) table as it stands behind `=`; recipes hold nothing else."""
    if isinstance(content, Mapping):
        inside = ", ".join(f"{_key(key)} = {value(part)}" for key, part in content.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(content, list):
        return f"[{', '.join(map(value, content))}]"
    if isinstance(content, bool | str):
        return json.dumps(content, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON leaves as it is
    assert isinstance(content, int | float), f"no TOML for {type(content).__name__}"
    return repr(content)


def document(content: Mapping[str, Any]) -> str:
    """One `[table]` for each table at the top, single values before them, deeper tables on one line."""
    singles = {key: part for key, part in content.items() if not isinstance(part, Mapping)}
    tables = {key: part for key, part in content.items() if isinstance(part, Mapping)}
    blocks = [_lines(singles)] if singles else []
    blocks += [f"[{_key(key)}]\n{_lines(part)}" for key, part in tables.items()]
    return "\n".join(blocks)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {value(part)}\n" for key, part in table.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else value(name)
