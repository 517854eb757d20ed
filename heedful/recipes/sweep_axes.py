"""Axes of a sweep: the keys of a recipe that it changes, their values, and the runs that result."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, final

from heedful.errors import RecipeError

_CLOSING_BRACKETS: Final = {"[": "]", "{": "}", '"': '"', "'": "'"}
_RANGE_PATTERN: Final = re.compile(r"([-+0-9.eE]+?)\.\.([-+0-9.eE]+)(:log)?")


@final
@dataclass(frozen=True)
class SweepRange:
    """An interval of numbers, from which a search draws.

    Attributes:
        low: lowest value.
        high: highest value.
        is_integer: whether only whole numbers are drawn.
        is_logarithmic: whether logarithms are drawn uniformly.
    """

    low: float
    high: float
    is_integer: bool
    is_logarithmic: bool


@final
@dataclass(frozen=True)
class SweepAxis:
    """A recipe key and the values that a sweep gives it.

    Attributes:
        key: dotted key, such as model.heads.
        values: texts of the values, as on a command line; empty if they are drawn.
        drawn_from: interval from which values are drawn.
    """

    key: str
    values: tuple[str, ...] = ()
    drawn_from: SweepRange | None = None


def parse_sweep_axis(text: str) -> SweepAxis:
    """Parse `KEY=a,b,c`, or `KEY=low..high` and `KEY=low..high:log` for numbers that are drawn. Commas inside brackets
    and quotation marks do not separate values.

    Raises:
        RecipeError: the key is missing, a value is empty or given twice, or the bounds of an interval are not finite
            numbers in rising order, above 0 for logarithms.
    """
    key, equals, value_text = text.partition("=")
    if not equals or not key or not value_text:
        raise RecipeError(f"--over {text}: write KEY=VALUE,VALUE, such as model.heads=2,4")
    if match := _RANGE_PATTERN.fullmatch(value_text):
        return SweepAxis(key, drawn_from=_parse_range(text, *match.groups()))
    values = [value.strip() for value in _split_values(value_text)]
    if "" in values:
        raise RecipeError(f"--over {text}: a value is empty; write KEY=VALUE,VALUE, such as model.heads=2,4")
    for value in values:
        if values.count(value) > 1:
            raise RecipeError(f"--over {text}: {value} is given twice; give each value once")
    return SweepAxis(key, tuple(values))


def _parse_range(text: str, low_text: str, high_text: str, logarithmic: str | None) -> SweepRange:
    """Parse the bounds of an interval; `text` is the whole option."""
    try:
        low, high = float(low_text), float(high_text)
    except ValueError:
        raise RecipeError(f"--over {text}: an interval is written LOW..HIGH, such as 1e-4..1e-2:log") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise RecipeError(f"--over {text}: the lower bound must be below the upper one, such as 0.1..0.4")
    if logarithmic and low <= 0:
        raise RecipeError(f"--over {text}: logarithms need bounds above 0, such as 1e-4..1e-2:log")
    is_integer = all(re.fullmatch(r"[-+]?\d+", bound) for bound in (low_text, high_text))
    return SweepRange(low, high, is_integer, logarithmic is not None)


def _split_values(text: str) -> list[str]:
    """Split a text at the commas that are outside of brackets and quotation marks."""
    parts, pending = [""], ""
    for character in text:
        if character == "," and not pending:
            parts.append("")
            continue
        if pending and character == pending[-1]:
            pending = pending[:-1]
        elif character in _CLOSING_BRACKETS and not pending.endswith(('"', "'")):
            pending += _CLOSING_BRACKETS[character]
        parts[-1] += character
    return parts


@final
@dataclass(frozen=True)
class PlannedRun:
    """One of several trainings that are planned together, each as a command of heedful.

    Attributes:
        name: name of its run folder.
        command: the first words after `heedful`, such as train and a recipe file.
        settings: values of the recipe's keys that are changed, as text.
        number: number of the drawn configuration, from 0; unused if none is drawn.
        options: further options of the command.
    """

    name: str
    command: Sequence[str]
    settings: Mapping[str, str]
    number: int = 0
    options: Sequence[str] = ()

    @property
    def overrides(self) -> list[str]:
        """Command-line options that change the recipe."""
        return [f"--{key}={value}" for key, value in self.settings.items()]

    def build_words(self, folder: Path) -> list[str]:
        """Return the words after `heedful` that train the run into a folder."""
        return [*self.command, *self.options, *self.overrides, f"--output={folder}"]

    @property
    def description(self) -> str:
        """The settings with short keys, such as heads=2,seed=1."""
        return describe_settings(self.settings)


def build_runs(
    recipe: Path,
    settings: Mapping[str, str],
    *,
    seeds: Sequence[int],
    options: Sequence[str] = (),
    label: str = "",
    number: int = 0,
) -> list[PlannedRun]:
    """Build the runs of one configuration, one for each seed.

    Args:
        recipe: the recipe file.
        settings: value of each swept key, as text.
        seeds: the seeds.
        options: further options of `heedful train`.
        label: name of the configuration; by default the keys with their values.
        number: number of the configuration.
    """
    seeded_settings = [{**settings, "seed": str(seed)} for seed in seeds]
    return [
        PlannedRun(
            _to_file_name(f"{label},seed={each['seed']}" if label else describe_settings(each)),
            ("train", str(recipe)),
            each,
            number,
            options,
        )
        for each in seeded_settings
    ]


def describe_settings(settings: Mapping[str, str]) -> str:
    """Describe the values of keys with short names, such as heads=2,seed=1."""
    return ",".join(f"{name}={settings[key]}" for key, name in shorten_keys(list(settings)).items())


def build_grid(
    recipe: Path, axes: Sequence[SweepAxis], *, seeds: Sequence[int], options: Sequence[str] = ()
) -> list[PlannedRun]:
    """Build the runs of a grid for a recipe file: each combination of the values, with each seed; the seeds of a
    combination follow each other. `options` are further options of `heedful train`.

    Raises:
        RecipeError: two combinations have the same name of the run folder.
    """
    combinations = product(*(axis.values for axis in axes))
    keys = [axis.key for axis in axes]
    settings = [dict(zip(keys, values, strict=True)) for values in combinations]
    runs = [run for each in settings for run in build_runs(recipe, each, seeds=seeds, options=options)]
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"--over: two values give the run folder {name}; sweep them one after the other")
    return runs


def shorten_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return the shortest end of each dotted key that no other key has."""
    short = {}
    for key in keys:
        parts = key.split(".")
        ends = [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
        others = [other for other in keys if other != key]
        short[key] = next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), key)
    return short


def _to_file_name(text: str) -> str:
    """Replace characters that are inconvenient in names of files by underscores."""
    return re.sub(r"[^\w.,=+-]+", "_", text)
