"""Inputs of glimpse models: rendered scenes and random numbers, determined by seeds and pictures alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from heedful.data.random_numbers import SeededRandom
from heedful.models.picture_classifier import GlimpseTrace, PictureClassifier
from heedful.tasks.glimpses.data import PictureSequence, hash_pixels
from heedful.tasks.glimpses.recipe import WarpConfig
from heedful.tasks.glimpses.scenes import SceneRenderer

_SCENE_STREAM: Final = 1
_GLIMPSE_STREAM: Final = 2
_WARP_STREAM: Final = 3
_EVALUATION_SEED: Final = 0
"""Seed of the scenes that models are measured on, so that all of them see the same."""


def render_scenes(
    renderer: SceneRenderer,
    pictures: PictureSequence,
    *,
    others: PictureSequence,
    numbers: Iterable[int],
    seed: int = _EVALUATION_SEED,
) -> UInt8[np.ndarray, "B C rows columns"]:
    """Render a scene of each picture, determined by the picture's number and the seed; clutter comes from `others`."""
    rendered = [
        renderer.render(picture, others, SeededRandom(seed, number, _SCENE_STREAM))
        for picture, number in zip(pictures, numbers, strict=True)
    ]
    return np.stack(rendered)


def sample_training_noise(
    numbers: Int[np.ndarray, " B"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """Return uniform random numbers for the glimpse positions in training, determined by seed and example number."""
    return _draw_uniform(
        (SeededRandom(seed, number, _GLIMPSE_STREAM) for number in numbers.tolist()), copies=copies, draws=draws
    )


def sample_picture_noise(
    pictures: UInt8[np.ndarray, "B C H W"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """Return uniform random numbers for the glimpse positions, determined by each picture alone.

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
    """Run a trained model on pictures; return its outputs and the mean class probabilities after each glimpse."""
    noise = sample_picture_noise(pictures, copies=copies, draws=draws, seed=seed)
    outputs: GlimpseTrace = model(to_floats(pictures).to(device), noise.to(device))
    return outputs, outputs.logits.softmax(-1).mean(1)


def warp_pictures(
    pictures: UInt8[np.ndarray, "B C H W"], numbers: Int[np.ndarray, " B"], *, warp: WarpConfig, seed: int
) -> UInt8[np.ndarray, "B C H W"]:
    """Rotate, scale, shear and shift each picture randomly, by its number and the seed; fill the outside with 0."""
    random_offsets = (
        np.stack([SeededRandom(seed, number, _WARP_STREAM).uniform(6) for number in numbers.tolist()]) * 2 - 1
    )
    angles, shears = (
        random_offsets[:, 0] * math.radians(warp.degrees),
        np.tan(random_offsets[:, 1] * math.radians(warp.shear)),
    )
    height, width = pictures.shape[2:]
    rotation = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    transform = np.zeros_like(rotation)
    transform[:, 0, 0], transform[:, 1, 1] = (
        1 + warp.scale * random_offsets[:, 2],
        1 + warp.scale * random_offsets[:, 3],
    )
    transform[:, 0, 1] = shears
    shift = warp.shift * 2 * random_offsets[:, 4:] / (width, height)
    pixels = np.array([[1, height / width], [width / height, 1]])  # axes of torch's grids go from -1 to 1
    matrix = torch.from_numpy(np.concatenate([rotation @ transform * pixels, shift[:, :, None]], 2)).float()
    grid = functional.affine_grid(matrix, list(pictures.shape), align_corners=False)
    warped = functional.grid_sample(torch.from_numpy(pictures).float(), grid, align_corners=False)
    return warped.round().clamp(0, 255).byte().numpy()
