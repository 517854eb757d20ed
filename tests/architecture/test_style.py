"""Names, sizes and dangerous calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from architecture.sources import PACKAGE, dotted, read, walk

FILES = sorted(PACKAGE.rglob("*.py"))

NAMELESS = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
PICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
# Where something is pickled nevertheless, and why.
PICKLED = {
    "serving/workers/messages.py": "a process and one that it has begun speak through a pipe that nobody else has"
}
EXECUTING = {"eval", "exec", "compile", "__import__"}
FILE_LINES, FUNCTION_LINES = 500, 60
"""Most lines of a file and of a function, without docstrings."""
# What is longer, and why: "room/file.py" or "room/file.py:function".
LONGER: dict[str, str] = {
    "cli/new.py:_write_recipe": "the questions and remarks of `heedful new` in the order in which users see them",
    "tasks/translation/translator.py:translate": "one signature with all options, each checked in turn",
}
LEAST_CODE = 25
"""Least lines of code of a file."""
TINY: dict[str, str] = {
    "attention/mask_functions.py": "what masks and recipes both name",
    "data/detect/registry.py": "where a new file format is listed",
    "errors.py": "everything imports it",
    "foreign/families/registry.py": "where a new model family is listed",
    "foreign/folders.py": "needs no torch, unlike what reads these folders",
    "recipes/toml.py": "everything that writes values of recipes imports it",
    "serving/openai/models.py": "a resource of the protocol, like the other files of its folder",
    "serving/search_fields.py": "what the requests of two protocols share",
    "tasks/benchmarks/recipe.py": "recipes need no torch",
    "tasks/matching/recipe.py": "recipes need no torch",
    "tasks/records.py": "needs no torch, unlike the predictors that build records",
    "version.py": "the build reads it",
}
"""Files with less code, and why they are files."""


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def dangers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What would run code that comes from a file or a string."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in PICKLING)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLING:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            loads = called.endswith("torch.load") and "weights_only=True" not in map(ast.unparse, node.keywords)
            if called in EXECUTING or loads or called.endswith("torch.save"):
                yield called
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            yield from (f"torch.{alias.name}" for alias in node.names if alias.name in ("load", "save"))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield "allow_pickle"


def unchecked(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What an `isinstance` of a protocol would ask of the instance.

    Since Python 3.12 it looks at classes alone, so that a module whose submodule has the name is passed over.
    """
    for each in nodes:
        if isinstance(each, ast.ClassDef) and any("runtime_checkable" in ast.unparse(d) for d in each.decorator_list):
            yield from (
                f"{each.name}.{ast.unparse(part.target)}" for part in each.body if isinstance(part, ast.AnnAssign)
            )


def count_code(source: str, nodes: Iterable[ast.AST]) -> int:
    """Return the number of lines that are no docstring, import, comment or blank line."""
    lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) or is_docstring(node):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count_lines(nodes: Sequence[ast.AST]) -> tuple[int, list[tuple[str, int]]]:
    """Return the number of lines of a module, and those of each function by name, all without docstrings."""
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    docstrings = [node for node in statements if is_docstring(node)]

    def count(first: int, last: int) -> int:
        inner = (node for node in docstrings if first <= node.lineno <= last)
        return last - first + 1 - sum((node.end_lineno or 0) - node.lineno + 1 for node in inner)

    functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    counts = [(node.name, count(node.lineno, node.end_lineno or 0)) for node in functions]
    return count(1, max((node.end_lineno or 0 for node in statements), default=0)), counts


def test_runtime_checkable_protocols_have_only_methods() -> None:
    faults = {name(path): found for path in FILES if (found := list(unchecked(walk(path))))}
    assert faults == {}


def test_a_protocol_with_an_attribute_is_noticed() -> None:
    source = "@typing.runtime_checkable\nclass Seen(Protocol):\n    probe: Probe\n    def see(self): ...\n"
    assert list(unchecked(ast.walk(ast.parse(source)))) == ["Seen.probe"]


def test_no_file_is_a_drawer() -> None:
    folders = {path.parent for path in FILES}
    assert not [str(path) for path in (*FILES, *folders) if path.stem.strip("_") in NAMELESS]


def test_nothing_in_a_file_or_string_is_executed() -> None:
    found = {name(path): set(dangers(walk(path))) for path in FILES}
    assert {file: calls for file, calls in found.items() if calls} == {file: {"pickle"} for file in PICKLED}


def test_each_exception_is_a_file() -> None:
    assert set(PICKLED) <= set(map(name, FILES))


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import os, joblib.x",
        "from dill import loads",
        "torch.load(p)",
        "torch.load(p, weights_only=False)",
        "from torch import load",
        "x = eval('1')",
        "exec(s)",
        "np.load(p, allow_pickle=True)",
        "def f():\n    return __import__('x')",
    ],
)
def test_each_danger_is_seen(line: str) -> None:
    assert list(dangers(ast.walk(ast.parse(line))))


def test_files_and_functions_are_short() -> None:
    long = {}
    for path in FILES:
        lines, functions = count_lines(walk(path))
        long |= {name(path): lines} if lines > FILE_LINES else {}
        long |= {f"{name(path)}:{function}": n for function, n in functions if n > FUNCTION_LINES}
    assert {place: lines for place, lines in long.items() if place not in LONGER} == {}
    assert set(LONGER) <= set(long), "an exception that is no longer needed"
    assert all(LONGER.values())


def test_docstrings_are_not_counted() -> None:
    module = ast.parse('"""One.\n\nTwo."""\n\n\ndef f():\n    """Three."""\n    return 1\n')
    assert count_lines(list(ast.walk(module))) == (4, [("f", 2)])


def test_no_file_is_tiny() -> None:
    """A reader opens a file for a subject; what is a few lines belongs to the subject that uses it."""
    counts = {name(path): count_code(read(path), walk(path)) for path in FILES if path.name != "__init__.py"}
    tiny = {file: lines for file, lines in counts.items() if lines < LEAST_CODE}
    assert {file: lines for file, lines in tiny.items() if file not in TINY} == {}
    assert set(TINY) <= set(tiny), "an exception that is no longer needed"
    assert all(TINY.values())


def test_only_code_is_counted() -> None:
    source = '"""One."""\n\nimport os\n\n\ndef f():\n    """Two."""\n    # three\n\n    return os\n'
    assert count_code(source, ast.walk(ast.parse(source))) == 2
