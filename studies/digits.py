"""Reader of a folder of handwritten digits, for the studies that learn to classify them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from heedful.errors import DataError

CLASSES, SIDE = 10, 28


def read_digits(folder: Path, *, per_digit: int) -> list[UInt8[Tensor, "N 28 28"]]:
    """Return the first `per_digit` images of every digit.

    The files `digit0.u8.gz` to `digit9.u8.gz` hold the bytes of one image after the other.

    Raises:
        DataError: a file is missing or does not hold such images.
    """
    return [_read_images(folder / f"digit{digit}.u8.gz")[:per_digit] for digit in range(CLASSES)]


def _read_images(path: Path) -> Tensor:
    """Read the images [N, 28, 28] of one file."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}); give the folder of the digits with --digits") from None
    if not content or len(content) % (SIDE * SIDE):
        raise DataError(f"{path}: {len(content)} bytes are not images of {SIDE} x {SIDE}; give another folder")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(-1, SIDE, SIDE).copy())
