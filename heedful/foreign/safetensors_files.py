"""Single files of safetensors, and what is said where a pickled one lies in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from torch import Tensor

from heedful.atomic_io import describe_error, read_tensors
from heedful.errors import RunError

PICKLED_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""How files end that torch has pickled."""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, in single precision.

    Raises:
        RunError: there is none, it is damaged, or a pickled file lies in its place.
    """
    if not path.exists() and (pickled := find_pickled_file(path.parent)) is not None:
        raise RunError(
            f"{pickled}: heedful reads no pickled weights, because opening them may run a program; where you trust "
            f"this file, save it as {path.name} beside it: python -c 'import sys, torch; from safetensors.torch import "
            f'save_file; save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])\' "{pickled}" "{path}"'
        )
    try:
        tensors = read_tensors(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({describe_error(error)}); take a complete copy") from None
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def find_pickled_file(folder: Path) -> Path | None:
    """The first file of a folder whose name says that it is pickled."""
    files = (
        (path for path in sorted(folder.iterdir()) if path.suffix in PICKLED_SUFFIXES) if folder.is_dir() else iter(())
    )
    return next(files, None)
