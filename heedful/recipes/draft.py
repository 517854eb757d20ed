"""A recipe for somebody's own files, with comments that tell what was seen in them."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heedful.catalogue import recipe_of
from heedful.data.forms.naming import Part
from heedful.errors import RecipeError
from heedful.recipes import toml
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe
from heedful.recipes.reference import Key, keys_of

_WIDTH: Final = 110
_IN_A_LINE: Final = 3
"""Keys that the table of a text with languages has at most to stand on one line."""
_NEXT: Final = (
    "init",
    "model.kind",
    "tokenizer.kind",
    "training.monitor",
    "training.patience",
    "training.schedule.rate",
    "training.batch_tokens",
    "generation.kind",
)
"""Keys that one may want to set next, in recipes that have them."""


@dataclass(frozen=True)
class Draft:
    """What is to stand in a recipe.

    Attributes:
        command: what it was made by, as a shell reads it.
        task: what is learned.
        seen: what was seen, a line each.
        data: the table of each part.
        keys: other keys of the table [data].
        max_length: tokens that are read, where it is not the usual number.
        minutes: time for training.
        init: the model that training begins with.
        texts: the tables of all texts for training by their names, where there are several; `data` then has none.
    """

    command: str
    task: str
    seen: Sequence[str]
    data: Mapping[Part, Mapping[str, Any]]
    keys: Mapping[str, Any]
    max_length: int | None
    minutes: float
    init: str | None
    texts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text(self) -> str:
        """The file."""
        return "\n".join(self._lines()) + "\n"

    @property
    def _usual(self) -> int | None:
        return usual_length(self.task)

    def _lines(self) -> Iterator[str]:
        yield from _comment(f"Written by: {self.command}", "What it saw:")
        yield from _comment(*(f"- {line}" for line in self.seen))
        yield ""
        yield f"task = {toml.value(self.task)}"
        if self.init is not None:
            yield f"init = {toml.value(self.init)}"
        yield ""
        yield "[data]"
        long = [part for part, table in self.data.items() if "source_language" in table and len(table) > _IN_A_LINE]
        yield from (f"{part} = {toml.value(table)}" for part, table in self.data.items() if part not in long)
        if "test" not in self.data:
            yield from _comment("test = ...  without it, heedful evaluate measures on validation")
        for key, value in self.keys.items():
            yield f"{key} = {toml.value(value)}"
        if self.max_length is not None:
            yield f"max_length = {self.max_length}  # too many are longer than the default, {self._usual} tokens"
        yield ""
        for part in long:
            yield f"[data.{part}]"
            yield from (f"{key} = {toml.value(value)}" for key, value in self.data[part].items())
            yield ""
        yield from self._texts()
        yield "[training]"
        minutes = int(self.minutes) if float(self.minutes).is_integer() else self.minutes
        yield f"minutes = {minutes}  # time on the clock; a model is better for more of it, or say steps or epochs"
        yield ""
        yield from _comment(
            "What is not said here is fitted or has a default: heedful recipe KEY explains a key, and",
            "heedful train RECIPE --print-config shows all. You may want to set next:",
        )
        abouts = {key.path: _about(key) for key in reversed(keys_of(self.task))}
        width = max(map(len, _NEXT))
        for name in (name for name in _NEXT if name in abouts and not (name == "init" and self.init)):
            about = textwrap.shorten(abouts[name].split(";")[0].split(":")[0], _WIDTH - width - 5, placeholder=" ...")
            yield from _comment(f"  {name:<{width}}  {about}")

    def _texts(self) -> Iterator[str]:
        if not self.texts:
            return
        yield "[data.train]"
        yield from _comment(
            f"weights = {{ {list(self.texts)[-1]} = 0.5 }}  reads that text half as often",
            'tags = ["<made>"] in the table of a text tells the model which one it reads',
        )
        yield ""
        for name, table in self.texts.items():
            yield f"[data.train.texts.{name}]"
            yield from (f"{key} = {toml.value(value)}" for key, value in table.items())
            yield ""


def _about(key: Key) -> str:
    """What a key means, or the words that may stand behind a kind."""
    return f"one of {key.type.replace('`', '')}" if key.path.endswith(".kind") else key.about


def _comment(*lines: str) -> Iterator[str]:
    for line in lines:
        plain = "".join(letter if letter.isprintable() else " " for letter in line)
        yield from textwrap.wrap(
            plain,
            _WIDTH,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )


def usual_length(task: str) -> int | None:
    """Tokens that are read of an example unless a recipe says otherwise; None where there is no such key."""
    data: Any = recipe_of(task).model_fields["data"].annotation
    field = data.model_fields.get("max_length")
    return None if field is None else int(field.default)


def can_begin_with_another(task: str) -> bool:
    """Whether recipes of a task have the key `init`."""
    return "init" in recipe_of(task).model_fields


def told(path: Path, folder: Path) -> str:
    """A path as a recipe in a folder names it: counted from there, unless it was given from the root."""
    return path.as_posix() if path.is_absolute() else Path(os.path.relpath(path, folder)).as_posix()


def checked(text: str, folder: Path) -> Recipe:
    """The recipe that a text is, as it is loaded from a folder; all of its data is read once.

    Raises:
        DataError: a file cannot be read to its end.
        AssertionError: it is no recipe, which is a bug.
    """
    beside = folder / f".new-{os.getpid()}.toml"
    try:
        beside.write_text(text, encoding="utf-8")
        try:
            recipe = load_recipe(beside)
        except RecipeError as error:
            raise AssertionError(f"this recipe does not load ({error}):\n{text}") from error
    finally:
        beside.unlink(missing_ok=True)
    for part in ("train", "validation", "test"):
        if getattr(recipe.data, part) is not None:
            for _ in recipe.data.reader(part):
                pass
    return recipe
