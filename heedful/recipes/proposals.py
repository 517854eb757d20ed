"""What files may be for: the forms that tasks declare, held against what the files look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heedful.catalogue import called, find, recipe_of, tasks
from heedful.data.forms.form import Form, Found
from heedful.data.forms.glance import Glance, Objects
from heedful.errors import DataError, RecipeError

CERTAIN: Final = 0.8
"""How sure a proposal must be to go without a word."""
_WORTH: Final = 0.3
"""How sure another one must be to be told."""


@dataclass(frozen=True)
class Proposal:
    """A task, and how files are read for it."""

    task: str
    found: Found

    @property
    def certain(self) -> bool:
        """Whether nobody needs to be asked."""
        return self.found.certainty >= CERTAIN


def forms_of(task: str) -> Sequence[Form]:
    """The forms of data that a task declares; none where it declares none."""
    place = recipe_of(task).forms
    forms: Sequence[Form] = find(place, about=f"task = {task!r}") if place else ()
    return forms


def proposals(files: Sequence[Glance], *, task: str | None = None, columns: Sequence[str] = ()) -> list[Proposal]:
    """What files may be for, the most probable first, with one proposal for each task.

    Args:
        files: as they look.
        task: the only one that is asked, if one is.
        columns: those that are to be read; the form finds them if there are none.

    Raises:
        RecipeError: no such task, or none of whose form heedful knows; or no such columns.
        DataError: the files fit no form.
    """
    if task is not None and task not in tasks():
        meant = called(task)
        remedy = f"did you mean {meant}?" if meant else f"choose one of {', '.join(tasks())}"
        raise RecipeError(f"--task: {task!r} is no task; {remedy}")
    found: dict[str, Proposal] = {}
    hints: list[str] = []
    for name, form in _forms(task):
        for each in (_in_lines(each, files) for each in form.find(files, columns)):
            if name not in found or each.certainty > found[name].found.certainty:
                found[name] = Proposal(name, each)
        hints += [hint] if (hint := form.hint(files)) else []
    ordered = sorted(found.values(), key=lambda each: -each.found.certainty)
    if hints and task is None and not columns:
        raise DataError(hints[0])
    if ordered:
        return ordered if task else [ordered[0], *(each for each in ordered[1:] if each.found.certainty >= _WORTH)]
    raise DataError(hints[0] if hints else _unknown(files, task, columns))


def _forms(task: str | None) -> Iterator[tuple[str, Form]]:
    for name in tasks() if task is None else [task]:
        try:
            yield from ((name, form) for form in forms_of(name))
        except RecipeError:  # of an installed package that cannot be used, and nobody asks for
            if task is not None:
                raise


def _in_lines(found: Found, files: Sequence[Glance]) -> Found:
    """What is one list of JSON is written anew, since a recipe reads an object on each line."""
    if found.converted or not any(isinstance(each.shape, Objects) and each.shape.listed for each in files):
        return found
    return replace(found, converted="objects are read line by line, so the list is written as lines of JSON")


def _unknown(files: Sequence[Glance], task: str | None, columns: Sequence[str]) -> str:
    """What to say of files that are of no form."""
    if task is not None and not forms_of(task):
        return (
            f'no recipe is made for task = "{task}": copy one that comes with heedful (heedful recipes lists them) and '
            "say there where your data is"
        )
    seen = "\n".join(f"  {file.path}: {file.told}" for file in files)
    for_task = f' for task = "{task}"' if task else ""
    named = f" with the columns {' '.join(columns)}" if columns else ""
    return (
        f"cannot tell how to learn from {'this' if len(files) == 1 else 'these'}{for_task}{named}:\n{seen}\n"
        "Name two files whose lines translate each other, or for each part (train, validation, test, by their names) "
        "one file of texts and labels, of tagged words, of questions, or of text; docs/new.md shows each form"
    )
