"""From a trained run to one whose large matrices are bytes: a quarter of the size, for use and not for training."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from heedful.engines.int8 import SCALE, Bytes, matrices
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face
from heedful.given_texts import require_path
from heedful.models.initialisation import unfilled
from heedful.runs.adapted import model_of, whole_weights
from heedful.runs.for_use import save_for_use
from heedful.runs.load import open_run
from heedful.store import fill


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
    require_path(run, name="run")
    require_path(folder, name="folder")
    if is_hugging_face(Path(run)):
        raise RunError(
            f"{run}: is a model of Hugging Face and no run; it computes with bytes where --engine int8 is given"
        )
    opened = open_run(Path(run))
    weights = whole_weights(opened.folder, step=step).floats()
    with unfilled():
        model = model_of(opened)
    fill(model, weights, place=str(opened.folder))
    large = {f"{name}.weight" for name in matrices(model)}
    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name in large:
            rounded = Bytes.of(weight)
            tensors |= {name: rounded.rows, name + SCALE: rounded.scale}
        else:
            tensors[name] = weight
    engine = None if opened.recipe.engine == "torch" else opened.recipe.engine
    recipe = opened.recipe.model_copy(update={"engine": engine})
    save_for_use(opened, tensors, Path(folder), use="quantize to", step=step, recipe=recipe)
    return tuple(sum(each.nbytes for each in found.values()) for found in (weights, tensors))  # type: ignore[return-value]  # two
