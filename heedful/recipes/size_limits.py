"""Limits on the size of a model, and the recipe key that makes it too large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from heedful.errors import RecipeError
from heedful.recipes.config import Config
from heedful.recipes.recipe import Recipe

MAX_LAYERS: Final = 10_000
"""Largest number of layers of one part of a model; the deepest published models have a thousand."""
_TYPICAL_VALUE: Final = 512
"""Typical value of a number without a default."""
_TYPICAL_VOCABULARY_SIZE: Final = 32_000


def check_num_layers(model: Config, *, key_prefix: str = "model") -> None:
    """Raise `RecipeError` if a model has so many layers that building them would take hours."""
    for key, value, _ in _iter_numbers(model, key_prefix):
        name = key.rpartition(".")[2]
        if (name == "hops" or name.endswith("layers")) and value > MAX_LAYERS:
            raise RecipeError(f"{key} = {value:,}: a model has at most {MAX_LAYERS:,} of them; make it smaller")


def find_largest_key(recipe: Recipe, sizes: Mapping[str, int]) -> str:
    """Return the key whose value is largest relative to its typical value, as in `model.d_model = 1,048,576`.

    Args:
        recipe: recipe of the model.
        sizes: numbers of entries of its vocabularies, by file.
    """
    candidates = [
        (value / max(1, typical), f"{key} = {value:,}") for key, value, typical in _iter_numbers(recipe.model, "model")
    ]
    candidates += [(size / _TYPICAL_VOCABULARY_SIZE, f"{file} with {size:,} entries") for file, size in sizes.items()]
    length = getattr(getattr(recipe, "data", None), "max_length", None)
    if isinstance(length, int):
        candidates.append((length / _TYPICAL_VALUE, f"data.max_length = {length:,}"))
    return max(candidates, default=(0, "model"))[1]


def _iter_numbers(config: Config, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Yield the whole numbers in a table: key, value, and typical value."""
    for name, field in type(config).model_fields.items():
        value: Any = getattr(config, name)
        if isinstance(value, Config):
            yield from _iter_numbers(value, f"{prefix}.{name}")
        for number in value if isinstance(value, tuple | list) else (value,):
            if type(number) is int:
                typical = field.default if type(field.default) is int else _TYPICAL_VALUE
                yield f"{prefix}.{name}", number, typical
