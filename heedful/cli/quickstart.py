"""`heedful quickstart`: a small model learns while one watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heedful.catalogue import DEFAULT, called, find, recipe_of, tasks
from heedful.cli.arguments import parse
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.demonstration import Demonstration


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = demonstration(arguments)
    recipe = given.write()
    if recipe is None:
        return 0
    from heedful.cli import train
    from heedful.recipes.load import load_recipe
    from heedful.runs.load import load

    code = train.run([str(recipe)])
    if code == 0:
        output = load_recipe(recipe).output
        given.show(load(output), output)
    return code


def demonstration(arguments: Sequence[str]) -> Demonstration:
    """What was asked for: a task, the default one unless it is named, and the options of its demonstration."""
    named = bool(arguments) and not arguments[0].startswith("-")
    task, words = (arguments[0], arguments[1:]) if named else (DEFAULT, arguments)
    shown = {name: place for name in tasks() if (place := recipe_of(name).shown_by)}
    if task not in shown:
        meant = called(task)
        remedy = f"did you mean {meant}?" if meant in shown else f"choose one of {', '.join(shown)}"
        raise RecipeError(f"quickstart {task}: there is none; {remedy}")
    kind: type[Demonstration] = find(shown[task], about=f"task = {task!r}")
    if not named and {"--help", "-h"} & {*words} and len(shown) > 1:
        print(f"heedful quickstart TASK shows another task: {', '.join(name for name in shown if name != task)}\n")
    return parse(kind, words, program=f"heedful quickstart {task}" if named else "heedful quickstart")
