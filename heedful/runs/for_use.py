"""A trained run as another folder that works like it and cannot be trained further."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from heedful.recipes.recipe import Recipe
from heedful.runs.adapted import FILE as ADAPTER
from heedful.runs.checkpoints import best_step
from heedful.runs.load import CONFIG, save_run
from heedful.store import MANIFEST, MODEL, read_manifest, save_tensors, whole_folder, write_manifest
from heedful.tasks.kind import Run

_OTHERS: Final = ("metrics.jsonl", "*.json", "tasks/*/*.json")
"""What training tells besides weights: its curve, and what tasks found out about the final model."""


def save_for_use(
    run: Run[Any, Any], tensors: Mapping[str, Tensor], folder: Path, *, use: str, step: int | None, recipe: Recipe
) -> None:
    """Writes a finished run.

    Args:
        run: that was trained.
        tensors: of its model, at `step`.
        folder: new or empty.
        use: what the folder is for, as `whole_folder` says it.
        step: a kept checkpoint; None where it is the finished or the best model.
        recipe: that is written.

    Raises:
        RunError: `folder` holds something, or cannot be written.
    """
    before = read_manifest(run.folder)
    with whole_folder(folder, use=use) as beside:
        save_run(replace(run, folder=beside, recipe=recipe))
        saved = save_tensors(beside / MODEL, tensors)
        for path in (each for pattern in _OTHERS for each in run.folder.glob(pattern)):
            if path.name not in (MANIFEST, CONFIG, ADAPTER):
                (beside / path.relative_to(run.folder)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, beside / path.relative_to(run.folder))
        kept = {name: each for name, each in before.files.items() if (beside / name).is_file()}
        done = best_step(run.folder, before) if step is None else step
        whole = read_manifest(beside).with_file(MODEL, saved)
        found = {name: digest_ for name, digest_ in kept.items() if name not in whole.files}
        whole = replace(whole, files={**found, **whole.files}, last=done, best=done, finished=before.finished)
        write_manifest(beside, whole)
