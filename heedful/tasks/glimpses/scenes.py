"""What is looked at: pictures as they are, or somewhere on a larger canvas, among pieces of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import UInt8

from heedful.data.chance import Chance
from heedful.tasks.glimpses.data import Many, Pixels, Shape


class Scene(ABC):
    """Makes what is looked at of a picture; a function of the picture, the others and chance."""

    @abstractmethod
    def shape(self, picture: Shape) -> Shape:
        """Of what is made of pictures of a shape."""

    @abstractmethod
    def made(self, picture: Pixels, others: Many, chance: Chance) -> UInt8[np.ndarray, "C rows columns"]:
        """What is looked at; `others` give the pieces."""


@final
class Plain(Scene):
    """The picture, as it is."""

    def shape(self, picture: Shape) -> Shape:
        """The same."""
        return picture

    def made(self, picture: Pixels, others: Many, chance: Chance) -> Pixels:
        """The same."""
        return picture


@final
@dataclass(frozen=True)
class Canvas(Scene):
    """A picture somewhere on a dark square (Mnih et al. 2014, section 4.1).

    Attributes:
        side: of the canvas, in pixels; at least those of the picture.
        pieces: squares of other pictures that lie about as well.
        piece: pixels along a side of each.
    """

    side: int
    pieces: int = 0
    piece: int = 8

    def shape(self, picture: Shape) -> Shape:
        """A square."""
        return picture[0], self.side, self.side

    def made(self, picture: Pixels, others: Many, chance: Chance) -> UInt8[np.ndarray, "C rows columns"]:
        """Where two things lie at one place, the lighter pixel is seen."""
        canvas = np.zeros(self.shape(picture.shape), dtype=np.uint8)
        self._lay(canvas, picture, chance)
        for _ in range(self.pieces):
            other = others[chance.below(len(others))]
            self._lay(canvas, _corner(other, self.piece, self.piece, chance), chance)
        return canvas

    @staticmethod
    def _lay(canvas: np.ndarray, part: np.ndarray, chance: Chance) -> None:
        place = _corner(canvas, part.shape[1], part.shape[2], chance)
        np.maximum(place, part, out=place)


def _corner(picture: np.ndarray, height: int, width: int, chance: Chance) -> np.ndarray:
    """A part of a picture, anywhere in it."""
    top = chance.below(picture.shape[1] - height + 1)
    left = chance.below(picture.shape[2] - width + 1)
    part: np.ndarray = picture[:, top : top + height, left : left + width]
    return part
