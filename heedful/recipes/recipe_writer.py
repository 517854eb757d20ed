"""Writes a recipe for the user's own files, with comments about their content."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heedful.data.detect.file_names import DatasetPart
from heedful.errors import RecipeError
from heedful.recipes import toml
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe, get_recipe_class
from heedful.recipes.reference import RecipeKey, list_keys

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
    temporary_file = folder / f".new-{os.getpid()}.toml"
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
