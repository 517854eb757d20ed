"""Inputs of glimpse models: scenes rendered from pictures, and random numbers.

They are determined by seeds and pictures alone. A scene is a picture unchanged, or placed on a larger canvas with
clutter.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from heedful.data.random_numbers import SeededRandom
from heedful.models.picture_classifier import GlimpseTrace, PictureClassifier
from heedful.tasks.glimpses.data import PictureSequence, PictureShape, PixelArray, hash_pixels

_SCENE_STREAM: Final = 1
_GLIMPSE_STREAM: Final = 2
_WARP_STREAM: Final = 3
_EVALUATION_SEED: Final = 0
"""Seed of the scenes that models are measured on, so that all of them see the same."""


class SceneRenderer(ABC):
    """Renders a scene from a picture, determined by the picture, the other pictures and the random generator."""

    @abstractmethod
    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Return the shape of the scenes that are rendered from pictures of the given shape."""

    @abstractmethod
    def render(
        self, picture: PixelArray, others: PictureSequence, rng: SeededRandom
    ) -> UInt8[np.ndarray, "C rows columns"]:
        """Render the scene of a picture; clutter is cut from the pictures `others`, and `rng` chooses positions."""


@final
class PlainRenderer(SceneRenderer):
    """Shows pictures unchanged."""

    def output_shape(self, picture_shape: PictureShape) -> PictureShape:
        """Return the picture's shape."""
        return picture_shape

    def render(self, picture: PixelArray, others: PictureSequence, rng: SeededRandom) -> PixelArray:
        """Return the picture unchanged; the other arguments are not used."""
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
        """Place the picture and pieces of random pictures in `others` at random positions of a dark canvas; where they
        overlap, the lighter pixel is kept.
        """
        canvas = np.zeros(self.output_shape(picture.shape), dtype=np.uint8)
        self._paste(canvas, picture, rng)
        for _ in range(self.pieces):
            other = others[rng.next_int(len(others))]
            self._paste(canvas, _random_crop(other, self.piece, self.piece, rng), rng)
        return canvas

    @staticmethod
    def _paste(canvas: np.ndarray, part: np.ndarray, rng: SeededRandom) -> None:
        """Copy a picture `part` to a random position of the canvas, in place, keeping the lighter of two pixels."""
        region = _random_crop(canvas, part.shape[1], part.shape[2], rng)
        np.maximum(region, part, out=region)


def _random_crop(picture: np.ndarray, height: int, width: int, rng: SeededRandom) -> np.ndarray:
    """Return a crop of `height` times `width` pixels at a random position of a picture, as a view."""
    top = rng.next_int(picture.shape[1] - height + 1)
    left = rng.next_int(picture.shape[2] - width + 1)
    part: np.ndarray = picture[:, top : top + height, left : left + width]
    return part


def render_scenes(
    renderer: SceneRenderer,
    pictures: PictureSequence,
    *,
    others: PictureSequence,
    numbers: Iterable[int],
    seed: int = _EVALUATION_SEED,
) -> UInt8[np.ndarray, "B C rows columns"]:
    """Render a scene of each picture, determined by the picture's number in `numbers` and the seed; clutter comes from
    `others`.
    """
    rendered = [
        renderer.render(picture, others, SeededRandom(seed, number, _SCENE_STREAM))
        for picture, number in zip(pictures, numbers, strict=True)
    ]
    return np.stack(rendered)


def sample_training_noise(
    numbers: Int[np.ndarray, " B"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """Return uniform random numbers for the glimpse positions in training, determined by seed and example number: two
    for each of `draws` glimpses in each of `copies` runs over a picture.
    """
    return _draw_uniform(
        (SeededRandom(seed, number, _GLIMPSE_STREAM) for number in numbers.tolist()), copies=copies, draws=draws
    )


def sample_picture_noise(
    pictures: UInt8[np.ndarray, "B C H W"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """Return uniform random numbers for the glimpse positions, determined by seed and picture alone: two for each of
    `draws` glimpses in each of `copies` runs over a picture.

    A smaller number of copies gets the first of a larger one's.
    """
    return _draw_uniform((SeededRandom(seed, hash_pixels(pixels)) for pixels in pictures), copies=copies, draws=draws)


def _draw_uniform(streams: Iterable[SeededRandom], *, copies: int, draws: int) -> Float[Tensor, "B copies draws 2"]:
    """Stack uniform random numbers of several streams into one tensor, all below 1."""
    numbers = np.stack([stream.uniform(copies * draws * 2) for stream in streams])
    # rounded to fp32 a number may become 1, which is not a place and has no logarithm
    return torch.from_numpy(numbers.astype(np.float32)).clamp(max=1 - 2**-24).view(len(numbers), copies, draws, 2)


def to_floats(pictures: UInt8[np.ndarray, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """Convert bytes to floats from 0 to 1."""
    return torch.from_numpy(pictures).float() / 255


def run_glimpses(
    model: PictureClassifier,
    pictures: UInt8[np.ndarray, "B C H W"],
    *,
    copies: int,
    draws: int,
    seed: int,
    device: torch.device,
) -> tuple[GlimpseTrace, Float[Tensor, "B T classes"]]:
    """Run a trained model on pictures, `copies` times with `draws` random glimpses each; return its outputs and the
    class probabilities after each glimpse, averaged over copies.
    """
    noise = sample_picture_noise(pictures, copies=copies, draws=draws, seed=seed)
    outputs: GlimpseTrace = model(to_floats(pictures).to(device), noise.to(device))
    return outputs, outputs.logits.softmax(-1).mean(1)


def warp_pictures(
    pictures: UInt8[np.ndarray, "B C H W"],
    numbers: Int[np.ndarray, " B"],
    *,
    degrees: float,
    scale: float,
    shear: float,
    shift: float,
    seed: int,
) -> UInt8[np.ndarray, "B C H W"]:
    """Rotate, scale, shear and shift each picture randomly, by its number and the seed; fill the outside with 0.

    Each amount is drawn uniformly from minus to plus its value.

    Args:
        pictures: any number of them.
        numbers: of the pictures.
        degrees: of rotation.
        scale: share by which height and width become larger or smaller, independently.
        shear: degrees by which upright lines are slanted.
        shift: pixels to each side.
        seed: of the amounts.
    """
    random_offsets = (
        np.stack([SeededRandom(seed, number, _WARP_STREAM).uniform(6) for number in numbers.tolist()]) * 2 - 1
    )
    angles, shears = (
        random_offsets[:, 0] * math.radians(degrees),
        np.tan(random_offsets[:, 1] * math.radians(shear)),
    )
    height, width = pictures.shape[2:]
    rotation = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    transform = np.zeros_like(rotation)
    transform[:, 0, 0], transform[:, 1, 1] = (
        1 + scale * random_offsets[:, 2],
        1 + scale * random_offsets[:, 3],
    )
    transform[:, 0, 1] = shears
    offset = shift * 2 * random_offsets[:, 4:] / (width, height)
    pixels = np.array([[1, height / width], [width / height, 1]])  # axes of torch's grids go from -1 to 1
    matrix = torch.from_numpy(np.concatenate([rotation @ transform * pixels, offset[:, :, None]], 2)).float()
    grid = functional.affine_grid(matrix, list(pictures.shape), align_corners=False)
    warped = functional.grid_sample(torch.from_numpy(pictures).float(), grid, align_corners=False)
    return warped.round().clamp(0, 255).byte().numpy()
