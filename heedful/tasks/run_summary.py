"""Summary of a trained run for reports, and differences between recipes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation during training: updates and minutes so far, and the loss in nats per token."""

    step: int
    minutes: float
    loss: float


@dataclass(frozen=True)
class RunSummary:
    """Summary of a trained run of any task.

    Attributes:
        recipe: recipe of the run.
        finished: whether training is finished; if not, the best checkpoint so far is used.
        step: number of updates, or those of that checkpoint.
        parameters: number of parameters, tied ones counted once.
        trainable_parameters: parameters that training changes.
        vocabulary: key that is equal for runs whose losses and perplexities count the same tokens.
        minutes: training time, evaluation included; None if metrics.jsonl does not contain it.
        tokens_per_second: tokens or labels trained on per second, the median of measurements over fifty updates.
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
    """Return the recipe keys whose values differ, with the value of each recipe, None if it lacks the key; output
    folders are ignored.
    """
    tables = [dict(_iter_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def collapse_tables(keys: Iterable[str]) -> list[str]:
    """Replace the keys of tables whose `kind` differs by the table's name."""
    all_keys = list(keys)
    kind_keys = sorted((key.removesuffix("kind") for key in all_keys if key.endswith(".kind")), key=len)
    names = (next((kind[:-1] for kind in kind_keys if key.startswith(kind)), key) for key in all_keys)
    return list(dict.fromkeys(names))


def _iter_leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and value of each leaf of a nested table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _iter_leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def name_models(recipes: Sequence[Recipe]) -> list[str]:
    """Return a distinguishing name of each model: its kind, and the named choices that differ from others of its
    kind, as in recurrent (luong).
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
