"""Which key of a recipe makes a model as large as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from heedful.errors import RecipeError
from heedful.recipes.config import Config
from heedful.recipes.recipe import Recipe

MAX_LAYERS: Final = 10_000
"""Of one part of a model; the deepest that are published have a thousand."""
_TYPICAL_VALUE: Final = 512
"""What a number of a model is like where it has no default."""
_TYPICAL_VOCABULARY_SIZE: Final = 32_000


def check_num_layers(model: Config, *, key_prefix: str = "model") -> None:
    """A `RecipeError` where a model has so many layers that building them would take hours."""
    for key, value, _ in _iter_numbers(model, key_prefix):
        name = key.rpartition(".")[2]
        if (name == "hops" or name.endswith("layers")) and value > MAX_LAYERS:
            raise RecipeError(f"{key} = {value:,}: a model has at most {MAX_LAYERS:,} of them; make it smaller")


def find_largest_key(recipe: Recipe, sizes: Mapping[str, int]) -> str:
    """The key whose number is the most times as large as usual, as in `model.d_model = 1,048,576`.

    Args:
        recipe: of the model.
        sizes: entries of its vocabularies, by their files.
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
    """The whole numbers in a table: the key, the number, and what it usually is."""
    for name, field in type(config).model_fields.items():
        value: Any = getattr(config, name)
        if isinstance(value, Config):
            yield from _iter_numbers(value, f"{prefix}.{name}")
        for number in value if isinstance(value, tuple | list) else (value,):
            if type(number) is int:
                typical = field.default if type(field.default) is int else _TYPICAL_VALUE
                yield f"{prefix}.{name}", number, typical
