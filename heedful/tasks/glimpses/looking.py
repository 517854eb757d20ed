"""What is shown and where chance leads: functions of seeds and of pictures, whoever looks at them beside whom."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from heedful.data.chance import Chance
from heedful.models.picture_classifier import Looks, PictureClassifier
from heedful.tasks.glimpses.data import Many, picture_key
from heedful.tasks.glimpses.recipe import WarpConfig
from heedful.tasks.glimpses.scenes import Scene

_SCENE: Final = 1
_LOOK: Final = 2
_WARP: Final = 3
_SHOWN: Final = 0
"""Seed of the scenes that models are measured on, so that all of them are asked the same."""


def scenes(
    scene: Scene,
    pictures: Many,
    *,
    others: Many,
    numbers: Iterable[int],
    seed: int = _SHOWN,
) -> UInt8[np.ndarray, "B C rows columns"]:
    """A scene of each picture, whose number and seed say how; pieces are of `others`."""
    made = [
        scene.made(picture, others, Chance(seed, number, _SCENE))
        for picture, number in zip(pictures, numbers, strict=True)
    ]
    return np.stack(made)


def training_chance(
    numbers: Int[np.ndarray, " B"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """What decides where to look while one learns: another way for each number."""
    return _drawn((Chance(seed, number, _LOOK) for number in numbers.tolist()), copies=copies, draws=draws)


def own_chance(
    shown: UInt8[np.ndarray, "B C H W"], *, copies: int, draws: int, seed: int
) -> Float[Tensor, "B copies draws 2"]:
    """What decides where to look at a picture, whatever stands beside it; the first copies of many are those of few."""
    return _drawn((Chance(seed, picture_key(pixels)) for pixels in shown), copies=copies, draws=draws)


def _drawn(streams: Iterable[Chance], *, copies: int, draws: int) -> Float[Tensor, "B copies draws 2"]:
    numbers = np.stack([stream.uniform(copies * draws * 2) for stream in streams])
    # rounded to fp32 a number may become 1, which is no place and has no logarithm
    return torch.from_numpy(numbers.astype(np.float32)).clamp(max=1 - 2**-24).view(len(numbers), copies, draws, 2)


def floats(shown: UInt8[np.ndarray, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """From 0 to 1."""
    return torch.from_numpy(shown).float() / 255


def looked(
    model: PictureClassifier,
    shown: UInt8[np.ndarray, "B C H W"],
    *,
    copies: int,
    draws: int,
    seed: int,
    device: torch.device,
) -> tuple[Looks, Float[Tensor, "B T classes"]]:
    """What a trained model sees, and its probabilities after each glimpse, the mean over all copies."""
    chance = own_chance(shown, copies=copies, draws=draws, seed=seed)
    looks: Looks = model(floats(shown).to(device), chance.to(device))
    return looks, looks.logits.softmax(-1).mean(1)


def warped(
    pictures: UInt8[np.ndarray, "B C H W"], numbers: Int[np.ndarray, " B"], *, warp: WarpConfig, seed: int
) -> UInt8[np.ndarray, "B C H W"]:
    """Each picture turned, stretched, sheared and shifted as its number and the seed say; beyond it is 0."""
    away = np.stack([Chance(seed, number, _WARP).uniform(6) for number in numbers.tolist()]) * 2 - 1
    turn, lean = away[:, 0] * math.radians(warp.degrees), np.tan(away[:, 1] * math.radians(warp.shear))
    height, width = pictures.shape[2:]
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]).transpose(2, 0, 1)
    form = np.zeros_like(rotation)
    form[:, 0, 0], form[:, 1, 1] = 1 + warp.scale * away[:, 2], 1 + warp.scale * away[:, 3]
    form[:, 0, 1] = lean
    shift = warp.shift * 2 * away[:, 4:] / (width, height)
    pixels = np.array([[1, height / width], [width / height, 1]])  # axes of torch's grids go from -1 to 1
    matrix = torch.from_numpy(np.concatenate([rotation @ form * pixels, shift[:, :, None]], 2)).float()
    grid = functional.affine_grid(matrix, list(pictures.shape), align_corners=False)
    moved = functional.grid_sample(torch.from_numpy(pictures).float(), grid, align_corners=False)
    return moved.round().clamp(0, 255).byte().numpy()
