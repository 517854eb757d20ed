"""The files of the package and of its tests, each read and parsed once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "heedful"
TESTS = ROOT / "tests"


@cache
def read_source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(read_source(path), filename=str(path))


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """List all nodes of a file; the list is kept, because walking the tree takes longer than most searches."""
    return tuple(ast.walk(parse(path)))


@cache
def find_modules() -> dict[str, Path]:
    """Return the files of all modules by module name below heedful; a package stands for its `__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found
