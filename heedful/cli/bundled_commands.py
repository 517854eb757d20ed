"""`heedful recipes`, `recipe` and `study`: list and copy the recipes that come with heedful, explain their keys, and
run its studies.
"""

from __future__ import annotations

import runpy
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from heedful.bundled import format_items, get_item, list_recipes, list_studies
from heedful.cli.arguments import OptionalOutput
from heedful.cli.option_parser import Positional
from heedful.english_words import closest_match
from heedful.errors import DataError, RecipeError
from heedful.recipes.reference import RecipeKey, list_keys
from heedful.recipes.synonyms import KEY_SYNONYMS
from heedful.registry import DEFAULT_TASK, list_tasks, suggest_task


@dataclass(frozen=True)
class RecipesArguments:
    """List the recipes that come with heedful, or copy one of them."""

    name: Annotated[str, Positional] = ""
    """name of the recipe to copy; without one, all are listed"""
    output: OptionalOutput = None
    """file for the copy; recipes/NAME.toml unless given"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        available = list_recipes()
        if not self.name:
            print(format_items(available))
            return 0
        name = self.name.removeprefix("recipes/").removesuffix(".toml")
        item = get_item(name, available, noun="recipe")
        path = self.output or Path("recipes") / f"{name}.toml"
        if path.exists():
            raise RecipeError(f"{path}: already exists; choose another place with --output")
        from heedful.atomic_io import atomic_replace  # which needs torch

        with atomic_replace(path) as temporary_file:
            temporary_file.write_bytes(item.path.read_bytes())
        print(f"written: {path}\nset the paths of your text in it, then: heedful train {shlex.quote(str(path))}")
        return 0


_WIDTH: Final = 100


@dataclass(frozen=True)
class RecipeArguments:
    """Explain a recipe key: its type, default and range.

    The last part of a key is enough, and for a table all its keys are shown. Without a key, all keys of a task are
    listed.

        heedful recipe training.schedule.rate
    """

    key: Annotated[str, Positional] = ""
    """dotted key, its last part, or a table"""
    task: str | None = None
    """only recipes of this task"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        if self.task is not None and self.task not in list_tasks():
            suggestion = suggest_task(self.task)
            remedy = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(list_tasks())}"
            raise RecipeError(f"--task: {self.task!r} is not a task; {remedy}")
        if not self.key:
            print("\n".join(_format_rows(list_keys(self.task or DEFAULT_TASK))))
            return 0
        tasks_by_key = _collect_keys([self.task] if self.task else list(list_tasks()))
        key = self.key.removeprefix("--").replace("-", "_").replace("[", "").replace("]", "")
        print("\n\n".join(_explain_keys(_find_keys(key, tasks_by_key), tasks_by_key, show_tasks=self.task is None)))
        return 0


def _collect_keys(names: Sequence[str]) -> dict[RecipeKey, list[str]]:
    """Return every recipe key of the tasks `names`, with the tasks that have it."""
    tasks_by_key: dict[RecipeKey, list[str]] = {}
    for task in names:
        for key in list_keys(task):
            tasks_by_key.setdefault(key, []).append(task)
    return tasks_by_key


def _find_keys(key: str, recipe_keys: Mapping[RecipeKey, object]) -> list[str]:
    """Return the dotted keys that a word of the user stands for: a key, its last part, or a synonym. Raise
    `RecipeError` if there is none.
    """
    paths = dict.fromkeys(recipe_key.path for recipe_key in recipe_keys)
    matching = [path for path in paths if path == key] or [path for path in paths if f".{path}".endswith(f".{key}")]
    if not matching:
        _, names = KEY_SYNONYMS.get(key.rpartition(".")[2], ("", ()))
        matching = [name for name in names if name in paths][:1]
    if not matching:
        last_parts = [path.rpartition(".")[2] for path in paths]
        suggestion = closest_match(key, paths) or closest_match(key.rpartition(".")[2], last_parts)
        remedy = f"did you mean {suggestion}?" if suggestion else "heedful recipe lists all keys"
        raise RecipeError(f"heedful recipe: {key!r} is not a key of a recipe; {remedy}")
    return matching


def _explain_keys(
    paths: Sequence[str], tasks_by_key: Mapping[RecipeKey, Sequence[str]], *, show_tasks: bool
) -> Iterator[str]:
    """Yield a block of text for each meaning of each key in `paths`; kinds of a table with the same meaning share a
    block. `show_tasks` also lists the tasks that have it.
    """
    for path in paths:
        meanings: dict[tuple[RecipeKey, tuple[str, ...]], list[str]] = {}
        for key, names in tasks_by_key.items():
            if key.path == path:
                without_kinds = replace(key, selector=(key.selector[0], ()))
                meanings.setdefault((without_kinds, tuple(names)), []).extend(key.selector[1])
        for (key, names), kinds in meanings.items():
            yield "\n".join(_format_block(key, kinds, names if show_tasks else (), tasks_by_key))


def _format_block(
    key: RecipeKey, kinds: Sequence[str], names: Sequence[str], all_keys: Mapping[RecipeKey, object]
) -> Iterator[str]:
    """Yield the lines that explain a key: type, range, default, meaning, the kinds of its table and the tasks that have
    it, `names`. For a table, its keys among `all_keys` follow.
    """
    yield key.path
    yield f"  {', '.join(filter(None, (_strip_markup(key.type), key.range)))}; {_format_default(key)}"
    yield textwrap.fill(key.description, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    if kinds:
        shown = " or ".join(f'"{kind}"' for kind in dict.fromkeys(kinds))
        yield textwrap.fill(f"  where {key.selector[0]} = {shown}", _WIDTH, subsequent_indent="    ")
    if names:
        shown = "all tasks" if len(names) == len(list_tasks()) else ", ".join(names)
        yield textwrap.fill(f"  in recipes of {shown}", _WIDTH, subsequent_indent="    ")
    if key.is_table:
        nested_keys = [other for other in all_keys if other.path.startswith(f"{key.path}.")]
        yield from (f"    {row}" for row in _format_rows(nested_keys))


def _format_rows(recipe_keys: Sequence[RecipeKey]) -> list[str]:
    """Format a line for each key, with its type and default."""
    lines: dict[str, RecipeKey] = {}
    for key in recipe_keys:
        lines.setdefault(key.path, key)
    width = max(map(len, lines), default=0)
    return [f"{path:<{width}}  {_strip_markup(key.type)}; {_format_default(key)}" for path, key in lines.items()]


def _strip_markup(text: str) -> str:
    """Remove Markdown markup."""
    return text.replace("`", "").replace("**", "")


def _format_default(key: RecipeKey) -> str:
    default = _strip_markup(key.default)
    return {"must be given": default, "see meaning": "depends on others"}.get(default, f"{default} by default")


_STUDY_HELP = """\
usage: heedful study [NAME [options]]

Run a small experiment that demonstrates a claim of a paper. Without a name, all
experiments are listed; heedful study NAME --help shows the options of one."""


def run_study(argv: Sequence[str]) -> int:
    """Run `heedful study`: run an experiment, or list all. Return the exit code; if the experiment ends with a message,
    raise `DataError`.
    """
    available = list_studies()
    if not argv:
        print(format_items(available))
        return 0
    name, *options = argv
    if name in ("-h", "--help"):
        print(_STUDY_HELP)
        return 0
    path = get_item(name.removeprefix("studies/").removesuffix(".py"), available, noun="study").path
    saved_state = sys.argv, sys.path
    # As if Python had been given the file: what it imports from its own folder is found.
    sys.argv, sys.path = [str(path), *options], [str(path.parent), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            raise DataError(stop.code) from None
        raise
    finally:
        sys.argv, sys.path = saved_state
    return 0
