"""Reading of single safetensors files, with a message if a pickled file is there instead."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from torch import Tensor

from heedful.atomic_io import describe_error, read_tensors
from heedful.errors import RunError

PICKLED_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""File name suffixes of torch's pickled weights."""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one file in single precision.

    Raises:
        RunError: there is none, it is damaged, or a pickled file is there instead.
    """
    if not path.exists() and (pickled := find_pickled_file(path.parent)) is not None:
        raise RunError(
            f"{pickled}: heedful does not read pickled weights, because opening them may run a program; if you trust "
            f"this file, save it as {path.name} in the same folder: python -c 'import sys, torch; from "
            "safetensors.torch import "
            f'save_file; save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])\' "{pickled}" "{path}"'
        )
    try:
        tensors = read_tensors(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({describe_error(error)}); take a complete copy") from None
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def find_pickled_file(folder: Path) -> Path | None:
    """Return the first file of a folder with a suffix of pickled weights, or None."""
    files = (
        (path for path in sorted(folder.iterdir()) if path.suffix in PICKLED_SUFFIXES) if folder.is_dir() else iter(())
    )
    return next(files, None)
