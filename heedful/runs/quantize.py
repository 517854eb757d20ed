"""Quantization of a trained run: large matrices in 8 bits, a quarter of the size, for inference only."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from heedful.argument_checks import require_path
from heedful.atomic_io import load_parameters
from heedful.engines.int8 import SCALE_SUFFIX, Int8Matrix, find_quantizable
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face_folder
from heedful.models.parameters import skip_initialization
from heedful.runs.adapter_runs import build_uninitialized_model, load_full_weights
from heedful.runs.load import open_run, save_inference_copy


def quantize(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[int, int]:
    """Write a trained run with int8 weights: matrices of 4,096 numbers or more are stored as bytes with a scale for
    each row.

    The new folder works like a run, with the engine "int8" by default (or "native", if its recipe says so), and cannot
    be
    trained further. Its answers are those of the run with that engine.

    Args:
        run: folder of a trained run.
        folder: the folder to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        Bytes of the weights in floating point, and as written.

    Raises:
        RunError: nothing was trained there, it is damaged, or `folder` is not empty.

    >>> import heedful
    >>> heedful.quantize("runs/multi30k-en-de", "runs/multi30k-en-de-int8")  # doctest: +SKIP
    (30310400, 7750912)
    """
    require_path(run, name="run")
    require_path(folder, name="folder")
    if is_hugging_face_folder(Path(run)):
        raise RunError(f"{run}: is a Hugging Face model and not a run; it computes in 8 bits with --engine int8")
    opened = open_run(Path(run))
    weights = load_full_weights(opened.folder, step=step).dequantize()
    with skip_initialization():
        model = build_uninitialized_model(opened)
    load_parameters(model, weights, location=str(opened.folder))
    large_names = {f"{name}.weight" for name in find_quantizable(model)}
    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name in large_names:
            quantized = Int8Matrix.from_weight(weight)
            tensors |= {name: quantized.rows, name + SCALE_SUFFIX: quantized.scale}
        else:
            tensors[name] = weight
    engine = None if opened.recipe.engine == "torch" else opened.recipe.engine
    recipe = opened.recipe.model_copy(update={"engine": engine})
    save_inference_copy(opened, tensors, Path(folder), use="quantize to", step=step, recipe=recipe)
    return tuple(sum(tensor.nbytes for tensor in group.values()) for group in (weights, tensors))  # type: ignore[return-value]  # two
