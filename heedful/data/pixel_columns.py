"""Read a picture of a line of writing as a scanner does, column by column, so that it becomes a sound."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.pictures import (
    MAX_PIXELS,
    Picture,
    decode_picture,
    estimate_picture_memory,
    read_picture,
    read_pixel_count,
    resize_picture,
)
from heedful.data.sound import Frontend, Sound
from heedful.errors import DataError

COLUMNS_PER_SECOND: Final = 100
"""Columns of pixels that count as a second."""


@final
@dataclass(frozen=True)
class PixelColumns(Frontend):
    """Computes a frame of each column of pixels, from left to right (Graves et al. 2009 describe columns by nine
    numbers instead).

    A picture becomes grey and `bands` pixels high; its width changes in proportion. The median of the pixels is paper.
    The distance from it is ink, and the most ink is 1, so that dark and light writing are the same.

    Attributes:
        bands: pixels of a column; the first one is at the bottom.
    """

    bands: int = 28

    @property
    def rate(self) -> int:
        """Pixels a second."""
        return COLUMNS_PER_SECOND * self.bands

    @property
    def frame_length(self) -> int:
        """Pixels of a column."""
        return self.bands

    @property
    def window(self) -> float:
        """Milliseconds that a column counts as."""
        return 1000 / COLUMNS_PER_SECOND

    @property
    def hop(self) -> float:
        """Milliseconds from one column to the next."""
        return self.window

    def read(self, path: Path) -> Sound:
        """Read the picture in a file as a sound.

        Raises:
            DataError: it is missing, damaged, no picture or too wide.
            MissingExtraError: Pillow is not installed.
        """
        return self.scan_picture(read_picture(path), name=str(path), max_seconds=MAX_PIXELS / self.rate)

    def decode(self, content: BytesIO, *, name: str, max_seconds: float) -> Sound:
        """Decode a picture as a sound of at most `max_seconds`; raises like `read`."""
        content.seek(0)
        return self.scan_picture(decode_picture(content, name=name), name=name, max_seconds=max_seconds)

    def estimate_memory(self, content: BytesIO, *, name: str, max_seconds: float) -> int:
        """Estimate the most bytes of memory that `decode` and `compute_frames` need; raises like `read`."""
        content.seek(0)
        return estimate_picture_memory(read_pixel_count(content, name=name) + int(max_seconds * self.rate))

    def scan_picture(self, picture: Picture, *, name: str, max_seconds: float) -> Sound:
        """Return the ink of a picture, one column after the other.

        Raises:
            DataError: it has more columns than `max_seconds`; the message calls it by `name`.
        """
        height, width = picture.shape[:2]
        columns = max(1, round(width * self.bands / height))
        if columns > max_seconds * COLUMNS_PER_SECOND:
            raise DataError(
                f"{name}: has {columns:,} columns if it is {self.bands} pixels high, this model reads at most "
                f"{int(max_seconds * COLUMNS_PER_SECOND):,}; split it"
            )
        resized = picture if height == self.bands else resize_picture(picture, self.bands, columns)
        grey = torch.from_numpy(resized).float().mean(2)
        ink = (grey - grey.median()).abs()
        return Sound((ink / ink.max().clamp(min=1)).flip(0).T.flatten(), self.rate)

    def compute_frames(self, sound: Sound) -> Float[Tensor, "T bands"]:
        """Return the columns of a picture that was read.

        Raises:
            DataError: the sound is no such picture.
        """
        if sound.rate != self.rate or len(sound.samples) % self.bands:
            raise DataError(f"a sound of {sound.rate} samples a second; this model reads pictures, give one")
        return sound.samples.view(-1, self.bands)
