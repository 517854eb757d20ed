"""What a run folder says of a run: what it is and how it learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from torch import nn

from heedful.errors import RunError
from heedful.models.size import imagined, measure
from heedful.runs.loop import freeze
from heedful.store import Manifest, digest, read_manifest
from heedful.tasks.facts import Facts, Point
from heedful.tasks.kind import Run


def gather(run: Run[Any, Any]) -> Facts:
    """The facts of a run, without loading weights; `RunError` where nothing was trained yet."""
    manifest = read_manifest(run.folder)
    step = _step(run.folder, manifest)
    records = list(_records(run.folder / "metrics.jsonl"))
    speeds = [record["labels_per_second"] for record in records if _has(record, "training", "labels_per_second")]
    timed = [record["seconds"] / 60 for record in records if _has(record, "validation", "seconds")]
    curve = (
        Point(record["step"], record["seconds"] / 60, record["loss"])
        for record in records
        if _has(record, "validation", "step", "seconds", "loss")
    )
    parameters, learned = _sizes(run)
    return Facts(
        recipe=run.recipe,
        finished=manifest.finished,
        step=step,
        parameters=parameters,
        learned=learned,
        vocabulary="".join(digest(run.folder / name)[:12] for name in run.vocabularies),
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
