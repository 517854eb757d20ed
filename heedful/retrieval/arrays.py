"""Arrays of an index as .npy files, which are checked before they are memory-mapped."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from heedful.atomic_io import describe_error
from heedful.errors import RunError
from heedful.files import open_regular


def map_array(path: Path, *, dtypes: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Memory-map an array of an index after checking its header.

    Args:
        path: of a .npy file.
        dtypes: names of the allowed dtypes, separated by spaces.
        shape: its length along each axis; None allows any length.

    Raises:
        RunError: the file is missing or contains another array.
    """
    try:
        with open_regular(path) as file:
            found_shape, fortran, found_dtype = _read_array_header(file)
            if fortran or found_dtype.name not in dtypes.split() or len(found_shape) != len(shape):
                raise ValueError(f"it holds {found_dtype} of shape {found_shape}")
            if any(expected not in (None, length) for length, expected in zip(found_shape, shape, strict=True)):
                raise ValueError(f"it has the shape {found_shape}, and {shape} belongs to this index")
            start = file.tell()
            if os.fstat(file.fileno()).st_size != start + found_dtype.itemsize * math.prod(found_shape):
                raise ValueError("its size differs from that of its array")
            if not math.prod(found_shape):
                return np.zeros(found_shape, found_dtype)
            return np.memmap(file, dtype=found_dtype, mode="r", offset=start, shape=found_shape)
    except (OSError, ValueError, OverflowError) as error:
        raise RunError(
            f"{path}: is not an array of this index ({describe_error(error)}); build the index again with --rebuild"
        ) from None


def _read_array_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype from a .npy file; raises `ValueError` if they are invalid."""
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"it has the version {version} of its format")
        header: tuple[tuple[int, ...], bool, np.dtype[Any]] = readers[version](file)
    except ValueError:
        raise
    except Exception as error:  # parsing a header raises many kinds of exceptions
        raise ValueError(f"its header cannot be read, {type(error).__name__}") from None
    if min(header[0], default=0) < 0:
        raise ValueError("a length below 0")
    return header
