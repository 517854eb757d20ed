"""Scene renderers: pictures unchanged, or placed on a larger canvas with clutter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import UInt8

from heedful.data.random_numbers import SeededRandom
from heedful.tasks.glimpses.data import PictureSequence, PictureShape, PixelArray


class SceneRenderer(ABC):
    """Renders a scene from a picture, determined by the picture, the other pictures and the random generator."""

    @abstractmethod
    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Return the shape of scenes rendered from pictures of a shape."""

    @abstractmethod
    def render(
        self, picture: PixelArray, others: PictureSequence, rng: SeededRandom
    ) -> UInt8[np.ndarray, "C rows columns"]:
        """Render the scene of a picture; clutter is cut from `others`."""


@final
class PlainRenderer(SceneRenderer):
    """Shows pictures unchanged."""

    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Return the picture's shape."""
        return picture_shape

    def render(self, picture: PixelArray, others: PictureSequence, rng: SeededRandom) -> PixelArray:
        """Return the picture."""
        return picture


@final
@dataclass(frozen=True)
class CanvasRenderer(SceneRenderer):
    """Places a picture at a random position on a dark square, with clutter (Mnih et al. 2014, section 4.1).

    Attributes:
        side: of the canvas, in pixels; at least those of the picture.
        pieces: number of squares cut from other pictures.
        piece: pixels along a side of each square.
    """

    side: int
    pieces: int = 0
    piece: int = 8

    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Return the shape of the square canvas."""
        return picture_shape[0], self.side, self.side

    def render(
        self, picture: PixelArray, others: PictureSequence, rng: SeededRandom
    ) -> UInt8[np.ndarray, "C rows columns"]:
        """Render the canvas; where parts overlap, the lighter pixel is kept."""
        canvas = np.zeros(self.output_shape(picture.shape), dtype=np.uint8)
        self._paste(canvas, picture, rng)
        for _ in range(self.pieces):
            other = others[rng.next_int(len(others))]
            self._paste(canvas, _random_crop(other, self.piece, self.piece, rng), rng)
        return canvas

    @staticmethod
    def _paste(canvas: np.ndarray, part: np.ndarray, rng: SeededRandom) -> None:
        """Paste a part at a random position of the canvas, keeping the lighter pixels."""
        region = _random_crop(canvas, part.shape[1], part.shape[2], rng)
        np.maximum(region, part, out=region)


def _random_crop(picture: np.ndarray, height: int, width: int, rng: SeededRandom) -> np.ndarray:
    """Return a random crop of a picture, as a view."""
    top = rng.next_int(picture.shape[1] - height + 1)
    left = rng.next_int(picture.shape[2] - width + 1)
    part: np.ndarray = picture[:, top : top + height, left : left + width]
    return part
