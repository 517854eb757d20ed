"""Digits drawn by rule: strokes of a pen, each time bent, leaned and sized by chance; nothing is fetched."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, UInt8

from heedful.data.random_numbers import SeededRandom
from heedful.errors import RecipeError
from heedful.tasks.glimpses.data import hash_pixels

SIDE: Final = 16
"""Pixels along a side of each."""
_MAX_TRIES: Final = 4
"""Digits that are drawn for each that is wanted, at most: few come out the same."""

Stroke = list[tuple[float, float]]


def _make_arc(x: float, y: float, x_radius: float, y_radius: float, *degrees: int) -> Stroke:
    """A part of an ellipse, from one angle to another, in degrees clockwise from the right."""
    begin, end = degrees
    angles = np.radians(np.linspace(begin, end, 2 + abs(end - begin) // 30))
    return [(x + x_radius * math.cos(angle), y + y_radius * math.sin(angle)) for angle in angles]


_STROKES: Final[Mapping[str, list[Stroke]]] = {
    "0": [_make_arc(0, 0, 0.6, 1, 0, 360)],
    "1": [[(-0.35, -0.6), (0.1, -1), (0.1, 1)]],
    "2": [[*_make_arc(0, -0.45, 0.58, 0.55, 190, 395), (-0.6, 1), (0.65, 1)]],
    "3": [[*_make_arc(0, -0.5, 0.5, 0.5, 210, 450), *_make_arc(0, 0.5, 0.6, 0.5, 270, 510)]],
    "4": [[(0.3, 1), (0.3, -1), (-0.6, 0.35), (0.7, 0.35)]],
    "5": [[(0.55, -1), (-0.45, -1), (-0.5, -0.15), *_make_arc(-0.02, 0.37, 0.6, 0.63, 235, 500)]],
    "6": [[(0.4, -1), *_make_arc(0.05, 0.4, 0.65, 0.6, 190, -170)]],
    "7": [[(-0.6, -1), (0.6, -1), (-0.1, 1)]],
    "8": [_make_arc(0, -0.5, 0.48, 0.48, 0, 360), _make_arc(0, 0.48, 0.6, 0.52, 0, 360)],
    "9": [[*_make_arc(0, -0.42, 0.58, 0.56, 0, -360), (0.5, 0.3), (0.2, 1)]],
}


@dataclass(frozen=True)
class DrawnDigit:
    """A drawn digit and which one it is."""

    pixels: UInt8[np.ndarray, "1 side side"]
    label: int


def generate_digits(count: int, *, seed: int) -> Iterator[DrawnDigit]:
    """Digits of which no two look the same; each of the ten as often as the others.

    Raises:
        RecipeError: not as many can be told apart.
    """
    seen_keys: set[int] = set()
    for number in range(_MAX_TRIES * count):
        if len(seen_keys) == count:
            return
        pixels = draw_digit(str(number % 10), SeededRandom(seed, number))[None]
        if (key := hash_pixels(pixels)) not in seen_keys:
            seen_keys.add(key)
            yield DrawnDigit(pixels, number % 10)
    if len(seen_keys) < count:
        raise RecipeError(f"{count:,} digits: only {len(seen_keys):,} that differ could be drawn; ask for fewer")


def draw_digit(digit: str, rng: SeededRandom) -> UInt8[np.ndarray, "side side"]:
    """A digit as a pen would write it that is decided by chance."""
    lean, turn, wide, high, bend, phase, across, down, pen, ink = (2 * rng.uniform(10) - 1).tolist()
    turn *= 0.2
    matrix = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    matrix = matrix @ np.array([[5.0 + wide, 1.2 * lean], [0.0, 5.4 + 0.8 * high]])
    segments = []
    for stroke in _STROKES[digit]:
        points = np.array(stroke)
        curved = points + 0.12 * bend * np.sin(3 * points[:, ::-1] + math.pi * phase)
        moved = curved @ matrix.T + (SIDE - 1) / 2 + np.array([across, down])
        segments.append(np.concatenate([moved[:-1], moved[1:]], 1))
    distances = _compute_distances(np.concatenate(segments))
    coverage = np.clip(0.5 + (0.75 + 0.3 * pen) - distances, 0, 1)
    return np.asarray(np.rint((215 + 40 * ink) * coverage), dtype=np.uint8)


def _compute_distances(segments: Float[np.ndarray, "lines 4"]) -> Float[np.ndarray, "side side"]:
    """How far each pixel is from the nearest of some lines, which go from one point to another."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pixels = np.stack([columns.ravel(), rows.ravel()], 1)[:, None]
    begin, along = segments[:, :2], segments[:, 2:] - segments[:, :2]
    share = ((pixels - begin) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    nearest = begin + np.clip(share, 0, 1)[..., None] * along
    return np.asarray(np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(1).reshape(SIDE, SIDE))


def encode_idx(array: UInt8[np.ndarray, ...]) -> bytes:
    """Bytes along any axes as a file of IDX has them."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
