"""Each test can fail: it asserts something itself, or calls a function that does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from architecture.sources import TESTS, list_nodes

Function = ast.FunctionDef | ast.AsyncFunctionDef
ASSERT = "assert"
FAILING = {"raises", "warns", "deprecated_call", "fail", "expect"}
"""Calls that fail a test: functions of pytest, and Playwright's `expect`, which is followed by a condition."""


@dataclass(frozen=True)
class ModuleCalls:
    """The functions of a file with their calls, and the names that it imports from other files of tests.

    A function that asserts something itself calls `ASSERT`.
    """

    functions: Mapping[str, frozenset[str]]
    imported: Mapping[str, tuple[str, str]]

    @classmethod
    def from_nodes(cls, nodes: Iterable[ast.AST]) -> ModuleCalls:
        nodes = list(nodes)
        calls = [(node.lineno, name) for node in nodes if (name := get_called_name(node))]
        functions = {
            node.name: frozenset(name for line, name in calls if node.lineno <= line <= (node.end_lineno or 0))
            for node in nodes
            if isinstance(node, Function)
        }
        imported = {
            alias.asname or alias.name: (node.module.rpartition(".")[2], alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        return cls(functions, imported)


def get_called_name(node: ast.AST) -> str:
    """Return the name of the function that a node calls; "" if it calls none that has a name."""
    if isinstance(node, ast.Call):
        return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return ASSERT if isinstance(node, ast.Assert | ast.Raise) else ""


def can_fail(modules: Mapping[str, ModuleCalls], place: str, name: str, seen: frozenset[tuple[str, str]]) -> bool:
    """Return whether a function of a file asserts something, or calls a function of a known file that does."""
    if (place, name) in seen or place not in modules:
        return False
    module, seen = modules[place], seen | {(place, name)}
    if name in module.functions:
        calls = module.functions[name]
        if calls & FAILING or any(
            each.startswith(ASSERT) for each in calls
        ):  # functions like those of NumPy and PyTorch
            return True
        return any(can_fail(modules, place, each, seen) for each in calls)
    return name in module.imported and can_fail(modules, *module.imported[name], seen)


def find_silent_tests(modules: Mapping[str, ModuleCalls], place: str) -> Iterator[str]:
    """Yield the tests of a file that assert nothing."""
    for name in modules[place].functions:
        if name.startswith("test_") and not can_fail(modules, place, name, frozenset()):
            yield f"{place}: {name}"


def test_all_tests_assert_something() -> None:
    files = {path: ModuleCalls.from_nodes(list_nodes(path)) for path in sorted(TESTS.rglob("*.py"))}
    modules = {path.stem: module for path, module in files.items()}
    # files of several folders may have the same name
    found = [each for path, own in files.items() for each in find_silent_tests({**modules, path.stem: own}, path.stem)]
    assert found == []


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("def test_a(): f()", 1),
        ("def test_a(): assert f()", 0),
        ("def test_a():\n    with pytest.raises(ValueError): f()", 0),
        ("def check(x): assert x\ndef test_a(): check(1)", 0),
        ("def check(x): check(x)\ndef test_a(): check(1)", 1),
        ("def test_a(): np.testing.assert_allclose(1, 1)", 0),
        ("from helping import check\ndef test_a(): check(1)", 0),
        ("from helping import nothing\ndef test_a(): nothing(1)", 1),
        ("def test_a(): assert_never = 1; subprocess.run([])", 1),
    ],
)
def test_tests_without_assertions_are_found(source: str, number: int) -> None:
    helping = "def check(x): assert x\ndef nothing(x): return x"
    modules = {
        name: ModuleCalls.from_nodes(ast.walk(ast.parse(text)))
        for name, text in (("own", source), ("helping", helping))
    }
    assert len(list(find_silent_tests(modules, "own"))) == number
