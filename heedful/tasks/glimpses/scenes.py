"""What is looked at: pictures as they are, or somewhere on a larger canvas, among pieces of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import UInt8

from heedful.data.random_numbers import SeededRandom
from heedful.tasks.glimpses.data import PictureSequence, PictureShape, PixelArray


class SceneRenderer(ABC):
    """Makes what is looked at of a picture; a function of the picture, the others and chance."""

    @abstractmethod
    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Of what is made of pictures of a shape."""

    @abstractmethod
    def render(
        self, picture: PixelArray, others: PictureSequence, rng: SeededRandom
    ) -> UInt8[np.ndarray, "C rows columns"]:
        """What is looked at; `others` give the pieces."""


@final
class PlainRenderer(SceneRenderer):
    """The picture, as it is."""

    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """The same."""
        return picture_shape

    def render(self, picture: PixelArray, others: PictureSequence, rng: SeededRandom) -> PixelArray:
        """The same."""
        return picture


@final
@dataclass(frozen=True)
class CanvasRenderer(SceneRenderer):
    """A picture somewhere on a dark square (Mnih et al. 2014, section 4.1).

    Attributes:
        side: of the canvas, in pixels; at least those of the picture.
        pieces: squares of other pictures that lie about as well.
        piece: pixels along a side of each.
    """

    side: int
    pieces: int = 0
    piece: int = 8

    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """A square."""
        return picture_shape[0], self.side, self.side

    def render(
        self, picture: PixelArray, others: PictureSequence, rng: SeededRandom
    ) -> UInt8[np.ndarray, "C rows columns"]:
        """Where two things lie at one place, the lighter pixel is seen."""
        canvas = np.zeros(self.output_shape(picture.shape), dtype=np.uint8)
        self._paste(canvas, picture, rng)
        for _ in range(self.pieces):
            other = others[rng.next_int(len(others))]
            self._paste(canvas, _random_crop(other, self.piece, self.piece, rng), rng)
        return canvas

    @staticmethod
    def _paste(canvas: np.ndarray, part: np.ndarray, rng: SeededRandom) -> None:
        region = _random_crop(canvas, part.shape[1], part.shape[2], rng)
        np.maximum(region, part, out=region)


def _random_crop(picture: np.ndarray, height: int, width: int, rng: SeededRandom) -> np.ndarray:
    """A part of a picture, anywhere in it."""
    top = rng.next_int(picture.shape[1] - height + 1)
    left = rng.next_int(picture.shape[2] - width + 1)
    part: np.ndarray = picture[:, top : top + height, left : left + width]
    return part
