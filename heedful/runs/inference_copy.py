"""Copies of a trained run that can be used like it but cannot be trained further."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from heedful.atomic_io import MANIFEST, MODEL_FILE, atomic_folder, read_manifest, save_tensors, write_manifest
from heedful.recipes.recipe import Recipe
from heedful.runs.adapter_runs import ADAPTER_FILE as ADAPTER
from heedful.runs.checkpoints import get_best_step
from heedful.runs.load import CONFIG, save_run
from heedful.tasks.task import Run

_COPIED_FILES: Final = ("metrics.jsonl", "*.json", "tasks/*/*.json")
"""Files besides weights that are copied: the learning curve and findings of the task about the final model."""


def save_inference_copy(
    run: Run[Any, Any], tensors: Mapping[str, Tensor], folder: Path, *, use: str, step: int | None, recipe: Recipe
) -> None:
    """Write a copy of a trained run for inference only.

    Args:
        run: the trained run.
        tensors: tensors of its model, at `step`.
        folder: the folder to write; new or empty.
        use: purpose of the folder for error messages, as `atomic_folder` expects it.
        step: a kept checkpoint; None for the finished or the best model.
        recipe: the recipe to write.

    Raises:
        RunError: `folder` is not empty or cannot be written.
    """
    old_manifest = read_manifest(run.folder)
    with atomic_folder(folder, purpose=use) as partial:
        save_run(replace(run, folder=partial, recipe=recipe))
        saved = save_tensors(partial / MODEL_FILE, tensors)
        for path in (entry for pattern in _COPIED_FILES for entry in run.folder.glob(pattern)):
            if path.name not in (MANIFEST, CONFIG, ADAPTER):
                (partial / path.relative_to(run.folder)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, partial / path.relative_to(run.folder))
        copied_digests = {name: entry for name, entry in old_manifest.files.items() if (partial / name).is_file()}
        final_step = get_best_step(run.folder, old_manifest) if step is None else step
        manifest = read_manifest(partial).with_file(MODEL_FILE, saved)
        copied = {name: digest_ for name, digest_ in copied_digests.items() if name not in manifest.files}
        manifest = replace(
            manifest,
            files={**copied, **manifest.files},
            last=final_step,
            best=final_step,
            finished=old_manifest.finished,
        )
        write_manifest(partial, manifest)
