"""Digits of 28 x 28 pixels, drawn by rules, in the files that the studies read."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Final

import numpy as np

from heedful.data.random_numbers import SeededRandom
from heedful.tasks.glimpses.demonstration import SIDE, draw_digit

_PER_DIGIT: Final = 300
_STUDY_SIDE: Final = 28


def iter_digit_files(seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of the files digit0.u8.gz to digit9.u8.gz: the bytes of one image after the other."""
    places = np.arange(_STUDY_SIDE) * SIDE // _STUDY_SIDE
    for label in range(10):
        numbers = range(label, 10 * _PER_DIGIT, 10)
        images = [draw_digit(str(label), SeededRandom(seed, number))[np.ix_(places, places)] for number in numbers]
        yield f"digit{label}.u8.gz", gzip.compress(np.stack(images).tobytes(), mtime=0)
