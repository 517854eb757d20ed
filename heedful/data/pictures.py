"""Pictures: read into arrays and batches, and simple shapes of which pictures are generated."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias

import numpy as np
from jaxtyping import Float, UInt8

from heedful.errors import DataError, MissingExtraError
from heedful.files import is_file

if TYPE_CHECKING:
    from PIL import Image


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
    """Return the distance of each point (x, y) from the edge of a cross of radius `r` around the origin, negative
    inside.
    """
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


Picture: TypeAlias = UInt8[np.ndarray, "H W 3"]

Resampling: TypeAlias = Literal["nearest", "bilinear", "bicubic", "lanczos"]
"""Filter of a picture that is resized."""

PICTURE_SUFFIXES: Final = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Suffixes of the names of picture files."""
MAX_PIXELS: Final = 2**26
"""Largest number of pixels; a file of a few bytes may claim any number and must not fill the memory."""

_BYTES_PER_PIXEL: Final = 32
"""Memory to decode a picture and convert it to RGB, in bytes a pixel."""
_FORMATS: Final = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_SIXTEEN_BIT_MODES: Final = ("I;16", "I;16B", "I;16L", "I;16N")
_DECODING_ERRORS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
    MemoryError,
)


def read_picture(path: Path) -> Picture:
    """Read the picture in a file as RGB: turned as its EXIF data say, with white behind transparent pixels, and 16-bit
    grey cut to 8 bits.

    Raises:
        DataError: the file does not exist, is damaged or no picture, or has more than `MAX_PIXELS` pixels.
        MissingExtraError: Pillow is not installed.
    """
    import_pillow()
    if not is_file(path):
        raise DataError(f"{path}: there is no such picture; check the path")
    return decode_picture(path, name=str(path))


def decode_picture(source: Path | BinaryIO, *, name: str, max_pixels: int = MAX_PIXELS) -> Picture:
    """Decode a picture from a file or a stream as RGB, as `read_picture` does; `name` identifies it in messages.

    Raises:
        DataError: it is damaged or no picture, or has more than `max_pixels` pixels.
        MissingExtraError: Pillow is not installed.
    """
    with _open_image(source, name=name, max_pixels=max_pixels) as image:
        return _decode_rgb(image)


def read_pixel_count(source: Path | BinaryIO, *, name: str, max_pixels: int = MAX_PIXELS) -> int:
    """Return the number of pixels in the picture's header without decoding it; raises like `decode_picture`."""
    with _open_image(source, name=name, max_pixels=max_pixels) as image:
        return image.width * image.height


def estimate_picture_memory(num_pixels: int) -> int:
    """Estimate the most bytes of memory that `decode_picture` needs for a number of pixels.

    Measured with pictures of 16 million pixels: 12 bytes a pixel for grey, 18 for JPEG and PNG, 22 with transparency or
    progressive JPEG, and 30 for WebP with transparency.
    """
    return _BYTES_PER_PIXEL * num_pixels


@contextmanager
def _open_image(source: Path | BinaryIO, *, name: str, max_pixels: int) -> Iterator[Image.Image]:
    """Open a picture from a file or a stream, and check that it has at most `max_pixels` pixels; errors here, and while
    it is decoded in the block, become `DataError` with the name.
    """
    image_module = import_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about problems that are corrected or rejected below
            with image_module.open(source, formats=_FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise image_module.DecompressionBombError
                yield image
    except image_module.DecompressionBombError:
        raise DataError(f"{name}: has more than {max_pixels:,} pixels; make it smaller") from None
    except image_module.UnidentifiedImageError:
        raise DataError(
            f"{name}: is not a picture in one of the formats {', '.join(_FORMATS)}; convert or remove it"
        ) from None
    except _DECODING_ERRORS as error:
        raise DataError(f"{name}: is a damaged picture ({error}); fetch it again or remove it") from None


@dataclass(frozen=True)
class SquareResize:
    """Resizes pictures of any size to squares of one size.

    Attributes:
        size: pixels along each side.
        fit: how a picture that is not square is made square: its middle is kept ("crop"), it is stretched ("stretch"),
            or grey is added at its sides ("pad").
    """

    size: int
    fit: Literal["crop", "stretch", "pad"] = "crop"

    def __call__(self, picture: Picture) -> UInt8[np.ndarray, "size size 3"]:
        """Resize a picture to a square; a picture of the right size is returned unchanged, without Pillow."""
        height, width = picture.shape[:2]
        if (height, width) == (self.size, self.size):
            return picture
        match self.fit:
            case "crop":
                side = min(height, width)
                top, left = (height - side) // 2, (width - side) // 2
                return resize_picture(picture[top : top + side, left : left + side], self.size, self.size)
            case "stretch":
                return resize_picture(picture, self.size, self.size)
            case "pad":
                scale = self.size / max(height, width)
                inner = resize_picture(picture, max(1, round(height * scale)), max(1, round(width * scale)))
                square = np.full((self.size, self.size, 3), 128, dtype=np.uint8)
                top, left = (self.size - inner.shape[0]) // 2, (self.size - inner.shape[1]) // 2
                square[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
                return square

    def map_point(self, x: float, y: float, *, height: int, width: int) -> tuple[float, float]:
        """Map the point (x, y) of a picture of this height and width in pixels to the square, where coordinates go from
        0 to 1; they lie outside if the point was cropped away.
        """
        across, down = {
            "crop": (min(height, width), min(height, width)),
            "stretch": (width, height),
            "pad": (max(height, width), max(height, width)),
        }[self.fit]
        return (x - (width - across) / 2) / across, (y - (height - down) / 2) / down


def resize_picture(
    picture: Picture, rows: int, columns: int, *, resampling: Resampling = "bicubic"
) -> UInt8[np.ndarray, "rows columns 3"]:
    """Resize a picture with a filter, which all but "nearest" make wide enough to average when the picture becomes
    smaller.
    """
    image_module = import_pillow()
    image = image_module.fromarray(picture).resize((columns, rows), image_module.Resampling[resampling.upper()])
    return np.array(image)


def list_picture_files(folder: Path) -> list[Path]:
    """Return the picture files in a folder, sorted by name.

    Raises:
        DataError: the folder does not exist, or holds no pictures.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file())
    except OSError as error:
        raise DataError(f"{folder}: is not a folder of pictures ({error.strerror}); check the path") from None
    if not paths:
        raise DataError(f"{folder}: holds no pictures ({', '.join(sorted(PICTURE_SUFFIXES))}); check the path")
    return paths


def encode_png(picture: Picture) -> bytes:
    """Encode a picture as the contents of a PNG file."""

    def build_chunk(name: bytes, content: bytes) -> bytes:
        """Build one chunk of a PNG file."""
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    height, width = picture.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), picture.reshape(height, -1)], 1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(build_chunk(name, content) for name, content in parts)


def _decode_rgb(image: Image.Image) -> Picture:
    """Decode an open image into RGB bytes, turned as its EXIF data say and with white behind transparent pixels; raise
    `ValueError` if its colours are unknown.
    """
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)  # decodes: a file that is cut off shows here
    if image.mode in _SIXTEEN_BIT_MODES:
        grey = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixels have mode {image.mode}, whose colours are unknown")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = import_pillow().new("RGBA", image.size, "white")
        image = import_pillow().alpha_composite(white, image)
    return np.array(image.convert("RGB"))


def import_pillow() -> ModuleType:
    """Import Pillow's `Image` module; raise `MissingExtraError` if it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError('pictures are decoded by Pillow: pip install "heedful[pictures]"') from error
    return Image
