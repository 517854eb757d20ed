"""What there is to say about a trained run of any task beside others: what it is and how it learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from torch import nn

from heedful.errors import RunError
from heedful.models.size import imagined, measure
from heedful.recipes.recipe import Recipe
from heedful.runs.load import open_run
from heedful.runs.loop import freeze
from heedful.store import Manifest, digest, read_manifest
from heedful.tasks.kind import Run


@dataclass(frozen=True)
class Point:
    """One evaluation during training: after how many updates and minutes, and the loss in nats per token."""

    step: int
    minutes: float
    loss: float


@dataclass(frozen=True)
class Facts:
    """What a run folder says of itself, without loading weights.

    Attributes:
        folder: the run folder.
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

    folder: Path
    recipe: Recipe
    finished: bool
    step: int
    parameters: int
    learned: int
    vocabulary: str
    minutes: float | None
    tokens_per_second: float | None
    curve: tuple[Point, ...]

    @property
    def name(self) -> str:
        """The folder as it was named."""
        return str(self.folder)

    @property
    def label(self) -> str:
        """The name, with a star where training is not finished."""
        return self.name if self.finished else f"{self.name} *"


def gather(folder: Path, recipe: Recipe | None = None) -> Facts:
    """The facts of a run.

    Args:
        folder: the run folder.
        recipe: what to believe instead of the recipe in the folder, as where a later sitting changed its limits.

    Raises:
        RunError: it is no run, is damaged, or nothing was trained yet.
    """
    run = open_run(folder)
    manifest = read_manifest(folder)
    step = _step(folder, manifest)
    records = list(_records(folder / "metrics.jsonl"))
    speeds = [record["labels_per_second"] for record in records if _has(record, "training", "labels_per_second")]
    timed = [record["seconds"] / 60 for record in records if _has(record, "validation", "seconds")]
    curve = (
        Point(record["step"], record["seconds"] / 60, record["loss"])
        for record in records
        if _has(record, "validation", "step", "seconds", "loss")
    )
    parameters, learned = _sizes(run)
    return Facts(
        folder=folder,
        recipe=recipe or run.recipe,
        finished=manifest.finished,
        step=step,
        parameters=parameters,
        learned=learned,
        vocabulary="".join(digest(folder / name)[:12] for name in run.vocabularies),
        minutes=timed[-1] if timed else None,
        tokens_per_second=median(speeds) if speeds else None,
        curve=tuple(curve),
    )


def _step(folder: Path, manifest: Manifest) -> int:
    steps = (manifest.last,) if manifest.finished else (manifest.best, manifest.last)
    step = next((step for step in steps if step is not None), None)
    if step is None:
        raise RunError(f"{folder}: no checkpoint has been saved yet; go on training with the command that began it")
    return step


def _sizes(run: Run[Any, Any]) -> tuple[int, int]:
    """How many parameters there are, and how many of them are learned."""
    with imagined():
        model: nn.Module = run.build()
    freeze(model, run.recipe.training)
    learned = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return measure(model).parameters, learned


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that can be read: a kill may leave half a line."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _has(record: Mapping[str, Any], kind: str, *names: str) -> bool:
    """A record of this kind with numbers of these names; a loss that was infinite is none."""
    return record.get("kind") == kind and all(isinstance(record.get(name), int | float) for name in names)


def differences(recipes: Sequence[Recipe]) -> dict[str, list[Any]]:
    """Keys in which recipes differ and their values, None where a recipe lacks one; run folders do not count."""
    tables = [dict(_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


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
