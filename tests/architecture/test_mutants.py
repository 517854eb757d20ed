"""The known bugs of `tests/mutants.py` fit the package and its tests; `make mutants` runs them."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from functools import cache
from types import ModuleType

import pytest
from architecture.sources import ROOT, list_nodes, parse, read_source


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tests/mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look up the types of their fields there
    spec.loader.exec_module(module)
    return module


MUTANTS = load().MUTANTS


def test_there_are_many_bugs_with_unique_names() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow
def test_the_tests_of_all_bugs_exist() -> None:
    """A test may have parameters, which only pytest knows."""
    tests = dict.fromkeys(test for mutant in MUTANTS for test in mutant.tests)
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--override-ini=addopts=--import-mode=importlib"]
    told = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in told.splitlines() if "::" in line]
    known = {*files, *lines, *(line.partition("[")[0] for line in lines), *(line.rpartition("::")[0] for line in lines)}
    assert [test for test in tests if test not in known] == []


def test_each_bug_can_be_planted_and_has_its_tests() -> None:
    faults = []
    for mutant in MUTANTS:
        path = ROOT / "heedful" / mutant.file
        text = read_source(path) if path.is_file() else ""
        if (count := text.count(mutant.old)) != 1:
            faults.append(f"{mutant.file}: {mutant.name}: the text to change occurs {count} times")
            continue
        if fault := find_planting_fault(text, parse(path), mutant.old, mutant.new):
            faults.append(f"{mutant.file}: {mutant.name}: {fault}")
        if not mutant.tests:
            faults.append(f"{mutant.name}: has no tests")
        for test in mutant.tests:
            file, _, name = test.partition("::")
            if name and name.partition("[")[0] not in list_functions(file):
                faults.append(f"{mutant.name}: there is no test {test}")
    assert not faults, "\n".join(faults)


@cache
def list_functions(file: str) -> frozenset[str]:
    return frozenset(node.name for node in list_nodes(ROOT / file) if isinstance(node, ast.FunctionDef))


def find_planting_fault(text: str, tree: ast.Module, old: str, new: str) -> str:
    """Describe the fault of a mutated text; "" if it is valid Python and differs in more than spaces and comments.

    Only the statements of the module that the change touches are parsed again.
    """
    start = text.index(old)
    first_line, last_line = text.count("\n", 0, start) + 1, text.count("\n", 0, start + len(old)) + 1
    nodes = [node for node in tree.body if begin(node) <= last_line and (node.end_lineno or 0) >= first_line]
    lines = text.splitlines(keepends=True)
    part = "".join(lines[begin(nodes[0]) - 1 : nodes[-1].end_lineno]) if nodes else text
    try:
        planted = ast.dump(ast.parse(part.replace(old, new)))
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    return "nothing but spaces or comments would change" if planted == ast.dump(ast.parse(part)) else ""


def begin(node: ast.stmt) -> int:
    """Return the first line of a statement with its decorators."""
    return min((decorator.lineno for decorator in getattr(node, "decorator_list", [])), default=node.lineno)


def test_invalid_mutations_are_found() -> None:
    text = "x = 1\n\n\n@f\ndef g():\n    return x  # one\n"
    tree = ast.parse(text)
    assert find_planting_fault(text, tree, "return x", "return -x") == ""
    assert "nothing but" in find_planting_fault(text, tree, "x  # one", "x  # two")
    assert find_planting_fault(text, tree, "return x", "return (x")
