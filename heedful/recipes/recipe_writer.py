"""Recipes for the user's own files: tasks for which they can be used, and the recipe with comments about their
content.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import DataFormat, DetectedDataset
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape
from heedful.errors import DataError, RecipeError
from heedful.files import find_leftovers
from heedful.recipes import toml
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe, get_recipe_class
from heedful.recipes.reference import RecipeKey, list_keys
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


_WIDTH: Final = 110
_MAX_INLINE_KEYS: Final = 3
"""Largest number of keys of a text table with languages that is written on one line."""
_SUGGESTED_KEYS: Final = (
    "init",
    "model.kind",
    "tokenizer.kind",
    "training.monitor",
    "training.patience",
    "training.schedule.rate",
    "training.batch_tokens",
    "generation.kind",
)
"""Keys that a user may want to set next, if the recipe has them."""


@dataclass(frozen=True)
class RecipeDraft:
    """Content of a new recipe.

    Attributes:
        command: the shell command that made it.
        task: the task.
        observations: observations about the files, one line each.
        data: table of each part.
        keys: further keys of the table [data].
        max_length: maximum tokens of an example, if it differs from the default.
        minutes: training time.
        init: the model that training starts from.
        texts: tables of all training texts by name, if there are several; `data` then has no training part.
    """

    command: str
    task: str
    observations: Sequence[str]
    data: Mapping[DatasetPart, Mapping[str, Any]]
    keys: Mapping[str, Any]
    max_length: int | None
    minutes: float
    init: str | None
    texts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_toml(self) -> str:
        """Return the recipe as TOML."""
        return "\n".join(self._iter_lines()) + "\n"

    @property
    def _default_length(self) -> int | None:
        return get_default_length(self.task)

    def _iter_lines(self) -> Iterator[str]:
        """Yield the lines of the recipe: comments about what was found, the data, the training time, and keys to set
        next.
        """
        yield from _format_comment(f"Written by: {self.command}", "What it found:")
        yield from _format_comment(*(f"- {line}" for line in self.observations))
        yield ""
        yield f"task = {toml.format_value(self.task)}"
        if self.init is not None:
            yield f"init = {toml.format_value(self.init)}"
        yield ""
        yield "[data]"
        multiline_parts = [
            part_name
            for part_name, table in self.data.items()
            if "source_language" in table and len(table) > _MAX_INLINE_KEYS
        ]
        yield from (
            f"{part_name} = {toml.format_value(table)}"
            for part_name, table in self.data.items()
            if part_name not in multiline_parts
        )
        if "test" not in self.data:
            yield from _format_comment("test = ...  without it, heedful evaluate measures on validation")
        for key, value in self.keys.items():
            yield f"{key} = {toml.format_value(value)}"
        if self.max_length is not None:
            yield (
                f"max_length = {self.max_length}  # too many are longer than the default, {self._default_length} tokens"
            )
        yield ""
        for part_name in multiline_parts:
            yield f"[data.{part_name}]"
            yield from (f"{key} = {toml.format_value(value)}" for key, value in self.data[part_name].items())
            yield ""
        yield from self._iter_text_tables()
        yield "[training]"
        minutes = int(self.minutes) if float(self.minutes).is_integer() else self.minutes
        yield f"minutes = {minutes}  # training time; more time gives a better model; steps or epochs are also possible"
        yield ""
        yield from _format_comment(
            "Other keys are fitted to the data or have a default: heedful recipe KEY explains a key, and",
            "heedful train RECIPE --print-config shows all. You may want to set next:",
        )
        descriptions = {key.path: _describe_key(key) for key in reversed(list_keys(self.task))}
        width = max(map(len, _SUGGESTED_KEYS))
        for name in (name for name in _SUGGESTED_KEYS if name in descriptions and not (name == "init" and self.init)):
            description = textwrap.shorten(
                descriptions[name].split(";")[0].split(":")[0], _WIDTH - width - 5, placeholder=" ..."
            )
            yield from _format_comment(f"  {name:<{width}}  {description}")

    def _iter_text_tables(self) -> Iterator[str]:
        """Yield the lines of the tables of several training texts."""
        if not self.texts:
            return
        yield "[data.train]"
        yield from _format_comment(
            f"weights = {{ {list(self.texts)[-1]} = 0.5 }}  reads that text half as often",
            'tags = ["<made>"] in the table of a text tells the model which one it reads',
        )
        yield ""
        for name, table in self.texts.items():
            yield f"[data.train.texts.{name}]"
            yield from (f"{key} = {toml.format_value(value)}" for key, value in table.items())
            yield ""


def _describe_key(key: RecipeKey) -> str:
    return f"one of {key.type.replace('`', '')}" if key.path.endswith(".kind") else key.description


def _format_comment(*lines: str) -> Iterator[str]:
    """Yield texts as lines of TOML comments, wrapped; characters that cannot be printed become spaces."""
    for line in lines:
        printable = "".join(letter if letter.isprintable() else " " for letter in line)
        yield from textwrap.wrap(
            printable,
            _WIDTH,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )


def get_default_length(task: str) -> int | None:
    """Return the default of `data.max_length` of a task, the maximum of tokens of an example; None if the task has no
    such key.
    """
    data: Any = get_recipe_class(task).model_fields["data"].annotation
    field = data.model_fields.get("max_length")
    return None if field is None else int(field.default)


def supports_init(task: str) -> bool:
    """Whether recipes of a task have the key `init`."""
    return "init" in get_recipe_class(task).model_fields


def format_path(path: Path, folder: Path) -> str:
    """Format a path for a recipe in a folder: relative to the folder, unless it is absolute."""
    return path.as_posix() if path.is_absolute() else Path(os.path.relpath(path, folder)).as_posix()


def check_recipe(text: str, folder: Path) -> Recipe:
    """Load the text of a new recipe as if its file were in `folder`, read all of its data once, and return the recipe.

    Raises:
        DataError: a file cannot be read to its end.
        AssertionError: the recipe does not load, which is a bug.
    """
    temporary_file = folder / f".new.toml.{os.getpid()}"
    for leftover in find_leftovers(folder / "new.toml"):  # of a process that was killed
        leftover.unlink(missing_ok=True)
    try:
        temporary_file.write_text(text, encoding="utf-8")
        try:
            recipe = load_recipe(temporary_file)
        except RecipeError as error:
            raise AssertionError(f"this recipe does not load ({error}):\n{text}") from error
    finally:
        temporary_file.unlink(missing_ok=True)
    for part in ("train", "validation", "test"):
        if getattr(recipe.data, part) is not None:
            for _ in recipe.data.reader(part):
                pass
    return recipe
