"""Names, sizes and dangerous calls in the package."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from architecture.sources import PACKAGE, format_dotted_name, list_nodes, read_source

FILES = sorted(PACKAGE.rglob("*.py"))

NAMELESS = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
PICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
# Files that use pickle, with the reason.
PICKLED = {
    "serving/workers/messages.py": "a process and one that it has begun speak through a pipe that nobody else has"
}
EXECUTING = {"eval", "exec", "compile", "__import__"}
FILE_LINES, FUNCTION_LINES = 500, 60
"""Maximal numbers of lines of a file and of a function, without docstrings."""
# Exceptions with their reason: "room/file.py" or "room/file.py:function".
LONGER: dict[str, str] = {
    "cli/new.py:_write_recipe": "the questions and remarks of `heedful new` in the order in which users see them",
    "tasks/translation/translator.py:translate": "one signature with all options, each checked in turn",
}
LEAST_CODE = 25
"""Minimal number of lines of code of a file."""
TINY: dict[str, str] = {
    "architectures/published.py": "needs the builders of all families, unlike the table of published models",
    "attention/mask_functions.py": "what masks and recipes both name",
    "data/detect/registry.py": "where a new file format is listed",
    "errors.py": "everything imports it",
    "foreign/families/registry.py": "where a new model family is listed",
    "foreign/folders.py": "needs no torch, unlike what reads these folders",
    "lecture/contents.py": "site, slides and command read it",
    "lecture/data/digits.py": "one generator of data in each file of its folder",
    "lecture/notebooks.py": "another format than the pages of `site`",
    "recipes/toml.py": "everything that writes values of recipes imports it",
    "runs/kept_models.py": "keeps what `load.py` returns, and that file is long",
    "serving/openai/models.py": "a resource of the protocol, like the other files of its folder",
    "tasks/benchmarks/recipe.py": "recipes need no torch",
    "tasks/matching/recipe.py": "recipes need no torch",
    "version.py": "the build reads it",
}
"""Files with less code, with the reason."""


def get_relative_name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def find_dangers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield calls that would execute code from a file or a string."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in PICKLING)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLING:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            called = format_dotted_name(node.func)
            loads = called.endswith("torch.load") and "weights_only=True" not in map(ast.unparse, node.keywords)
            if called in EXECUTING or loads or called.endswith("torch.save"):
                yield called
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            yield from (f"torch.{alias.name}" for alias in node.names if alias.name in ("load", "save"))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield "allow_pickle"


def find_protocol_attributes(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the attributes of runtime-checkable protocols.

    Since Python 3.12, `isinstance` looks only at the class, so it ignores a submodule with the name of the attribute.
    """
    for each in nodes:
        if isinstance(each, ast.ClassDef) and any("runtime_checkable" in ast.unparse(d) for d in each.decorator_list):
            yield from (
                f"{each.name}.{ast.unparse(part.target)}" for part in each.body if isinstance(part, ast.AnnAssign)
            )


def count_code(source: str, nodes: Iterable[ast.AST]) -> int:
    """Return the number of lines that are not a docstring, import, comment or blank line."""
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
    faults = {
        get_relative_name(path): found for path in FILES if (found := list(find_protocol_attributes(list_nodes(path))))
    }
    assert faults == {}


def test_a_protocol_with_an_attribute_is_found() -> None:
    source = "@typing.runtime_checkable\nclass Seen(Protocol):\n    probe: Probe\n    def see(self): ...\n"
    assert list(find_protocol_attributes(ast.walk(ast.parse(source)))) == ["Seen.probe"]


def test_no_file_has_an_unspecific_name() -> None:
    folders = {path.parent for path in FILES}
    assert not [str(path) for path in (*FILES, *folders) if path.stem.strip("_") in NAMELESS]


def test_nothing_in_a_file_or_string_is_executed() -> None:
    found = {get_relative_name(path): set(find_dangers(list_nodes(path))) for path in FILES}
    assert {file: calls for file, calls in found.items() if calls} == {file: {"pickle"} for file in PICKLED}


def test_each_exception_is_a_file() -> None:
    assert set(PICKLED) <= set(map(get_relative_name, FILES))


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
def test_each_danger_is_found(line: str) -> None:
    assert list(find_dangers(ast.walk(ast.parse(line))))


def test_files_and_functions_are_short() -> None:
    long = {}
    for path in FILES:
        lines, functions = count_lines(list_nodes(path))
        long |= {get_relative_name(path): lines} if lines > FILE_LINES else {}
        long |= {f"{get_relative_name(path)}:{function}": n for function, n in functions if n > FUNCTION_LINES}
    assert {place: lines for place, lines in long.items() if place not in LONGER} == {}
    assert set(LONGER) <= set(long), "an exception that is no longer needed"
    assert all(LONGER.values())


def test_docstrings_are_not_counted() -> None:
    module = ast.parse('"""One.\n\nTwo."""\n\n\ndef f():\n    """Three."""\n    return 1\n')
    assert count_lines(list(ast.walk(module))) == (4, [("f", 2)])


def test_no_file_is_tiny() -> None:
    """A file is about a subject; a few lines belong to the file of the subject that uses them."""
    counts = {
        get_relative_name(path): count_code(read_source(path), list_nodes(path))
        for path in FILES
        if path.name != "__init__.py"
    }
    tiny = {file: lines for file, lines in counts.items() if lines < LEAST_CODE}
    assert {file: lines for file, lines in tiny.items() if file not in TINY} == {}
    assert set(TINY) <= set(tiny), "an exception that is no longer needed"
    assert all(TINY.values())


def test_only_code_is_counted() -> None:
    source = '"""One."""\n\nimport os\n\n\ndef f():\n    """Two."""\n    # three\n\n    return os\n'
    assert count_code(source, ast.walk(ast.parse(source))) == 2
