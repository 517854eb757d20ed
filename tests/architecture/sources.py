"""The files of the package and of its tests, each read and parsed once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "heedful"
TESTS = ROOT / "tests"


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(read(path), filename=str(path))


@cache
def walk(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file; what is wanted of most files is only looked for, and walking takes longer than looking."""
    return tuple(ast.walk(parse(path)))


@cache
def modules() -> dict[str, Path]:
    """Each module of the package by its name below heedful; a room's `__init__` is the room itself."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found
