"""Checkpoints of a run: which are kept, and how training finds its way back."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful.artifacts.files import (
    Manifest,
    digest,
    load_tensors,
    read_manifest,
    save_tensors,
    verify,
    write_json,
    write_manifest,
)
from heedful.errors import RunError
from heedful.training.listeners import Evaluation, Keeper, Progress, Snapshot

MODEL = "model.safetensors"


class Checkpoints(Keeper):
    """Saves each snapshot under a name of its own, declares it valid in the manifest, drops what is superseded.

    At every instant the manifest names a complete checkpoint, so a kill, a full disk or a power cut costs the work
    since the last save and nothing else.

    Args:
        folder: the run folder.
        keep: how many checkpoints' weights are kept beside the best.
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, snapshot: Snapshot, evaluation: Evaluation | None) -> None:
        """Keeps a snapshot; one that interrupts training can be resumed but is neither averaged nor best."""
        before = read_manifest(self.folder)
        step = snapshot.progress.step
        files = dict(before.files)
        files[_weights(step)] = save_tensors(self.folder / _weights(step), snapshot.weights)
        files[_training(step)] = save_tensors(self.folder / _training(step), snapshot.training)
        write_json(self.folder / _progress(step), asdict(snapshot.progress))
        files[_progress(step)] = digest(self.folder / _progress(step))
        steps = (
            before.checkpoints
            if evaluation is None
            else (*(s for s in before.checkpoints if s != step), step)
        )
        best = step if evaluation is not None and evaluation.improved else before.best
        now = replace(
            before, files=files, checkpoints=steps[-self.keep :], last=step, best=best, finished=False
        ).without(MODEL)
        now = now.without(*_superseded(now))
        write_manifest(self.folder, now)
        _drop(self.folder, before.files.keys() - now.files.keys())


def finish(folder: Path, *, average: int) -> Manifest:
    """Writes the model that the run is for: the mean of the last `average` checkpoints, or the best one."""
    manifest = read_manifest(folder)
    steps = manifest.checkpoints[-average:] if average > 1 else (_best(folder, manifest),)
    weights = mean([load_tensors(folder, _weights(step), manifest=manifest) for step in steps])
    saved = save_tensors(folder / MODEL, weights)
    manifest = replace(manifest.with_file(MODEL, saved), finished=True)
    write_manifest(folder, manifest)
    return manifest


def mean(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The element-wise mean of models of one shape (Vaswani et al. 2017, 6.1, average their last checkpoints)."""
    first, *others = models
    if any(other.keys() != first.keys() for other in others):
        raise RunError(
            "checkpoints with different parameters cannot be averaged; average checkpoints of one run"
        )
    return {
        name: torch.stack([model[name].double() for model in models]).mean(0).to(tensor.dtype)
        for name, tensor in first.items()
    }


def resume(folder: Path) -> Snapshot | None:
    """The checkpoint training goes on from; None if none was saved."""
    manifest = read_manifest(folder)
    step = manifest.last
    if step is None:
        return None
    verify(folder, _progress(step), manifest=manifest)
    progress = Progress(**json.loads((folder / _progress(step)).read_text(encoding="utf-8")))
    return Snapshot(
        load_tensors(folder, _weights(step), manifest=manifest),
        load_tensors(folder, _training(step), manifest=manifest),
        progress,
    )


def load_weights(folder: Path, model: nn.Module, *, step: int | None = None) -> None:
    """Fills a model with a run's weights: the finished model, else the best checkpoint so far, or that of `step`.

    Raises:
        RunError: there are no weights yet, a file is damaged, or the weights belong to another model.
    """
    manifest = read_manifest(folder)
    if step is not None and step not in (*manifest.checkpoints, manifest.best, manifest.last):
        kept = ", ".join(str(s) for s in manifest.checkpoints)
        raise RunError(f"{folder}: keeps no checkpoint of step {step}; it keeps {kept or 'none'}")
    if step is None and MODEL in manifest.files:
        name = MODEL
    else:
        name = _weights(_best(folder, manifest) if step is None else step)
    weights = load_tensors(folder, name, manifest=manifest)
    parameters = dict(model.named_parameters())
    if odd := sorted(weights.keys() ^ parameters.keys()):
        raise RunError(
            f"{folder / name}: does not fit the model of config.json (differs in {', '.join(odd[:3])})"
        )
    with torch.no_grad():
        for key, parameter in parameters.items():
            if parameter.shape != weights[key].shape:
                raise RunError(
                    f"{folder / name}: {key} has shape {tuple(weights[key].shape)}, config.json asks for "
                    f"{tuple(parameter.shape)}"
                )
            parameter.copy_(weights[key])


def _best(folder: Path, manifest: Manifest) -> int:
    step = manifest.last if manifest.best is None else manifest.best
    if step is None:
        raise RunError(
            f"{folder}: no checkpoint has been saved yet; go on training with the command that began it"
        )
    return step


def _superseded(manifest: Manifest) -> list[str]:
    weights = {
        _weights(step) for step in (*manifest.checkpoints, manifest.last, manifest.best) if step is not None
    }
    resumable = {_training(manifest.last), _progress(manifest.last)} if manifest.last is not None else set()
    return [n for n in manifest.files if n.startswith("checkpoints/") and n not in weights | resumable]


def _drop(folder: Path, names: set[str]) -> None:
    for name in names:
        with contextlib.suppress(
            OSError
        ):  # what cannot be removed only takes room; the manifest no longer names it
            (folder / name).unlink()


def _weights(step: int) -> str:
    return f"checkpoints/step-{step:08}.safetensors"


def _training(step: int) -> str:
    return f"checkpoints/step-{step:08}.training.safetensors"


def _progress(step: int) -> str:
    return f"checkpoints/step-{step:08}.json"
