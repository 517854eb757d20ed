"""Which key of a recipe makes a model as large as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from heedful.errors import RecipeError
from heedful.recipes.recipe import Recipe
from heedful.recipes.section import Section

MOST_LAYERS: Final = 10_000
"""Of one part of a model; the deepest that are published have a thousand."""
_USUAL: Final = 512
"""What a number of a model is like where it has no default."""
_VOCABULARY: Final = 32_000


def require_few_layers(model: Section, *, place: str = "model") -> None:
    """A `RecipeError` where a model has so many layers that building them would take hours."""
    for key, value, _ in _numbers(model, place):
        name = key.rpartition(".")[2]
        if (name == "hops" or name.endswith("layers")) and value > MOST_LAYERS:
            raise RecipeError(f"{key} = {value:,}: a model has at most {MOST_LAYERS:,} of them; make it smaller")


def largest_key(recipe: Recipe, sizes: Mapping[str, int]) -> str:
    """The key whose number is the most times as large as usual, as in `model.d_model = 1,048,576`.

    Args:
        recipe: of the model.
        sizes: entries of its vocabularies, by their files.
    """
    found = [(value / max(1, usual), f"{key} = {value:,}") for key, value, usual in _numbers(recipe.model, "model")]
    found += [(size / _VOCABULARY, f"{file} with {size:,} entries") for file, size in sizes.items()]
    length = getattr(getattr(recipe, "data", None), "max_length", None)
    if isinstance(length, int):
        found.append((length / _USUAL, f"data.max_length = {length:,}"))
    return max(found, default=(0, "model"))[1]


def _numbers(section: Section, above: str) -> Iterator[tuple[str, int, int]]:
    """The whole numbers in a table: the key, the number, and what it usually is."""
    for name, field in type(section).model_fields.items():
        value: Any = getattr(section, name)
        if isinstance(value, Section):
            yield from _numbers(value, f"{above}.{name}")
        for each in value if isinstance(value, tuple | list) else (value,):
            if type(each) is int:
                usual = field.default if type(field.default) is int else _USUAL
                yield f"{above}.{name}", each, usual
