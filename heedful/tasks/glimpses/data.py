"""Pictures with classes: readers of arrays and folders, their encoding, and the scenes that models see of them.

Scenes and random numbers are determined by seeds and pictures alone. A scene is a picture unchanged, or placed on a
larger canvas with clutter.
"""

from __future__ import annotations

import hashlib
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor
from torch.nn import functional

from heedful.compression import read_decompressed
from heedful.data.corpus import ArraySpec, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.pictures import Resampling, list_picture_files, read_picture, resize_picture
from heedful.data.random_numbers import SeededRandom
from heedful.data.readers import ExampleReader
from heedful.errors import DataError
from heedful.models.picture_classifier import GlimpseTrace, PictureClassifier

PictureShape: TypeAlias = tuple[int, int, int]
"""Channels, height and width."""
PixelArray: TypeAlias = UInt8[np.ndarray, "C H W"]
PictureSequence: TypeAlias = Sequence[PixelArray] | np.ndarray
"""Pictures of one shape, one after the other."""

_LUMA_WEIGHTS: Final = np.array([0.299, 0.587, 0.114])
"""How light red, green and blue are (ITU-R BT.601)."""
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
    """Reader of two IDX files of bytes, one with pictures and one with class numbers; plain or compressed."""

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
    content = read_decompressed(path)
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
    """Reader of a folder with one file per class that holds the raw bytes of its pictures; plain or compressed.

    A class is named after its file, up to the first full stop.
    """

    def __init__(self, path: Path, *, shape: PictureShape, start: int = 0, stop: int | None = None) -> None:
        super().__init__(*_list_entries(path, folders=False), shape=shape, start=start, stop=stop)

    def iter_pictures(self) -> Iterator[LabelledPicture]:
        """Iterate over the pictures, class by class."""
        size = math.prod(self.shape)
        for path in self.paths:
            content = read_decompressed(path)
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


def fit_picture_to_shape(
    picture: Shaped[np.ndarray, "rows columns 3"], shape: PictureShape, *, resampling: Resampling = "bicubic"
) -> PixelArray:
    """Resize a decoded picture to a shape with a filter, and convert it to grey if the shape has one channel."""
    channels, height, width = shape
    if picture.shape[:2] != (height, width):
        picture = resize_picture(picture, height, width, resampling=resampling)
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
