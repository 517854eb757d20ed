"""A task is one folder: general code does not know it, no file imports all tasks, and imports have no circles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from architecture.sources import PACKAGE, find_modules, list_nodes, read_source
from architecture.test_direction import list_imports

from heedful.registry import _BUILTIN_TASKS

FOLDERS = {task: place.split(".")[2] for task, place in _BUILTIN_TASKS.items()}
"""The folder of each task below heedful/tasks."""
GOLDEN = Path(__file__).parents[1] / "golden"

# Modules that may name a task's folder or a task, besides the task itself.
KNOWN: dict[str, tuple[str, ...]] = {
    # types of what `load` returns
    "__init__": (
        *("captioning", "classification", "conversation", "glimpses", "language", "pretraining", "spans", "speech"),
        *("stories", "tagging", "translation"),
    ),
    # commands that belong to one task
    "cli.translate": ("translation",),
    "cli.media_commands": ("captioning", "speech"),
    "cli.translate_options": ("translation",),
    "cli.translation_commands": ("translation",),
    "cli.data_commands": ("translation",),
    "cli.options": ("translation",),
    "cli.rerank": ("translation", "language"),
    "cli.inspect_corpus": ("translation",),
    "cli.generation_commands": ("language", "conversation"),
    "cli.text_commands": (
        *("pretraining", "tagging", "classification", "spans", "glimpses", "stories", "translation"),
    ),
    "cli.search": ("spans",),
    # the lecture decks show many tasks
    "lecture": ("captioning", "conversation", "glimpses", "spans"),
    "retrieval.rankings": ("spans",),
    # protocols have words for each function of models
    # protocols and heedful's own interface, each for some tasks
    "serving.languages": ("translation",),
    "serving.libretranslate": ("translation",),
    "serving.openai": ("language", "conversation"),
    "serving.api.translation": ("translation",),
    "serving.directions": ("translation",),
    "serving.api.generation": ("language", "conversation"),
    "serving.api.encoders": ("pretraining", "classification", "tagging", "spans", "stories"),
    "serving.api.media": ("captioning", "glimpses", "speech"),
    # the tasks of models from other projects
    "foreign": ("translation", "language", "pretraining"),
    "foreign.hugging_face": ("classification", "tagging", "spans"),  # of fine-tuned encoders
    "foreign.picture_folders": ("glimpses",),
    "foreign.families.vit": ("glimpses",),
    "foreign.speech_folders": ("speech",),
    "foreign.families.whisper": ("speech",),
    "runs.export": ("translation",),
    # a task that combines others
    "tasks.multitask": ("classification", "tagging", "spans"),
    # masks of tokens, words and spans of words
    "tasks.pretraining": ("spans",),
    # an architecture with the name of its task
    "architectures.vision": ("glimpses",),
    "inspection.figures": ("glimpses",),  # and its figures
    # benchmarks are tables that two tasks read
    "tasks.benchmarks": ("classification", "spans"),
}


def list_known_tasks(module: str) -> tuple[str, ...]:
    return tuple(task for known, tasks in KNOWN.items() if _is_within(module, known) for task in tasks)


def _is_within(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def find_named_tasks(nodes: Sequence[ast.AST], *, module: str, is_package: bool = False) -> Iterator[str]:
    """Yield the folders of tasks that a module imports or whose task it names in a string."""
    for name in list_imports(nodes, module=module, is_package=is_package):
        parts = name.split(".")
        if parts[0] == "tasks" and len(parts) > 1 and parts[1] in FOLDERS.values():
            yield parts[1]
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FOLDERS:
            yield FOLDERS[node.value]


def test_only_a_task_itself_knows_it() -> None:
    faults = []
    for module, path in find_modules().items():
        if module == "registry":
            continue
        own = module.split(".")[1] if module.startswith("tasks.") else ""
        tasks = set(find_named_tasks(list_nodes(path), module=module, is_package=path.name == "__init__.py"))
        if odd := tasks - {own, *list_known_tasks(module)}:
            faults.append(f"heedful/{module.replace('.', '/')} knows {', '.join(sorted(odd))}")
    assert not faults, "\n".join(faults)


def test_each_permission_to_know_a_task_is_used() -> None:
    for known, tasks in KNOWN.items():
        if known == "tasks.benchmarks":  # classes of heads have the names of their tasks
            continue
        sources = [(name, path) for name, path in find_modules().items() if _is_within(name, known)]
        found = {task for name, path in sources for task in find_named_tasks(list_nodes(path), module=name)}
        assert set(tasks) <= found, f"{known} need not know {', '.join(sorted(set(tasks) - found))}"


def test_each_task_has_a_recipe_and_a_task_class() -> None:
    for task in FOLDERS.values():
        folder = PACKAGE / "tasks" / task
        assert {"recipe.py", "task.py"} <= {path.name for path in folder.glob("*.py")}, task
        assert "TASK: Final" in read_source(folder / "task.py"), task


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("runs.load", "from heedful.tasks.translation.translator import Translator", {"translation"}),
        ("runs.load", "def f():\n    import heedful.tasks.spans.task", {"spans"}),
        ("cli.train", "USES = {'language_modelling': 'generate'}", {"language"}),
        ("runs.load", "from heedful.tasks.task import Run", set()),
    ],
)
def test_the_rule_finds_all_kinds_of_knowing(module: str, source: str, found: set[str]) -> None:
    assert set(find_named_tasks(list(ast.walk(ast.parse(source))), module=module)) == found


def find_circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        open_.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in open_:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group = open_[open_.index(node) :]
            del open_[open_.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in order:
            visit(node)
    return found


RETURNS = {
    ("inspection.record", "inspection.web"): "a record shows itself in a notebook, where the page is asked for",
}
"""Imports that form circles, each with its reason."""


def build_import_graph() -> dict[str, set[str]]:
    """Return all imports between files, including those for type checkers."""
    known = find_modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = list_imports(list_nodes(path), module=module, is_package=path.name == "__init__.py")
        targets = {name if name in known else name.rpartition(".")[0] for name in names}
        graph[module] = {
            target for target in targets if target in known and target != module and (module, target) not in RETURNS
        }
    return graph


def test_no_files_import_each_other_in_a_circle() -> None:
    assert find_circles(build_import_graph()) == []


def test_circles_are_found() -> None:
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert find_circles({"a": {"b"}, "b": set()}) == []


def test_to_translate_a_sentence_no_other_task_is_imported() -> None:
    script = (
        "import sys\nfrom heedful.__main__ import main\ncode = main(sys.argv[1:])\n"
        "print(*(name for name in sys.modules if name.startswith('heedful.')))\nsys.exit(code)"
    )
    words = ["translate", str(GOLDEN / "translation-transformer/run"), "--text", "a", "--device", "cpu"]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    others = {folder for task, folder in FOLDERS.items() if task != "translation"}
    assert not [name for name in loaded if name.startswith("heedful.tasks.") and name.split(".")[2] in others]
