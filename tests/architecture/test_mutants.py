"""The catalogue of planted bugs fits the package and its tests; `make mutants` runs it."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tests/mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look there for the types of their fields
    spec.loader.exec_module(module)
    return module


MUTANTS = load().MUTANTS


def test_the_catalogue_is_long_and_each_bug_has_its_name() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow
def test_every_test_that_should_notice_is_there() -> None:
    """With its parameters, which only pytest knows."""
    tests = dict.fromkeys(test for mutant in MUTANTS for test in mutant.tests)
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--override-ini=addopts=--import-mode=importlib"]
    told = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in told.splitlines() if "::" in line]
    known = {*files, *lines, *(line.partition("[")[0] for line in lines), *(line.rpartition("::")[0] for line in lines)}
    assert [test for test in tests if test not in known] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_each_bug_can_be_planted_and_has_its_tests(mutant) -> None:
    text = (ROOT / "heedful" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file}: the text to change occurs {text.count(mutant.old)} times"
    planted = text.replace(mutant.old, mutant.new)
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)), "nothing but spaces or comments would change"
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not name or name.partition("[")[0] in defined, test
