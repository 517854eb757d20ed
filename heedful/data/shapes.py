"""Simple shapes and colours for generated pictures and clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
from jaxtyping import Float

PixelGrid: TypeAlias = Float[np.ndarray, "size size"]

COLOURS: Final[Mapping[str, tuple[int, int, int]]] = {
    "red": (220, 40, 40),
    "green": (40, 190, 60),
    "blue": (50, 90, 235),
    "yellow": (235, 215, 50),
    "purple": (165, 60, 200),
    "white": (240, 240, 240),
}


def _cross_distance(x: PixelGrid, y: PixelGrid, r: float) -> PixelGrid:
    """Return the distance of each point from the edge of a cross, negative inside."""
    horizontal, vertical = (np.maximum(abs(a) - r, abs(b) - 0.36 * r) for a, b in ((x, y), (y, x)))
    return np.asarray(np.minimum(horizontal, vertical))


SHAPES: Final[Mapping[str, Callable[[PixelGrid, PixelGrid, float], PixelGrid]]] = {
    "circle": lambda x, y, r: np.hypot(x, y) - r,
    "square": lambda x, y, r: np.maximum(abs(x), abs(y)) - 0.88 * r,
    "diamond": lambda x, y, r: (abs(x) + abs(y) - 1.1 * r) / np.sqrt(2),
    "triangle": lambda x, y, r: np.maximum(0.87 * abs(x) - 0.5 * y, y) - 0.6 * r,
    "cross": _cross_distance,
}
"""Signed distance functions: distance from the edge in pixels, negative inside, of a shape of radius r around the
origin."""
