"""The files of the package and of its tests, each read and parsed once in a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
    return tuple(walk_tree(parse(path)))


def walk_tree(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a tree but the contexts of names, in less time than `ast.walk` takes."""
    waiting = [tree]
    while waiting:
        yield (node := waiting.pop())
        for value in vars(node).values():
            if isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)


def format_dotted_name(node: ast.AST) -> str:
    """Return `a.b` of the node of `a.b`; what stands before the first name is left out, as in `.b` of `f().b`."""
    if isinstance(node, ast.Attribute):
        return f"{format_dotted_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def find_modules() -> dict[str, Path]:
    """Return the files of all modules by module name below heedful; a package stands for its `__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found
