"""Checkpoints of a run: saving, removing, averaging and loading them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from heedful.atomic_io import (
    MODEL_FILE,
    RunManifest,
    compute_digest,
    load_tensors,
    open_tensors,
    read_manifest,
    save_tensors,
    sync_file,
    verify_file,
    write_json,
    write_manifest,
)
from heedful.engines.int8_weights import Int8Weights, read_int8_weights
from heedful.errors import RunError
from heedful.files import read_json
from heedful.lazy_tensors import LazyTensors, build_templates
from heedful.training.callbacks import (
    CheckpointSaver,
    TrainingSnapshot,
    TrainState,
    ValidationResult,
    require_same_tensors,
)

_GATHERED_KEY = "gathered"
METRICS_FILE = "metrics.jsonl"
"""Name of the metrics file in a run folder."""


class FolderCheckpointSaver(CheckpointSaver):
    """Saves each snapshot as files of its own, lists them in the manifest, and removes superseded checkpoints.

    The manifest names a complete checkpoint at every moment, so a kill, a full disk or a power cut loses only the work
    since the last save.

    Args:
        folder: the run folder.
        keep: number of checkpoints whose weights are kept in addition to the best one.
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Save a snapshot of training with the evaluation of its weights. If `evaluation` is None, as on interruption,
        the snapshot can be resumed, but it is neither averaged nor a candidate for the best.
        """
        old_manifest = read_manifest(self.folder)
        step = snapshot.progress.step
        files = dict(old_manifest.files)
        # Files that the manifest names are never written again, or it would be wrong after a kill. The tensors of a
        # step are always the same; its progress may change, so it gets another name once it was evaluated.
        for name, tensors in ((_weights_name(step), snapshot.weights), (_training_name(step), snapshot.training)):
            if name not in files:
                files[name] = save_tensors(self.folder / name, tensors)
        progress = _progress_name(step, evaluated=evaluation is not None)
        write_json(self.folder / progress, asdict(snapshot.progress) | {_GATHERED_KEY: dict(snapshot.callback_state)})
        files[progress] = compute_digest(self.folder / progress)
        steps = (
            old_manifest.checkpoints
            if evaluation is None
            else (*(s for s in old_manifest.checkpoints if s != step), step)
        )
        best = step if evaluation is not None and evaluation.improved else old_manifest.best
        kept = steps[-self.keep :]
        needed = {_weights_name(kept_step) for kept_step in (*kept, step, best) if kept_step is not None} | {
            _training_name(step),
            progress,
        }
        superseded = [name for name in files if name.startswith("checkpoints/") and name not in needed]
        manifest = replace(old_manifest, files=files, checkpoints=kept, last=step, best=best, finished=False)
        manifest = manifest.without_files(MODEL_FILE, *superseded)
        sync_file(self.folder / METRICS_FILE)  # or the curve would end before the checkpoint
        write_manifest(self.folder, manifest)
        _remove_superseded(self.folder, manifest)


def _remove_superseded(folder: Path, manifest: RunManifest) -> None:
    """Remove files from a run folder that the manifest no longer names or that a kill left behind; ignore files that
    cannot be removed.
    """
    for pattern in ("step-*", ".step-*"):
        for path in (folder / "checkpoints").glob(pattern):
            if f"checkpoints/{path.name}" not in manifest.files:
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if MODEL_FILE not in manifest.files:
        with contextlib.suppress(OSError):
            (folder / MODEL_FILE).unlink(missing_ok=True)


def write_final_model(folder: Path, *, average: int) -> tuple[int, ...]:
    """Write the final model of a run: the mean of the last `average` checkpoints, or the best one if that is 1. Return
    their steps.

    Returns:
        The steps of the checkpoints that were used.
    """
    manifest = read_manifest(folder)
    _remove_superseded(folder, manifest)  # a kill during the last save may have left files that no later save removes
    steps = manifest.checkpoints[-average:] if average > 1 else (get_best_step(folder, manifest),)
    models = [open_tensors(folder, _weights_name(step), manifest=manifest) for step in steps]
    for step, model in zip(steps, models, strict=True):
        require_same_tensors(model.templates, models[0].templates, location=str(folder / _weights_name(step)))
    if MODEL_FILE in manifest.files:
        manifest = manifest.without_files(MODEL_FILE)
        write_manifest(folder, manifest)
    saved = save_tensors(folder / MODEL_FILE, AveragedTensors(models))
    write_manifest(folder, replace(manifest.with_file(MODEL_FILE, saved), finished=True))
    return steps


@final
class AveragedTensors(LazyTensors):
    """Element-wise mean of several models' weights (Vaswani et al. 2017, 6.1, average their last checkpoints).

    Args:
        models: weights by name, of the same shapes.

    Raises:
        RunError: the models have different parameter names.
    """

    def __init__(self, models: Sequence[Mapping[str, Tensor]]) -> None:
        super().__init__(build_templates(models[0]))
        self._models = models
        if any(model.keys() != models[0].keys() for model in models):
            raise RunError("checkpoints with different parameters cannot be averaged; average checkpoints of one run")

    def __getitem__(self, name: str, /) -> Tensor:
        return torch.stack([model[name].double() for model in self._models]).mean(0).to(self.templates[name].dtype)


def load_snapshot(folder: Path, *, lazily: bool = False) -> TrainingSnapshot | None:
    """Load the checkpoint that training continues from; None if none was saved. With `lazily`, each tensor is read from
    its file when it is used.
    """
    manifest = read_manifest(folder)
    step = manifest.last
    if step is None:
        return None
    name = _progress_name(step, evaluated=_progress_name(step, evaluated=True) in manifest.files)
    verify_file(folder, name, manifest=manifest)
    try:
        content = read_json(folder / name)
        gathered = dict(content.pop(_GATHERED_KEY, {}))  # which older checkpoints lack
        progress = TrainState(**content)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunError(
            f"{folder / name}: cannot be read ({error}); install the version of heedful that wrote it"
        ) from None
    read: Callable[..., Mapping[str, Tensor]] = open_tensors if lazily else load_tensors
    return TrainingSnapshot(
        read(folder, _weights_name(step), manifest=manifest),
        read(folder, _training_name(step), manifest=manifest),
        progress,
        gathered,
        (str(folder / _weights_name(step)), str(folder / _training_name(step))),
    )


def read_weights(folder: Path, *, step: int | None = None) -> dict[str, Tensor]:
    """Read the weights of a run by parameter name: the finished model, else the best checkpoint so far; with `step`,
    the checkpoint of that update.

    Raises:
        RunError: there are no weights yet, or a file is damaged.
    """
    return read_stored_weights(folder, step=step).dequantize()


@dataclass(frozen=True, eq=False)
class StoredWeights(Int8Weights):
    """Weights of a run.

    Attributes:
        path: path of their file.
    """

    path: Path


def read_stored_weights(folder: Path, *, step: int | None = None, manifest: RunManifest | None = None) -> StoredWeights:
    """Read a weights file of a run, chosen as in `read_weights`, without dequantizing it; of an adapted run it holds
    only the adapter's weights.

    Args:
        folder: the run folder.
        step: a kept checkpoint.
        manifest: manifest of the run, if it has been read already.
    """
    manifest = manifest or read_manifest(folder)
    name = find_weights_file(folder, manifest, step=step)
    tensors = load_tensors(folder, name, manifest=manifest)
    weights = read_int8_weights(tensors, location=str(folder / name))
    return StoredWeights(weights.exact, weights.quantized, path=folder / name)


def find_weights_file(folder: Path, manifest: RunManifest, *, step: int | None = None) -> str:
    """Return the name of the weights file that a run's manifest lists: the finished model, else the best checkpoint so
    far; with `step`, the checkpoint of that update. Raise `RunError` if there is none; it names `folder`.
    """
    if step is not None and step not in (*manifest.checkpoints, manifest.best, manifest.last):
        kept = ", ".join(str(s) for s in manifest.checkpoints)
        raise RunError(f"{folder}: has no checkpoint of step {step}; it has {kept or 'none'}")
    if step is None and MODEL_FILE in manifest.files:
        return MODEL_FILE
    return _weights_name(get_best_step(folder, manifest) if step is None else step)


def get_best_step(folder: Path, manifest: RunManifest) -> int:
    """Return the update after which the best checkpoint in a run's manifest was saved, or the last one if none was
    evaluated. Raise `RunError`, which names `folder`, if there is none.
    """
    step = manifest.last if manifest.best is None else manifest.best
    if step is None:
        raise RunError(
            f"{folder}: no checkpoint has been saved yet; continue training with the command that started it"
        )
    return step


def is_weights_file(name: str) -> bool:
    """Whether a file of a run holds a model or training state; such files are verified when they are read."""
    return name == MODEL_FILE or name.startswith("checkpoints/")


def is_inference_only(folder: Path) -> bool:
    """Whether a folder holds a finished model but no checkpoint from which training could continue."""
    manifest = read_manifest(folder)
    return (
        MODEL_FILE in manifest.files
        and manifest.last is not None
        and _weights_name(manifest.last) not in manifest.files
    )


def _weights_name(step: int) -> str:
    return f"checkpoints/step-{step:08}.safetensors"


def _training_name(step: int) -> str:
    return f"checkpoints/step-{step:08}.training.safetensors"


def _progress_name(step: int, *, evaluated: bool) -> str:
    return f"checkpoints/step-{step:08}{'' if evaluated else '.interrupted'}.json"
