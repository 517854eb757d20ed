"""Tasks for which files can be used, by the data forms of all tasks; and data that are split by documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heedful.data.detect.format import DataFormat, DetectedDataset
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape
from heedful.errors import DataError, RecipeError
from heedful.recipes.recipe import get_recipe_class
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks, load_object, suggest_task

MIN_CERTAINTY: Final = 0.8
"""Certainty from which on a proposal is accepted without asking."""
_MIN_ALTERNATIVE_CERTAINTY: Final = 0.3
"""Certainty from which on an alternative is mentioned."""


@dataclass(frozen=True)
class DatasetProposal:
    """A task, and how files are read for it."""

    task: str
    dataset: DetectedDataset

    @property
    def is_certain(self) -> bool:
        """Whether the user need not be asked."""
        return self.dataset.confidence >= MIN_CERTAINTY


def get_forms(task: str) -> Sequence[DataFormat]:
    """Return the data forms that a task declares; empty if it declares none."""
    reference = get_recipe_class(task).forms
    forms: Sequence[DataFormat] = load_object(reference, context=f"task = {task!r}") if reference else ()
    return forms


def propose_datasets(
    files: Sequence[FileSniff], *, task: str | None = None, columns: Sequence[str] = ()
) -> list[DatasetProposal]:
    """Return what files can be used for, the most probable first, with one proposal for each task, or for the given
    one; `columns` are those of tables to read.

    Args:
        files: previews of the files.
        task: the only task to consider; all tasks if None.
        columns: the columns to read; the form chooses them if there are none.

    Raises:
        RecipeError: there is no such task, it has no data forms, or there are no such columns.
        DataError: the files match no form.
    """
    if task is not None and task not in list_tasks():
        suggestion = suggest_task(task)
        remedy = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(list_tasks())}"
        raise RecipeError(f"--task: {task!r} is not a task; {remedy}")
    best: dict[str, DatasetProposal] = {}
    hints: list[str] = []
    for name, form in _iter_forms(task):
        for dataset in (_convert_json_list(dataset, files) for dataset in form.detect(files, columns)):
            if name not in best or dataset.confidence > best[name].dataset.confidence:
                best[name] = DatasetProposal(name, dataset)
        hints += [hint] if (hint := form.get_hint(files)) else []
    if hints and ((task is None and not columns) or not best):
        raise DataError(hints[0])
    if not best:
        raise DataError(_describe_unknown(files, task, columns))
    first, *others = sorted(best.values(), key=lambda proposal: -proposal.dataset.confidence)
    min_certainty = _MIN_ALTERNATIVE_CERTAINTY if task is None else 0.0
    return [first, *(other for other in others if other.dataset.confidence >= min_certainty)]


def _iter_forms(task: str | None) -> Iterator[tuple[str, DataFormat]]:
    """Yield each data form with the name of its task, for one task or, if it is None, for all."""
    for name in list_tasks() if task is None else [task]:
        try:
            yield from ((name, form) for form in get_forms(name))
        except RecipeError:  # of an installed package that cannot be used and is not requested
            if task is not None:
                raise


def _convert_json_list(dataset: DetectedDataset, files: Sequence[FileSniff]) -> DetectedDataset:
    """Return the dataset, marked for conversion if one of its files is one JSON list, because recipes read one object a
    line.
    """
    if dataset.conversion_reason or not any(
        isinstance(file.shape, JsonObjectsShape) and file.shape.is_list for file in files
    ):
        return dataset
    return replace(dataset, conversion_reason="objects are read line by line, so the list is written as lines of JSON")


def _describe_unknown(files: Sequence[FileSniff], task: str | None, columns: Sequence[str]) -> str:
    """Return the message about files that match no form of a task (of any task if it is None), read with these
    columns.
    """
    if task is not None and not get_forms(task):
        return (
            f'no recipe is made for task = "{task}": copy one that comes with heedful (heedful recipes lists them) and '
            "set the paths of your data in it"
        )
    file_descriptions = "\n".join(f"  {file.path}: {file.description}" for file in files)
    for_task = f' for task = "{task}"' if task else ""
    columns_text = f" with the columns {' '.join(columns)}" if columns else ""
    return (
        "cannot tell how to learn from "
        f"{'this' if len(files) == 1 else 'these'}{for_task}{columns_text}:\n{file_descriptions}\n"
        "Give two files whose lines are translations of each other, or for each part (train, validation, test, by "
        "their names) "
        "one file of texts and labels, of tagged words, of questions, or of text; docs/new.md shows each form"
    )


def keep_documents_whole(proposal: DatasetProposal, *, blank_lines: bool, column: str | None) -> DatasetProposal:
    """Return the proposal with data that are split by whole documents: these end at blank lines, or the column of a
    table names them. Without either it stays as it is.

    Args:
        proposal: the proposed task and data.
        blank_lines: whether empty lines end documents.
        column: the column of a table that names the document.

    Raises:
        RecipeError: this task or form of data has no such documents.
    """
    if not blank_lines and column is None:
        return proposal
    option = "--documents" if blank_lines else "--document-column"
    if all(key.path != "data.train.document_column" for key in list_keys(proposal.task)):
        raise RecipeError(f'{option}: task = "{proposal.task}" has no documents; leave it out')
    if blank_lines and column is not None:
        raise RecipeError(
            "--documents, --document-column: empty lines end documents, or a column names them; give one of them"
        )
    return replace(proposal, dataset=proposal.dataset.keep_documents_whole(blank_lines=blank_lines, column=column))
