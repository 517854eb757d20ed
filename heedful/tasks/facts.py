"""What a run says of itself beside its answers: what it is, how it was made, and how it learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class Point:
    """One evaluation during training: after how many updates and minutes, and the loss in nats per token."""

    step: int
    minutes: float
    loss: float


@dataclass(frozen=True)
class Facts:
    """What there is to say of a trained run of any task.

    Attributes:
        recipe: how it was made.
        finished: whether training reached its end; if not, the best checkpoint so far stands for the run.
        step: updates done, or those of that checkpoint.
        parameters: numbers that the model consists of, tied ones once.
        learned: those of them that training changes; the others stand still.
        vocabulary: equal for runs whose losses and perplexities are of the same tokens.
        minutes: spent in training, evaluation included; None where metrics.jsonl does not tell.
        tokens_per_second: tokens or labels learned from, the median of measurements over fifty updates.
        curve: the evaluations in order.
    """

    recipe: Recipe
    finished: bool
    step: int
    parameters: int
    learned: int
    vocabulary: str
    minutes: float | None
    tokens_per_second: float | None
    curve: tuple[Point, ...]


def differences(recipes: Sequence[Recipe]) -> dict[str, list[Any]]:
    """Keys in which recipes differ and their values, None where a recipe lacks one; run folders do not count."""
    tables = [dict(_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def tables_of(keys: Iterable[str]) -> list[str]:
    """Keys, but of tables that are of different kinds, so that nothing in them can be compared, their names alone."""
    found = list(keys)
    kinds = sorted((key.removesuffix("kind") for key in found if key.endswith(".kind")), key=len)
    names = (next((kind[:-1] for kind in kinds if key.startswith(kind)), key) for key in found)
    return list(dict.fromkeys(names))


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def kinds(recipes: Sequence[Recipe]) -> list[str]:
    """The kind of each model, and the named choices that tell it from others of its kind: recurrent (luong)."""
    found = []
    for recipe in recipes:
        peers = [other for other in recipes if other.model.kind == recipe.model.kind]
        own = dict(_leaves(recipe.model_dump(mode="json", include={"model"})))
        shared = [key for key, values in differences(peers).items() if None not in values and not _is_path(key)]
        chosen = [own[key] for key in shared if isinstance(own.get(key), str)]
        found.append(recipe.model.kind + (f" ({', '.join(chosen)})" if chosen else ""))
    return found


def _is_path(key: str) -> bool:
    return key.endswith("_vectors")
