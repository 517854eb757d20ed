"""Random recipes, drawn by walking the schema, so that a new key is covered from its first day."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import annotated_types
import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from heedful.errors import RecipeError
from heedful.recipes.config import Config, KeyType, get_key_types
from heedful.recipes.recipe import Recipe, get_recipe_class
from heedful.registry import list_tasks

ODD_TEXTS = (
    "a",
    "7",
    "true",
    "x y",
    'q"uote',
    "back\\slash",
    "tab\tnew\nline",
    "ünï©ödé 😀",
    "[list]",
    "'",
    "=",
    "#",
)
NAMES = ("a", "sst-2", "x_y", "7", "MRPC")


def _bounds(key_type: KeyType) -> tuple[float, float]:
    low, high = 0.0, 1e6
    found: list[Any] = [note for part in key_type.parts if isinstance(part, FieldInfo) for note in part.metadata]
    for note in found:
        match note:
            case annotated_types.Ge(ge=bound):
                low = float(bound)
            case annotated_types.Gt(gt=bound):
                low = float(bound) + 1e-9
            case annotated_types.Le(le=bound) | annotated_types.Lt(lt=bound):
                high = float(bound) - 1e-9
    return low, high


def _value(key_type: KeyType, dice: random.Random) -> Any:
    if (inside := key_type.value_type) is not None:
        return {name: _value(inside, dice) for name in dice.sample(NAMES, dice.randint(1, 3))}
    possible = key_type.config_classes
    return _table(dice.choice(possible), dice) if possible else _plain(key_type, dice)


def _plain(key_type: KeyType, dice: random.Random) -> Any:
    kinds = key_type.parts
    literals: list[Any] = list(key_type.choices)
    if bool in kinds:
        literals = [False, True]
    if literals:
        return dice.choice(literals)
    low, high = _bounds(key_type)
    if int in kinds:
        return dice.randint(int(low), min(int(high), int(low) + 40))
    if float in kinds:
        return dice.uniform(low, high) * dice.choice((1.0, 1e-6)) if low == 0 else dice.uniform(low, high)
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    if lists:
        return [_value(KeyType(get_args(lists[0])[0]), dice) for _ in range(dice.randint(0, 3))]
    assert str in kinds or Path in kinds, kinds
    return dice.choice(ODD_TEXTS) + str(dice.randint(0, 999))


def _table(section: type[Config], dice: random.Random) -> dict[str, Any]:
    key_types = get_key_types(section)
    table: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        # A table with alternatives is told by its kind.
        if name == "kind" or field.is_required() or dice.random() < 0.5:
            table[name] = _value(key_types[name], dice)
    return table


def _repaired(table: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Lets keys that depend on each other agree, which random ones seldom do."""
    model, heads = table.setdefault("model", {}), dice.choice((1, 2, 4, 8))
    if table["task"] == "translation" and model.get("kind", "transformer") == "transformer":
        table["model"] = model | {"heads": heads, "d_model": 2 * heads * dice.randint(1, 20)}
    table["training"]["steps"] = dice.randint(1, 10**6)
    return table


@pytest.fixture
def draw() -> Callable[[int], Recipe]:
    """The recipe of a seed."""

    def one(seed: int) -> Recipe:
        dice = random.Random(seed)
        kind = get_recipe_class(dice.choice(list(list_tasks())))
        while True:
            table = _repaired(_table(kind, dice) | {"task": kind.model_fields["task"].default}, dice)
            try:
                return kind.model_validate(table)
            except ValidationError as error:
                # Only contradictions between keys and what follows; all else is a fault of the schema.
                expected = {"value_error", "misfit", "default_factory_not_called", "too_short"}
                assert {detail["type"] for detail in error.errors()} <= expected, error
            except RecipeError as error:  # a benchmark that was made up
                assert "there is no task" in str(error), error

    return one
