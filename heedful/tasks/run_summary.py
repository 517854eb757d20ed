"""What a run says of itself beside its answers: what it is, how it was made, and how it learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation during training: after how many updates and minutes, and the loss in nats per token."""

    step: int
    minutes: float
    loss: float


@dataclass(frozen=True)
class RunSummary:
    """What there is to say of a trained run of any task.

    Attributes:
        recipe: how it was made.
        finished: whether training reached its end; if not, the best checkpoint so far stands for the run.
        step: updates done, or those of that checkpoint.
        parameters: numbers that the model consists of, tied ones once.
        trainable_parameters: those of them that training changes; the others stand still.
        vocabulary: equal for runs whose losses and perplexities are of the same tokens.
        minutes: spent in training, evaluation included; None where metrics.jsonl does not tell.
        tokens_per_second: tokens or labels learned from, the median of measurements over fifty updates.
        curve: the evaluations in order.
    """

    recipe: Recipe
    finished: bool
    step: int
    parameters: int
    trainable_parameters: int
    vocabulary: str
    minutes: float | None
    tokens_per_second: float | None
    curve: tuple[CurvePoint, ...]


def find_differences(recipes: Sequence[Recipe]) -> dict[str, list[Any]]:
    """Keys in which recipes differ and their values, None where a recipe lacks one; run folders do not count."""
    tables = [dict(_iter_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def collapse_tables(keys: Iterable[str]) -> list[str]:
    """Keys, but of tables that are of different kinds, so that nothing in them can be compared, their names alone."""
    all_keys = list(keys)
    kind_keys = sorted((key.removesuffix("kind") for key in all_keys if key.endswith(".kind")), key=len)
    names = (next((kind[:-1] for kind in kind_keys if key.startswith(kind)), key) for key in all_keys)
    return list(dict.fromkeys(names))


def _iter_leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _iter_leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def name_models(recipes: Sequence[Recipe]) -> list[str]:
    """The kind of each model, and the named choices that tell it from others of its kind: recurrent (luong)."""
    names = []
    for recipe in recipes:
        peers = [other for other in recipes if other.model.kind == recipe.model.kind]
        leaves = dict(_iter_leaves(recipe.model_dump(mode="json", include={"model"})))
        shared = [key for key, values in find_differences(peers).items() if None not in values and not _is_path(key)]
        choices = [leaves[key] for key in shared if isinstance(leaves.get(key), str)]
        names.append(recipe.model.kind + (f" ({', '.join(choices)})" if choices else ""))
    return names


def _is_path(key: str) -> bool:
    return key.endswith("_vectors")
