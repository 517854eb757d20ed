"""Text in reports about runs: differences between recipes, names of models, and numbers in table cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from heedful.metrics.metric import ConfidenceInterval
    from heedful.recipes.recipe import Recipe

NO_VALUE: Final = "-"


def find_differences(recipes: Sequence[Recipe]) -> dict[str, list[Any]]:
    """Return the recipe keys whose values differ, with the value of each recipe, None if it lacks the key; output
    folders are ignored.
    """
    tables = [dict(_iter_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def collapse_tables(keys: Iterable[str]) -> list[str]:
    """Replace dotted keys by the name of their table if the table's key `kind` is among them, as in model.positions."""
    all_keys = list(keys)
    kind_keys = sorted((key.removesuffix("kind") for key in all_keys if key.endswith(".kind")), key=len)
    names = (next((kind[:-1] for kind in kind_keys if key.startswith(kind)), key) for key in all_keys)
    return list(dict.fromkeys(names))


def _iter_leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and value of each leaf of a nested table; `prefix` is put before the keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _iter_leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def name_models(recipes: Sequence[Recipe]) -> list[str]:
    """Return a distinguishing name of the model of each recipe: its kind, and the named choices that differ from others
    of its kind, as in recurrent (luong).
    """
    names = []
    for recipe in recipes:
        peers = [other for other in recipes if other.model.kind == recipe.model.kind]
        leaves = dict(_iter_leaves(recipe.model_dump(mode="json", include={"model"})))
        shared = [key for key, values in find_differences(peers).items() if None not in values and not _is_path(key)]
        choices = [leaves[key] for key in shared if isinstance(leaves.get(key), str)]
        names.append(recipe.model.kind + (f" ({', '.join(choices)})" if choices else ""))
    return names


def _is_path(key: str) -> bool:
    """Return whether a key names a file of word vectors."""
    return key.endswith("_vectors")


def format_number(value: float | None, number_format: str) -> str:
    """Format a number; a dash for None."""
    return NO_VALUE if value is None else format(value, number_format)


def format_interval(interval: ConfidenceInterval, digits: int) -> str:
    """Format the bounds of a confidence interval."""
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def format_value(value: Any) -> str:
    """Format a recipe value roughly as TOML; a dash for None."""
    if value is None:
        return NO_VALUE
    return str(value).lower() if isinstance(value, bool) else str(value)
