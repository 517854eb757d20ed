"""Handwritten digits from a folder, for the studies that learn to read them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from heedful.errors import DataError

CLASSES, SIDE = 10, 28


def read_digits(folder: Path, *, each: int) -> list[UInt8[Tensor, "N 28 28"]]:
    """The first `each` images of every digit, from `digit0.u8.gz` to `digit9.u8.gz`: bytes, one image after the other.

    Raises:
        DataError: a file is missing or holds something else.
    """
    return [_images(folder / f"digit{digit}.u8.gz")[:each] for digit in range(CLASSES)]


def _images(path: Path) -> Tensor:
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}); give the folder of the digits with --digits") from None
    if not content or len(content) % (SIDE * SIDE):
        raise DataError(f"{path}: {len(content)} bytes are no images of {SIDE} x {SIDE}; give another folder")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(-1, SIDE, SIDE).copy())
