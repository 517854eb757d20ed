"""Imports go only in the direction of docs/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest
from architecture.sources import find_modules, format_dotted_name, list_nodes

# Modules that a room may import besides itself and errors, as prefixes of module names below heedful. A file that
# is listed has its own rule instead of the rule of its room.
BELOW_MODELS = ("blocks", "attention", "fused_operators", "tensors")
BELOW_ARCHITECTURES = ("recipes", "registry", "models", *BELOW_MODELS)
BELOW_TASKS = (
    "characters",
    "language_tags",
    "argument_checks",
    "adapters",
    "architectures",
    *BELOW_ARCHITECTURES,
    "generation",
    "metrics",
    "data",
    "localisation",
    "inspection",
    "atomic_io",
    "files",
    "memory_limits",
    "compression",
)
BELOW_RUNS = ("foreign", "tasks", "training", "lazy_tensors", "version", "engines", *BELOW_TASKS)
ALLOWED: dict[str, tuple[str, ...]] = {
    "version": (),
    "errors": (),
    "deprecation": (),
    "characters": (),
    "language_tags": (),
    "argument_checks": (),
    "tensors": (),
    "files": (),
    "memory_limits": (),
    "compression": (),
    "lazy_tensors": (),
    "ray_cluster": (),
    "atomic_io": ("files", "lazy_tensors", "memory_limits"),
    "native": (),
    "fused_operators": ("native",),
    "bundled": ("english_words",),
    "english_words": (),
    "registry": ("english_words",),
    "attention": (
        "deprecation",
        "fused_operators",
        "tensors",
    ),
    "blocks": ("attention", "fused_operators", "tensors"),
    "adapters": BELOW_MODELS,
    "models": BELOW_MODELS,
    "localisation": ("characters", "language_tags", "compression"),
    "data": (
        "characters",
        "language_tags",
        "tensors",
        "atomic_io",
        "files",
        "compression",
        "english_words",
        "localisation",
    ),
    "generation": ("deprecation", "models.interface", "tensors", "native"),
    "metrics": ("deprecation", "characters", "language_tags", "argument_checks"),
    "inspection": ("deprecation", "argument_checks", "blocks", "attention", "tensors", "atomic_io", "files"),
    # "data" for the readers of their files
    "recipes": ("registry", "argument_checks", "language_tags", "data", "files", "compression", "english_words"),
    "architectures": ("english_words", *BELOW_ARCHITECTURES),
    "tasks": ("deprecation", "version", *BELOW_TASKS),
    "training": ("deprecation", "lazy_tensors", "tasks.objective", "tensors"),
    "foreign": ("tasks", "engines", *BELOW_TASKS),
    "engines": (
        "blocks",
        "attention",
        "tensors",
        "atomic_io",
        "fused_operators",
        "native",
        "models.placeholders",
        "recipes.recipe",
    ),  # names of engines
    "runs": ("english_words", *BELOW_RUNS),
    "retrieval": ("deprecation", "runs", *BELOW_RUNS),
    "serving": ("retrieval", "runs", "bundled", "english_words", "ray_cluster", *BELOW_RUNS),
    "lecture": ("retrieval", "runs", *BELOW_RUNS),
    "cli": ("lecture", "serving", "retrieval", "runs", "bundled", "english_words", "ray_cluster", *BELOW_RUNS),
    # modules of lazy names, which type checkers see as imports
    "__init__": (
        "deprecation",
        "inspection.record_files",
        "metrics.report",
        "recipes.load",
        "retrieval.index",
        "runs.load",
        "runs.export",
        "runs.train",
        "tasks",  # types of what `load` returns
        "version",
    ),
    "__main__": ("cli.commands", "cli.output", "version", "english_words"),
}


def list_imports(nodes: Iterable[ast.AST], *, module: str, is_package: bool) -> Iterator[str]:
    """Yield all imports of heedful in a file, as names below heedful ("" for heedful)."""
    package = ["heedful", *module.split(".")]
    package = package if is_package else package[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            # An imported name may be a module itself: from heedful.attention import kernels.
            names = [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and format_dotted_name(node.func).endswith("import_module"):
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        else:
            continue
        yield from (name.removeprefix("heedful").lstrip(".") for name in names if _is_heedful(name))


def _is_heedful(name: str) -> bool:
    return name == "heedful" or name.startswith("heedful.")


def get_rule(module: str) -> tuple[str, ...]:
    """Return the rule of the file if it has its own, otherwise that of its room."""
    room = module.partition(".")[0]
    assert room in ALLOWED, f"heedful/{room} is a new room: add to ALLOWED what it may import"
    return ALLOWED.get(module, ALLOWED[room])


def find_forbidden_imports(nodes: Iterable[ast.AST], *, module: str, is_package: bool = False) -> list[str]:
    room = module.partition(".")[0]
    allowed = ("errors", room, *get_rule(module))
    names = set(list_imports(nodes, module=module, is_package=is_package))
    return sorted(name for name in names if not _is_within(name, allowed))


def _is_within(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)


def test_arrows_point_down() -> None:
    faults = []
    for module, path in find_modules().items():
        names = find_forbidden_imports(list_nodes(path), module=module, is_package=path.name == "__init__.py")
        if names:
            faults.append(f"heedful/{module.replace('.', '/')} may not import {', '.join(names)}")
    assert not faults, "\n".join(faults)


def test_each_rule_is_for_an_existing_room() -> None:
    known = {*find_modules(), "__init__"}
    assert not set(ALLOWED) - known
    assert not [name for names in ALLOWED.values() for name in names if name not in known]


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("data.readers", "import torch, heedful.models.pair_encoder", ["models.pair_encoder"]),
        ("data.readers", "def f():\n    from heedful import models", ["models"]),
        ("data.readers", "from .. import training", ["training"]),
        ("data.readers", "from . import batches\nfrom .batches import x\nfrom ..errors import DataError", []),
        ("data.readers", "import importlib\nimportlib.import_module('heedful.cli.train')", ["cli.train"]),
        ("data.readers", "if True:\n    from ..models.interface import Step", ["models.interface.Step"]),
        ("generation.beam", "from heedful.models.interface import Step", []),
        ("generation.beam", "from heedful.models import interface", []),
        ("generation.beam", "from heedful.models.pair_encoder import Encoder", ["models.pair_encoder.Encoder"]),
        ("recipes.load", "from heedful.tasks.objective import Task", ["tasks.objective.Task"]),
        ("training.trainer", "from heedful.tasks.objective import Task", []),
        ("metrics.translation", "from heedful.tensors import Tokens", ["tensors.Tokens"]),
        (
            "training.trainer",
            "from heedful.tasks.translation.evaluation import TranslationExam",
            ["tasks.translation.evaluation.TranslationExam"],
        ),
        ("tasks.objective", "import heedful", [""]),
        ("tasks.objective", "import heedfulness.training", []),
        ("models.transformer", "from heedful import __version__, load", ["__version__", "load"]),
    ],
)
def test_the_rule_finds_all_kinds_of_imports(module: str, source: str, found: list[str]) -> None:
    assert find_forbidden_imports(ast.walk(ast.parse(source)), module=module) == found
