"""All benchmark tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heedful.errors import RecipeError
from heedful.tasks.benchmarks import answering, glue, superglue, swag
from heedful.tasks.benchmarks.definitions import Definition

DEFINITIONS: Final[Mapping[str, Definition]] = {
    definition.name: definition
    for table in (glue.TASKS, superglue.TASKS, swag.TASKS, answering.TASKS)
    for definition in table
}


def find(name: str) -> Definition:
    """The task called `name`; its benchmark may be left out where only one has such a task.

    Raises:
        RecipeError: there is none, or several.
    """
    wanted = name.lower()
    if wanted in DEFINITIONS:
        return DEFINITIONS[wanted]
    found = [key for key in DEFINITIONS if key.partition("/")[2] == wanted]
    if len(found) == 1:
        return DEFINITIONS[found[0]]
    if found:
        raise RecipeError(f"{name!r} is a task of several benchmarks: say {' or '.join(found)}")
    raise RecipeError(f"there is no task {name!r}; heedful describe --tasks lists them")
