"""`heedful quickstart`: train a small model on generated data and show what it learned."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from heedful.cli.arguments import parse_arguments
from heedful.errors import RecipeError
from heedful.recipes.recipe import get_recipe_class
from heedful.registry import DEFAULT_TASK, list_tasks, load_object, suggest_task

if TYPE_CHECKING:
    from heedful.tasks.demonstration import Demonstration

_HELP_WIDTH: Final = 80


def run(argv: Sequence[str]) -> int:
    """Run `heedful quickstart`, which trains a small model on generated data, and return its exit code."""
    parsed_demonstration = parse_demonstration(argv)
    recipe = parsed_demonstration.write_recipe()
    if recipe is None:
        return 0
    from heedful.cli import train
    from heedful.recipes.load import load_recipe
    from heedful.runs.load import load

    exit_code = train.run([str(recipe)])
    if exit_code == 0:
        output = load_recipe(recipe).output
        parsed_demonstration.show_results(load(output), output)
    return exit_code


def parse_demonstration(argv: Sequence[str]) -> Demonstration:
    """Parse the words of the command: a task, or none for the default one, and the options of its demonstration."""
    has_task = bool(argv) and not argv[0].startswith("-")
    task, words = (argv[0], argv[1:]) if has_task else (DEFAULT_TASK, argv)
    references = {name: reference for name in list_tasks() if (reference := get_recipe_class(name).shown_by)}
    if task not in references:
        suggestion = suggest_task(task)
        remedy = f"did you mean {suggestion}?" if suggestion in references else f"choose one of {', '.join(references)}"
        raise RecipeError(f"quickstart {task}: no such task; {remedy}")
    demonstration_class: type[Demonstration] = load_object(references[task], context=f"task = {task!r}")
    if not has_task and {"--help", "-h"} & {*words} and len(references) > 1:
        others = ", ".join(name for name in references if name != task)
        print(textwrap.fill(f"heedful quickstart TASK shows another task: {others}", _HELP_WIDTH), end="\n\n")
    return parse_arguments(
        demonstration_class, words, program=f"heedful quickstart {task}" if has_task else "heedful quickstart"
    )
