"""A task is one folder: nothing generic knows it, nobody imports all; and no files import each other in a circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from architecture.sources import PACKAGE, modules, read, walk
from architecture.test_direction import imported

from heedful.registry import _BUILTIN_TASKS

FOLDERS = {task: place.split(".")[2] for task, place in _BUILTIN_TASKS.items()}
"""Each task's folder below heedful/tasks."""
GOLDEN = Path(__file__).parents[1] / "golden"

# Who may know a task by its folder or its name, besides the task itself.
KNOWN: dict[str, tuple[str, ...]] = {
    # what `load` gives has a name for whoever writes types
    "__init__": (
        *("captioning", "classification", "conversation", "glimpses", "language", "pretraining", "spans", "speech"),
        *("stories", "tagging", "translation"),
    ),
    # commands that belong to one task
    "cli.translate": ("translation",),
    "cli.caption": ("captioning",),
    "cli.translate_lines": ("translation",),
    "cli.translate_ray": ("translation",),
    "cli.translate_options": ("translation",),
    "cli.annotate": ("translation",),
    "cli.backtranslate": ("translation",),
    "cli.calibrate": ("translation",),
    "cli.filter": ("translation",),
    "cli.options": ("translation",),
    "cli.score": ("translation",),
    "cli.rerank": ("translation", "language"),
    "cli.inspect_corpus": ("translation",),
    "cli.generate": ("language",),
    "cli.chat": ("conversation",),
    "cli.transcribe": ("speech",),
    "cli.text_commands": (
        *("pretraining", "tagging", "classification", "spans", "glimpses", "stories", "translation"),
    ),
    "cli.search": ("spans",),
    "retrieval.highlights": ("spans",),
    # protocols have words for each thing that models do
    # protocols, and our own interface, each for what is asked of some tasks
    "serving.languages": ("translation",),
    "serving.libretranslate": ("translation",),
    "serving.openai": ("language", "conversation"),
    "serving.api.translation": ("translation",),
    "serving.directions": ("translation",),
    "serving.api.generation": ("language", "conversation"),
    "serving.api.encoders": ("pretraining", "classification", "tagging", "spans", "stories"),
    "serving.api.captioning": ("captioning",),
    "serving.api.glimpses": ("glimpses",),
    "serving.api.speech": ("speech",),
    # which of our tasks a model of somebody else's is for
    "foreign": ("translation", "language", "pretraining"),
    "foreign.hugging_face": ("classification", "tagging", "spans"),  # of fine-tuned encoders
    "runs.export": ("translation",),
    # one task that is made of others
    "tasks.multitask": ("classification", "tagging", "spans"),
    # masks of tokens, words and spans of words
    "tasks.pretraining": ("spans",),
    # a family of models is called as the task that was made for it
    "architectures.glimpses": ("glimpses",),
    "inspection.figures": ("glimpses",),  # and what is drawn of it
    # benchmarks are tables that two tasks read
    "tasks.benchmarks": ("classification", "spans"),
}


def knows(module: str) -> tuple[str, ...]:
    return tuple(task for known, tasks in KNOWN.items() if _within(module, known) for task in tasks)


def _within(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def named(nodes: Sequence[ast.AST], *, module: str, is_package: bool = False) -> Iterator[str]:
    """The folders of tasks that a module imports, or whose task it names in a string of its own."""
    for name in imported(nodes, module=module, is_package=is_package):
        parts = name.split(".")
        if parts[0] == "tasks" and len(parts) > 1 and parts[1] in FOLDERS.values():
            yield parts[1]
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FOLDERS:
            yield FOLDERS[node.value]


def test_only_a_task_itself_knows_it() -> None:
    faults = []
    for module, path in modules().items():
        if module == "registry":
            continue
        own = module.split(".")[1] if module.startswith("tasks.") else ""
        tasks = set(named(walk(path), module=module, is_package=path.name == "__init__.py"))
        if odd := tasks - {own, *knows(module)}:
            faults.append(f"heedful/{module.replace('.', '/')} knows {', '.join(sorted(odd))}")
    assert not faults, "\n".join(faults)


def test_each_permission_to_know_a_task_is_used() -> None:
    for known, tasks in KNOWN.items():
        if known == "tasks.benchmarks":  # whose heads are called as the tasks that answer them
            continue
        sources = [(name, path) for name, path in modules().items() if _within(name, known)]
        found = {task for name, path in sources for task in named(walk(path), module=name)}
        assert set(tasks) <= found, f"{known} need not know {', '.join(sorted(set(tasks) - found))}"


def test_each_task_has_a_recipe_and_a_task_class() -> None:
    for task in FOLDERS.values():
        folder = PACKAGE / "tasks" / task
        assert {"recipe.py", "task.py"} <= {path.name for path in folder.glob("*.py")}, task
        assert "TASK: Final" in read(folder / "task.py"), task


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("runs.load", "from heedful.tasks.translation.translator import Translator", {"translation"}),
        ("runs.load", "def f():\n    import heedful.tasks.spans.task", {"spans"}),
        ("cli.train", "USES = {'language_modelling': 'generate'}", {"language"}),
        ("runs.load", "from heedful.tasks.task import Run", set()),
    ],
)
def test_the_rule_finds_each_way_of_knowing(module: str, source: str, found: set[str]) -> None:
    assert set(named(list(ast.walk(ast.parse(source))), module=module)) == found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that lead to each other (Tarjan 1972)."""
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
"""Imports that lead back, each with its reason."""


def imports() -> dict[str, set[str]]:
    """Which file imports which, wherever in the file, for type checkers too."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = imported(walk(path), module=module, is_package=path.name == "__init__.py")
        targets = {name if name in known else name.rpartition(".")[0] for name in names}
        graph[module] = {
            target for target in targets if target in known and target != module and (module, target) not in RETURNS
        }
    return graph


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(imports()) == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


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
