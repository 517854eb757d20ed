"""Small pictures of many cells as one image inside an SVG, where a shape for each cell would be too much."""

from __future__ import annotations

import base64
import math
import struct
import zlib

import numpy as np
from jaxtyping import UInt8

from heedful.inspection.scales import Number

_FINENESS, _MOST = 1.5, 1024
"""Cells are repeated up to so many pixels for each one of the picture, and at most so many along a side, because
programs that make PDF smooth what they enlarge."""


def png(pixels: UInt8[np.ndarray, "H W 3"]) -> bytes:
    """The file of a picture in red, green and blue (PNG, W3C 2003: no filter, one block of data)."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def image(
    pixels: UInt8[np.ndarray, "H W 3"], *, width: Number, height: Number, x: Number = 0, y: Number = 0, tip: str = ""
) -> str:
    """An SVG element that shows each pixel as a cell with sharp edges; `tip` is escaped already."""
    down, across = (_times(count, size) for count, size in zip(pixels.shape[:2], (height, width), strict=True))
    large = pixels.repeat(down, 0).repeat(across, 1)
    data = base64.b64encode(png(large)).decode("ascii")
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'image-rendering="pixelated" href="data:image/png;base64,{data}">{f"<title>{tip}</title>" if tip else ""}'
        "</image>"
    )


def _times(count: int, size: Number) -> int:
    """How often to repeat so many cells on so many pixels of the picture."""
    return max(1, min(math.ceil(_FINENESS * size / count), _MOST // count))
