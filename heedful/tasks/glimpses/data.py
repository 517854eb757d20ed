"""Pictures with classes: readers of arrays and folders, and their encoding."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
from jaxtyping import Shaped, UInt8

from heedful.data.corpus import ArraySpec, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.pictures import list_picture_files, read_picture, resize_picture
from heedful.data.readers import ExampleReader
from heedful.errors import DataError

PictureShape: TypeAlias = tuple[int, int, int]
"""Channels, height and width."""
PixelArray: TypeAlias = UInt8[np.ndarray, "C H W"]
PictureSequence: TypeAlias = Sequence[PixelArray] | np.ndarray
"""Pictures of one shape, one after the other."""

_LUMA_WEIGHTS: Final = np.array([0.299, 0.587, 0.114])
"""How light red, green and blue are (ITU-R BT.601)."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_IDX_UNSIGNED_BYTE: Final = 8
"""Of IDX's types of numbers the one for unsigned bytes."""


@dataclass(frozen=True, eq=False)
class LabelledPicture:
    """A picture's pixels, its class, and the file or position that it comes from."""

    pixels: PixelArray
    label: str
    location: str

    @property
    def content_hash(self) -> int:
        """Hash of the pixels."""
        return hash_pixels(self.pixels)


def hash_pixels(pixels: PixelArray) -> int:
    """Return a hash of the pixels, so that random choices can depend on the picture alone."""
    return int.from_bytes(hashlib.blake2b(pixels.tobytes(), digest_size=8).digest(), "little")


class PictureReader(ExampleReader[LabelledPicture]):
    """Reader of labelled pictures, or of a slice of them.

    A slice is taken in the order of the pictures' hashes. So slices that do not overlap share no picture, not even one
    that occurs twice, and each has about the same class distribution.

    Abstract: each file format says how its pictures are read.

    Args:
        paths: the files.
        shape: required channels, height and width.
        start: number of pictures to skip, in hash order.
        stop: where to end in that order; None for the end.
    """

    def __init__(self, *paths: Path, shape: PictureShape, start: int = 0, stop: int | None = None) -> None:
        super().__init__(*paths)
        self.shape = shape
        self._start, self._stop = start, stop

    @abstractmethod
    def iter_pictures(self) -> Iterable[LabelledPicture]:
        """Iterate over all pictures in file order."""

    @final
    def __iter__(self) -> Iterator[LabelledPicture]:
        if self._start == 0 and self._stop is None:
            return iter(self.iter_pictures())
        pictures = sorted(self.iter_pictures(), key=lambda picture: picture.content_hash)
        stop = len(pictures) if self._stop is None else self._stop
        if not self._start < stop <= len(pictures):
            raise DataError(
                f"{self.paths[0]}: holds {len(pictures):,} pictures, but those from {self._start:,} to {stop:,} "
                "are requested; set start and stop to numbers that fit"
            )
        return iter(pictures[_skip_duplicates(pictures, self._start) : _skip_duplicates(pictures, stop)])


def _skip_duplicates(pictures: list[LabelledPicture], index: int) -> int:
    """Return the first index from `index` on at which the sorted pictures can be split without separating two identical
    ones.
    """
    while 0 < index < len(pictures) and pictures[index].content_hash == pictures[index - 1].content_hash:
        index += 1
    return index


@final
class IdxPictures(PictureReader):
    """Reader of two IDX files of bytes, one with pictures and one with class numbers; plain or gzipped."""

    def __init__(
        self, path: Path, *, labels: Path, shape: PictureShape, start: int = 0, stop: int | None = None
    ) -> None:
        super().__init__(path, labels, shape=shape, start=start, stop=stop)

    def iter_pictures(self) -> Iterator[LabelledPicture]:
        """Iterate over the pictures in file order; the location of each has its number, from 0."""
        images, labels = self.paths
        pictures, numbers = _read_idx(images, axes=(3, 4)), _read_idx(labels, axes=(1,))
        if len(pictures) != len(numbers):
            raise DataError(
                f"{images} has {len(pictures):,} pictures and {labels} {len(numbers):,} labels; name files that belong "
                "together"
            )
        # colours stand last in files
        pictures = pictures.transpose(0, 3, 1, 2) if pictures.ndim == 4 else pictures[:, None]
        _require_shape(pictures.shape[1:], self.shape, path=images)
        for number, (pixels, label) in enumerate(zip(pictures, numbers, strict=True)):
            yield LabelledPicture(pixels, str(label), f"{images}:{number}")


def _read_idx(path: Path, *, axes: tuple[int, ...]) -> UInt8[np.ndarray, ...]:
    """Read the array of an IDX file of bytes; raise `DataError` if its number of axes is not in `axes` or the file is
    damaged.
    """
    content = _read_bytes(path)
    try:
        zeros, kind, count = struct.unpack_from(">HBB", content)
        sides = struct.unpack_from(f">{count}I", content, 4)
    except struct.error:
        raise DataError(f"{path}: is too short for an IDX file; fetch it again or name another") from None
    if (zeros, kind) != (0, _IDX_UNSIGNED_BYTE) or count not in axes:
        expected = " or ".join(map(str, axes))
        raise DataError(
            f"{path}: begins with {content[:4].hex()}; it must be an IDX file with bytes along {expected} axes"
        )
    data = content[4 + 4 * count :]
    if len(data) != math.prod(sides):
        raise DataError(f"{path}: has {len(data):,} bytes, but declares {' x '.join(map(str, sides))}; fetch it again")
    return np.frombuffer(data, dtype=np.uint8).reshape(sides)


@final
class ByteFilePictures(PictureReader):
    """Reader of a folder with one file per class that holds the raw bytes of its pictures; plain or gzipped.

    A class is named after its file, up to the first full stop.
    """

    def __init__(self, path: Path, *, shape: PictureShape, start: int = 0, stop: int | None = None) -> None:
        super().__init__(*_list_entries(path, folders=False), shape=shape, start=start, stop=stop)

    def iter_pictures(self) -> Iterator[LabelledPicture]:
        """Iterate over the pictures, class by class."""
        size = math.prod(self.shape)
        for path in self.paths:
            content = _read_bytes(path)
            if not content or len(content) % size:
                raise DataError(
                    f"{path}: has {len(content):,} bytes, which is not a whole number of pictures of "
                    f"{' x '.join(map(str, self.shape))}; set data.channels, data.height and data.width"
                )
            pictures = np.frombuffer(content, dtype=np.uint8).reshape(-1, *self.shape)
            for number, pixels in enumerate(pictures):
                yield LabelledPicture(pixels, path.name.partition(".")[0], f"{path}:{number}")


@final
class FolderPictures(PictureReader):
    """Reader of a folder with one folder of picture files per class; pictures are resized to the recipe's shape."""

    def __init__(self, path: Path, *, shape: PictureShape, start: int = 0, stop: int | None = None) -> None:
        files = [file for folder in _list_entries(path, folders=True) for file in list_picture_files(folder)]
        super().__init__(*files, shape=shape, start=start, stop=stop)

    def iter_pictures(self) -> Iterator[LabelledPicture]:
        """Iterate over the pictures, class by class."""
        for path in self.paths:
            yield LabelledPicture(fit_picture_to_shape(read_picture(path), self.shape), path.parent.name, str(path))


def fit_picture_to_shape(picture: Shaped[np.ndarray, "rows columns 3"], shape: PictureShape) -> PixelArray:
    """Resize a decoded picture to a shape, and convert it to grey if the shape has one channel."""
    channels, height, width = shape
    if picture.shape[:2] != (height, width):
        picture = resize_picture(picture, height, width)
    if channels == 1:
        picture = np.rint(picture @ _LUMA_WEIGHTS).astype(np.uint8)[..., None]
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


def _list_entries(folder: Path, *, folders: bool) -> list[Path]:
    """Return the sorted files of a folder, or its subfolders if `folders`; raise `DataError` if there are none."""
    try:
        entries = sorted(path for path in folder.iterdir() if path.is_dir() == folders and path.name[0] != ".")
    except OSError as error:
        raise DataError(f"{folder}: is not a folder that can be read ({error.strerror}); check the path") from None
    if not entries:
        raise DataError(f"{folder}: has no {'folders' if folders else 'files'}, one for each class; check the path")
    return entries


def _read_bytes(path: Path) -> bytes:
    """Read a file, decompressing it if it is gzipped."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path and its rights") from None


def _require_shape(actual: tuple[int, ...], expected: PictureShape, *, path: Path) -> None:
    """Raise `DataError` if the shape of the pictures in a file is not the expected one."""
    if actual != expected:
        raise DataError(
            f"{path}: has pictures of {' x '.join(map(str, actual))} (channels, height, width), but the recipe says "
            f"{' x '.join(map(str, expected))}; set data.channels, data.height and data.width"
        )


def build_picture_encoding(labels: LabelVocabulary, shape: PictureShape) -> ExampleEncoder[LabelledPicture]:
    """Return the encoding of pictures of a shape as their pixels and class numbers; a class that is not in `labels` is
    a `DataError`.
    """

    def encode(picture: LabelledPicture) -> tuple[np.ndarray, list[int]]:
        """Return the pixels and the class number of a picture."""
        label = labels.get_id(picture.label)
        if label is None:
            raise DataError(
                f"{picture.location}: class {picture.label!r} is not among those of data.train "
                f"({', '.join(labels.names[:8])}); add training pictures of it, or remove this one"
            )
        return picture.pixels[None], [label]

    return ExampleEncoder({"pictures": ArraySpec("|u1", shape), "labels": labels.size}, encode)
