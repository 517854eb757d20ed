"""What files may be for: the forms that tasks declare, held against what the files look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heedful.data.detect.format import DataFormat, DetectedDataset
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape
from heedful.errors import DataError, RecipeError
from heedful.registry import get_recipe_class, list_tasks, load_object, suggest_task

MIN_CERTAINTY: Final = 0.8
"""How sure a proposal must be to go without a word."""
_MIN_ALTERNATIVE_CERTAINTY: Final = 0.3
"""How sure another one must be to be told."""


@dataclass(frozen=True)
class DatasetProposal:
    """A task, and how files are read for it."""

    task: str
    dataset: DetectedDataset

    @property
    def is_certain(self) -> bool:
        """Whether nobody needs to be asked."""
        return self.dataset.confidence >= MIN_CERTAINTY


def get_forms(task: str) -> Sequence[DataFormat]:
    """The forms of data that a task declares; none where it declares none."""
    reference = get_recipe_class(task).forms
    forms: Sequence[DataFormat] = load_object(reference, context=f"task = {task!r}") if reference else ()
    return forms


def propose_datasets(
    files: Sequence[FileSniff], *, task: str | None = None, columns: Sequence[str] = ()
) -> list[DatasetProposal]:
    """What files may be for, the most probable first, with one proposal for each task.

    Args:
        files: as they look.
        task: the only one that is asked, if one is.
        columns: those that are to be read; the form finds them if there are none.

    Raises:
        RecipeError: no such task, or none of whose form heedful knows; or no such columns.
        DataError: the files fit no form.
    """
    if task is not None and task not in list_tasks():
        suggestion = suggest_task(task)
        remedy = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(list_tasks())}"
        raise RecipeError(f"--task: {task!r} is no task; {remedy}")
    best: dict[str, DatasetProposal] = {}
    hints: list[str] = []
    for name, form in _iter_forms(task):
        for dataset in (_convert_json_list(dataset, files) for dataset in form.detect(files, columns)):
            if name not in best or dataset.confidence > best[name].dataset.confidence:
                best[name] = DatasetProposal(name, dataset)
        hints += [hint] if (hint := form.get_hint(files)) else []
    ordered = sorted(best.values(), key=lambda dataset: -dataset.dataset.confidence)
    if hints and task is None and not columns:
        raise DataError(hints[0])
    if ordered:
        return (
            ordered
            if task
            else [
                ordered[0],
                *(dataset for dataset in ordered[1:] if dataset.dataset.confidence >= _MIN_ALTERNATIVE_CERTAINTY),
            ]
        )
    raise DataError(hints[0] if hints else _describe_unknown(files, task, columns))


def _iter_forms(task: str | None) -> Iterator[tuple[str, DataFormat]]:
    for name in list_tasks() if task is None else [task]:
        try:
            yield from ((name, form) for form in get_forms(name))
        except RecipeError:  # of an installed package that cannot be used, and nobody asks for
            if task is not None:
                raise


def _convert_json_list(dataset: DetectedDataset, files: Sequence[FileSniff]) -> DetectedDataset:
    """What is one list of JSON is written anew, since a recipe reads an object on each line."""
    if dataset.conversion_reason or not any(
        isinstance(file.shape, JsonObjectsShape) and file.shape.is_list for file in files
    ):
        return dataset
    return replace(dataset, conversion_reason="objects are read line by line, so the list is written as lines of JSON")


def _describe_unknown(files: Sequence[FileSniff], task: str | None, columns: Sequence[str]) -> str:
    """What to say of files that are of no form."""
    if task is not None and not get_forms(task):
        return (
            f'no recipe is made for task = "{task}": copy one that comes with heedful (heedful recipes lists them) and '
            "say there where your data is"
        )
    file_descriptions = "\n".join(f"  {file.path}: {file.description}" for file in files)
    for_task = f' for task = "{task}"' if task else ""
    columns_text = f" with the columns {' '.join(columns)}" if columns else ""
    return (
        f"cannot tell how to learn from {'this' if len(files) == 1 else 'these'}{for_task}{columns_text}:\n{file_descriptions}\n"
        "Name two files whose lines translate each other, or for each part (train, validation, test, by their names) "
        "one file of texts and labels, of tagged words, of questions, or of text; docs/new.md shows each form"
    )
