"""Common parts of all pictures: SVG files, style for light and dark mode, embedded images, and tokens as visible
text.
"""

from __future__ import annotations

import base64
import math
import struct
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import UInt8

Number = int | float

_FONT = (
    "ui-sans-serif,system-ui,'Segoe UI','Noto Sans','Helvetica Neue',Arial,'Liberation Sans','DejaVu Sans',sans-serif"
)
"""The system's own font if it is known, else the most common ones, because programs that make PDF need names."""

_PAPER, _INK = ("#fff", "#16171c"), ("#24262d", "#e4e6ec")
"""In light and in dark."""

_PIXELS_PER_UNIT, _MAX_IMAGE_SIDE = 1.5, 1024
"""Pixels to which a cell is enlarged, for each unit of the picture, and most pixels of a side. Programs that make PDF
smooth what they enlarge, so cells are enlarged before."""


@dataclass(frozen=True)
class SvgStyle:
    """Style of a kind of SVG pictures: CSS class, colours of faint text, and extra rules, for light and dark mode."""

    css_class: str
    faint_colours: tuple[str, str]
    extra_rules: tuple[str, str] = ("", "")

    def render_svg(
        self, parts: Sequence[str], *, name: str, box: tuple[Number, Number, Number, Number], font: Number | str
    ) -> str:
        """Return a complete SVG file of the elements `parts`; it loads nothing from anywhere. `name` is the title,
        which screen readers read; `box` is x and y of the upper left corner, width and height; `font` is the default
        font size.

        Args:
            parts: SVG elements.
            name: the accessible name; already escaped.
            box: x and y of the upper left corner, width and height.
            font: default font size.
        """
        selector = f".{self.css_class}"
        x, y, width, height = (f"{number:.0f}" for number in box)
        light, dark = (
            f"{selector} .paper{{fill:{paper}}}{selector} text{{fill:{ink}}}{selector} .faint{{fill:{faint}}}{rules}"
            for paper, ink, faint, rules in zip(_PAPER, _INK, self.faint_colours, self.extra_rules, strict=True)
        )
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{self.css_class}" role="img" aria-label="{name}" '
            f'viewBox="{x} {y} {width} {height}" width="{width}" height="{height}" font-size="{font}">',
            f"<title>{name}</title>",
            f"<style>{selector}{{max-width:100%;height:auto;background:{_PAPER[0]};font-family:{_FONT}}}{light}"
            f"@media (prefers-color-scheme:dark){{{selector}{{background:{_PAPER[1]}}}{dark}}}</style>",
            f'<rect class="paper" x="{x}" y="{y}" width="{width}" height="{height}"/>',
        ]
        return "\n".join([*head, *parts, "</svg>"]) + "\n"


def encode_png(pixels: UInt8[np.ndarray, "H W 3"], *, photograph: bool = False) -> bytes:
    """Encode an RGB picture as a PNG file with one data block. A photograph is stored as differences from the pixel to
    the left (filter 1), which compress better.
    """
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = np.full((height, 1 + 3 * width), int(photograph), np.uint8)
    filtered = np.diff(pixels, axis=1, prepend=np.uint8(0)) if photograph else pixels
    rows[:, 1:] = filtered.reshape(height, -1)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6 if photograph else 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_build_chunk(name, data) for name, data in chunks)


def _build_chunk(name: bytes, data: bytes) -> bytes:
    """Return a PNG chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def make_png_url(pixels: UInt8[np.ndarray, "H W 3"], *, photograph: bool = False) -> str:
    """Return the picture as a PNG data URL."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels, photograph=photograph)).decode('ascii')}"


def make_photo_url(pixels: UInt8[np.ndarray, "H W 3"], *, longest: int) -> str:
    """Return a photograph as a data URL, reduced by averaging to at most `longest` pixels per side."""
    means = pixels.astype(np.float64)
    for axis in (0, 1):
        side = means.shape[axis]
        starts = np.arange(0, side, -(-side // longest))
        counts = np.diff(starts, append=side)
        means = np.add.reduceat(means, starts, axis) / np.expand_dims(counts, (1, 2) if axis == 0 else (0, 2))
    return make_png_url(np.rint(means).astype(np.uint8), photograph=True)


def draw_image(
    pixels: UInt8[np.ndarray, "H W 3"], *, width: Number, height: Number, x: Number = 0, y: Number = 0, tip: str = ""
) -> str:
    """Return an SVG image at (x, y) that shows each pixel as a cell with sharp edges; `tip` is an escaped tooltip."""
    down, across = (_count_repeats(count, size) for count, size in zip(pixels.shape[:2], (height, width), strict=True))
    large = pixels.repeat(down, 0).repeat(across, 1)
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'image-rendering="pixelated" href="{make_png_url(large)}">{f"<title>{tip}</title>" if tip else ""}'
        "</image>"
    )


def _count_repeats(count: int, size: Number) -> int:
    """Return how often to repeat `count` cells so that they stay sharp at a size in pixels."""
    return max(1, min(math.ceil(_PIXELS_PER_UNIT * size / count), _MAX_IMAGE_SIDE // count))


def make_visible(token: str) -> str:
    """Replace every character that would not show, or that XML or a terminal cannot hold, by a visible sign."""
    if token and not token.strip(" "):
        return "␣" * len(token)
    return "".join(map(_replace_invisible, token)) or "∅"


def _replace_invisible(character: str) -> str:
    """Return the character, or a visible sign in its place if it would not show."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    joins = character in "\u200c\u200d"  # Persian words and emoji need them
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and not joins:
        return f"[U+{code:04X}]"
    return character


def escape_svg_label(token: str, *, longest: int = 24) -> str:
    """Escape an already visible token as SVG text, cut to `longest` columns."""
    return escape(shorten_text(token, longest))


def shorten_text(token: str, width: int) -> str:
    """Cut a text to at most `width` terminal columns; the last one is an ellipsis if something is missing."""
    if measure_columns(token) <= width:
        return token
    prefix = ""
    for letter in split_graphemes(token):
        if measure_columns(prefix + letter) >= width:
            break
        prefix += letter
    return prefix + "…"


def split_graphemes(text: str) -> list[str]:
    """Split a text into characters, each with its combining marks."""
    graphemes: list[str] = []
    for character in text:
        if graphemes and measure_columns(character) == 0:
            graphemes[-1] += character
        else:
            graphemes.append(character)
    return graphemes


def measure_columns(text: str) -> int:
    """Return the terminal columns of a text: two for wide East Asian characters, none for combining marks."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
