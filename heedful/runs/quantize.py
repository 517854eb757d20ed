"""From a trained run to one whose large matrices are bytes: a quarter of the size, for use and not for training."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from heedful.engines.int8 import SCALE, Bytes, matrices
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face
from heedful.models.initialisation import unfilled
from heedful.runs.checkpoints import best_step, read_weights
from heedful.runs.load import open_run, save_run
from heedful.store import MODEL, fill, read_manifest, save_tensors, whole_folder, write_manifest

_CURVE = "metrics.jsonl"


def quantize(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[int, int]:
    """Writes a trained run whose matrices of 4,096 numbers and more are bytes, with a scale for each row.

    The folder works as a run does, by the engine "int8" unless told otherwise (or, where its recipe says so, by
    "native"), and cannot be trained further. Its answers are those of the run by that engine.

    Args:
        run: the folder of a trained run.
        folder: to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        Bytes of the weights in floating point, and as they are written.

    Raises:
        RunError: nothing was trained there, it is damaged, or `folder` holds something.

    >>> import heedful
    >>> heedful.quantize("runs/multi30k-en-de", "runs/multi30k-en-de-int8")  # doctest: +SKIP
    (30310400, 7750912)
    """
    if is_hugging_face(Path(run)):
        raise RunError(
            f"{run}: is a model of Hugging Face and no run; it computes with bytes where --engine int8 is given"
        )
    opened = open_run(Path(run))
    weights = read_weights(opened.folder, step=step)
    with unfilled():
        model = opened.model()
    fill(model, weights, place=str(opened.folder))
    large = {f"{name}.weight" for name in matrices(model)}
    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name in large:
            rounded = Bytes.of(weight)
            tensors |= {name: rounded.rows, name + SCALE: rounded.scale}
        else:
            tensors[name] = weight
    before = read_manifest(opened.folder)
    with whole_folder(Path(folder), use="quantize to") as beside:
        engine = None if opened.recipe.engine == "torch" else opened.recipe.engine
        save_run(replace(opened, folder=beside, recipe=opened.recipe.model_copy(update={"engine": engine})))
        saved = save_tensors(beside / MODEL, tensors)
        if (opened.folder / _CURVE).exists():
            shutil.copyfile(opened.folder / _CURVE, beside / _CURVE)
        done = best_step(opened.folder, before) if step is None else step
        whole = replace(read_manifest(beside).with_file(MODEL, saved), last=done, best=done, finished=before.finished)
        write_manifest(beside, whole)
    return tuple(sum(each.nbytes for each in found.values()) for found in (weights, tensors))  # type: ignore[return-value]  # two
