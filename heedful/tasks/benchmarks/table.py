"""All benchmark tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from heedful.errors import RecipeError
from heedful.tasks.benchmarks import glue, question_answering, superglue, swag
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition

DEFINITIONS: Final[Mapping[str, BenchmarkDefinition]] = {
    definition.name: definition
    for table in (glue.TASKS, superglue.TASKS, swag.TASKS, question_answering.TASKS)
    for definition in table
}


def find_definition(name: str) -> BenchmarkDefinition:
    """Return the definition of a task; the benchmark's name may be omitted if the task's name is unique.

    Raises:
        RecipeError: no task has this name, or several have it.
    """
    lower_name = name.lower()
    if lower_name in DEFINITIONS:
        return DEFINITIONS[lower_name]
    matches = [key for key in DEFINITIONS if key.partition("/")[2] == lower_name]
    if len(matches) == 1:
        return DEFINITIONS[matches[0]]
    if matches:
        raise RecipeError(f"{name!r} is a task of several benchmarks: say {' or '.join(matches)}")
    raise RecipeError(f"there is no task {name!r}; heedful describe --tasks lists them")
