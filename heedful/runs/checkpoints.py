"""Checkpoints of a run: which are kept, and how training finds its way back."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful.engines.int8 import SCALE, Bytes
from heedful.errors import RunError
from heedful.files import read_json
from heedful.store import (
    MODEL,
    Manifest,
    digest,
    fill,
    load_tensors,
    read_manifest,
    save_tensors,
    sync_file,
    verify,
    write_json,
    write_manifest,
)
from heedful.training.listeners import Evaluation, Keeper, Progress, Snapshot
from heedful.training.restoring import require_alike

_GATHERED = "gathered"
METRICS = "metrics.jsonl"
"""Of a run folder: what was measured."""


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
        # What the manifest names is never written again, or a kill in between would make it a lie. The tensors of a
        # step are always the same; its progress is not, and has another name once it was evaluated.
        for name, tensors in ((_weights(step), snapshot.weights), (_training(step), snapshot.training)):
            if name not in files:
                files[name] = save_tensors(self.folder / name, tensors)
        progress = _progress(step, evaluated=evaluation is not None)
        write_json(self.folder / progress, asdict(snapshot.progress) | {_GATHERED: dict(snapshot.gathered)})
        files[progress] = digest(self.folder / progress)
        steps = before.checkpoints if evaluation is None else (*(s for s in before.checkpoints if s != step), step)
        best = step if evaluation is not None and evaluation.improved else before.best
        kept = steps[-self.keep :]
        needed = {_weights(each) for each in (*kept, step, best) if each is not None} | {_training(step), progress}
        superseded = [name for name in files if name.startswith("checkpoints/") and name not in needed]
        now = replace(before, files=files, checkpoints=kept, last=step, best=best, finished=False)
        now = now.without(MODEL, *superseded)
        sync_file(self.folder / METRICS)  # or the curve would end before the checkpoint
        write_manifest(self.folder, now)
        self._sweep(now)

    def _sweep(self, manifest: Manifest) -> None:
        """Removes what the manifest no longer names, and what a kill left; what cannot be removed only takes room."""
        for pattern in ("step-*", ".step-*"):
            for path in (self.folder / "checkpoints").glob(pattern):
                if f"checkpoints/{path.name}" not in manifest.files:
                    with contextlib.suppress(OSError):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if MODEL not in manifest.files:
            with contextlib.suppress(OSError):
                (self.folder / MODEL).unlink(missing_ok=True)


def finish(folder: Path, *, average: int) -> tuple[int, ...]:
    """Writes the model that the run is for: the mean of the last `average` checkpoints, or the best one.

    Returns:
        The steps it was made of.
    """
    manifest = read_manifest(folder)
    steps = manifest.checkpoints[-average:] if average > 1 else (best_step(folder, manifest),)
    models = [load_tensors(folder, _weights(step), manifest=manifest) for step in steps]
    for step, model in zip(steps, models, strict=True):
        require_alike(model, models[0], place=str(folder / _weights(step)))
    weights = mean(models)
    if MODEL in manifest.files:
        manifest = manifest.without(MODEL)
        write_manifest(folder, manifest)
    saved = save_tensors(folder / MODEL, weights)
    write_manifest(folder, replace(manifest.with_file(MODEL, saved), finished=True))
    return steps


def mean(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The element-wise mean of models of one shape (Vaswani et al. 2017, 6.1, average their last checkpoints)."""
    first, *others = models
    if any(other.keys() != first.keys() for other in others):
        raise RunError("checkpoints with different parameters cannot be averaged; average checkpoints of one run")
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
    name = _progress(step, evaluated=_progress(step, evaluated=True) in manifest.files)
    verify(folder, name, manifest=manifest)
    try:
        content = read_json(folder / name)
        gathered = dict(content.pop(_GATHERED, {}))  # which older checkpoints lack
        progress = Progress(**content)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunError(
            f"{folder / name}: cannot be understood ({error}); install the version of heedful that wrote it"
        ) from None
    return Snapshot(
        load_tensors(folder, _weights(step), manifest=manifest),
        load_tensors(folder, _training(step), manifest=manifest),
        progress,
        gathered,
        (str(folder / _weights(step)), str(folder / _training(step))),
    )


def read_weights(folder: Path, *, step: int | None = None) -> dict[str, Tensor]:
    """A run's weights: those of the finished model, else of the best checkpoint so far, or of `step`.

    Raises:
        RunError: there are none yet, or a file is damaged.
    """
    return stored_weights(folder, step=step).floats()


def load_weights(folder: Path, model: nn.Module, *, step: int | None = None) -> None:
    """Fills a model with a run's weights: the finished model, else the best checkpoint so far, or that of `step`.

    Raises:
        RunError: there are no weights yet, a file is damaged, or the weights belong to another model.
    """
    found = stored_weights(folder, step=step)
    fill(model, found.floats(), place=str(found.place))


@dataclass(frozen=True)
class Weights:
    """What a file of weights holds.

    Attributes:
        place: the file.
        exact: by the names of parameters.
        rounded: those that are stored as bytes.
    """

    place: Path
    exact: dict[str, Tensor]
    rounded: dict[str, Bytes]

    def floats(self) -> dict[str, Tensor]:
        """All of them in floating point."""
        return self.exact | {name: matrix.floats() for name, matrix in self.rounded.items()}


def stored_weights(folder: Path, *, step: int | None = None) -> Weights:
    """A file of weights and what is in it; see `read_weights`. Of an adapted run these are the adapter's alone."""
    name = weights_file(folder, step=step)
    exact = load_tensors(folder, name, manifest=read_manifest(folder))
    names = [each.removesuffix(SCALE) for each in exact if each.endswith(SCALE)]
    if strange := [each for each in names if each not in exact or not Bytes.fits(exact[each], exact[each + SCALE])]:
        raise RunError(f"{folder / name}: {strange[0]} is damaged; restore it from a copy or quantize again")
    rounded = {each: Bytes(exact.pop(each), exact.pop(each + SCALE)) for each in names}
    return Weights(folder / name, exact, rounded)


def weights_file(folder: Path, *, step: int | None = None) -> str:
    """The file of the finished model, else of the best checkpoint so far, or of `step`; `RunError` where none is."""
    manifest = read_manifest(folder)
    if step is not None and step not in (*manifest.checkpoints, manifest.best, manifest.last):
        kept = ", ".join(str(s) for s in manifest.checkpoints)
        raise RunError(f"{folder}: keeps no checkpoint of step {step}; it keeps {kept or 'none'}")
    if step is None and MODEL in manifest.files:
        return MODEL
    return _weights(best_step(folder, manifest) if step is None else step)


def best_step(folder: Path, manifest: Manifest) -> int:
    """The step of the best checkpoint, or of the only one; `RunError` where there is none."""
    step = manifest.last if manifest.best is None else manifest.best
    if step is None:
        raise RunError(f"{folder}: no checkpoint has been saved yet; go on training with the command that began it")
    return step


def is_weights(name: str) -> bool:
    """Whether a file of a run is of a model, or of training; these are verified when they are read."""
    return name == MODEL or name.startswith("checkpoints/")


def is_for_use(folder: Path) -> bool:
    """Whether it holds a finished model and nothing that training could go on from."""
    manifest = read_manifest(folder)
    return MODEL in manifest.files and manifest.last is not None and _weights(manifest.last) not in manifest.files


def _weights(step: int) -> str:
    return f"checkpoints/step-{step:08}.safetensors"


def _training(step: int) -> str:
    return f"checkpoints/step-{step:08}.training.safetensors"


def _progress(step: int, *, evaluated: bool) -> str:
    return f"checkpoints/step-{step:08}{'' if evaluated else '.interrupted'}.json"
