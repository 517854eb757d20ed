"""Digits drawn by rule: strokes of a pen, each time bent, leaned and sized by chance; nothing is fetched."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, UInt8

from heedful.data.chance import Chance
from heedful.errors import RecipeError
from heedful.tasks.glimpses.data import picture_key

SIDE: Final = 16
"""Pixels along a side of each."""
_TRIES: Final = 4
"""Digits that are drawn for each that is wanted, at most: few come out the same."""

Line = list[tuple[float, float]]


def _arc(x: float, y: float, across: float, down: float, *turn: int) -> Line:
    """A part of an ellipse, from one angle to another, in degrees clockwise from the right."""
    begin, end = turn
    angles = np.radians(np.linspace(begin, end, 2 + abs(end - begin) // 30))
    return [(x + across * math.cos(angle), y + down * math.sin(angle)) for angle in angles]


_STROKES: Final[Mapping[str, list[Line]]] = {
    "0": [_arc(0, 0, 0.6, 1, 0, 360)],
    "1": [[(-0.35, -0.6), (0.1, -1), (0.1, 1)]],
    "2": [[*_arc(0, -0.45, 0.58, 0.55, 190, 395), (-0.6, 1), (0.65, 1)]],
    "3": [[*_arc(0, -0.5, 0.5, 0.5, 210, 450), *_arc(0, 0.5, 0.6, 0.5, 270, 510)]],
    "4": [[(0.3, 1), (0.3, -1), (-0.6, 0.35), (0.7, 0.35)]],
    "5": [[(0.55, -1), (-0.45, -1), (-0.5, -0.15), *_arc(-0.02, 0.37, 0.6, 0.63, 235, 500)]],
    "6": [[(0.4, -1), *_arc(0.05, 0.4, 0.65, 0.6, 190, -170)]],
    "7": [[(-0.6, -1), (0.6, -1), (-0.1, 1)]],
    "8": [_arc(0, -0.5, 0.48, 0.48, 0, 360), _arc(0, 0.48, 0.6, 0.52, 0, 360)],
    "9": [[*_arc(0, -0.42, 0.58, 0.56, 0, -360), (0.5, 0.3), (0.2, 1)]],
}


@dataclass(frozen=True)
class Digit:
    """A drawn digit and which one it is."""

    pixels: UInt8[np.ndarray, "1 side side"]
    label: int


def digits(count: int, *, seed: int) -> Iterator[Digit]:
    """Digits of which no two look the same; each of the ten as often as the others.

    Raises:
        RecipeError: not as many can be told apart.
    """
    seen: set[int] = set()
    for number in range(_TRIES * count):
        if len(seen) == count:
            return
        pixels = drawn(str(number % 10), Chance(seed, number))[None]
        if (key := picture_key(pixels)) not in seen:
            seen.add(key)
            yield Digit(pixels, number % 10)
    if len(seen) < count:
        raise RecipeError(f"{count:,} digits: only {len(seen):,} that differ could be drawn; ask for fewer")


def drawn(digit: str, chance: Chance) -> UInt8[np.ndarray, "side side"]:
    """A digit as a pen would write it that is decided by chance."""
    lean, turn, wide, high, bend, phase, across, down, pen, ink = (2 * chance.uniform(10) - 1).tolist()
    turn *= 0.2
    matrix = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    matrix = matrix @ np.array([[5.0 + wide, 1.2 * lean], [0.0, 5.4 + 0.8 * high]])
    ends = []
    for stroke in _STROKES[digit]:
        points = np.array(stroke)
        bent = points + 0.12 * bend * np.sin(3 * points[:, ::-1] + math.pi * phase)
        placed = bent @ matrix.T + (SIDE - 1) / 2 + np.array([across, down])
        ends.append(np.concatenate([placed[:-1], placed[1:]], 1))
    away = _distances(np.concatenate(ends))
    covered = np.clip(0.5 + (0.75 + 0.3 * pen) - away, 0, 1)
    return np.asarray(np.rint((215 + 40 * ink) * covered), dtype=np.uint8)


def _distances(ends: Float[np.ndarray, "lines 4"]) -> Float[np.ndarray, "side side"]:
    """How far each pixel is from the nearest of some lines, which go from one point to another."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pixels = np.stack([columns.ravel(), rows.ravel()], 1)[:, None]
    begin, along = ends[:, :2], ends[:, 2:] - ends[:, :2]
    share = ((pixels - begin) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    nearest = begin + np.clip(share, 0, 1)[..., None] * along
    return np.asarray(np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(1).reshape(SIDE, SIDE))


def idx(array: UInt8[np.ndarray, ...]) -> bytes:
    """Bytes along any axes as a file of IDX has them."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
