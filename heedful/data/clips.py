"""Clips: video files, folders of numbered pictures and arrays, as a few frames that are even in time.

One policy for all: of a clip with more frames than are wanted, those are taken that are shown in the middle of as many
equal parts of its time, whatever the rate of its frames is; shorter clips are taken whole. PyAV decodes video files
(the extra `[video]`), turned as they want to be shown; nothing that a file names elsewhere is opened.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from heedful.data.pictures import LARGEST, Framing, Picture, picture_files, read_picture
from heedful.errors import DataError, MissingExtraError

Frames: TypeAlias = UInt8[np.ndarray, "T size size 3"]

FEATURES: Final = "features"
"""The tensor of a safetensors file that holds what others made of the frames of a clip."""
_FRAMES: Final = "frames"
_FORMATS: Final = "mov,mp4,matroska,webm,avi,gif,mpeg,mpegts,mpegvideo,m4v,h264,flv,ogg,asf"
_ROUNDING: Final = 1e-6
"""Of a part of a clip: a frame that begins in its middle is taken, whichever way times are rounded."""
_BYTES: Final = 2**31
"""Of the frames in one array."""
_BYTES_A_PIXEL: Final = 96
"""Memory to decode a video: 17 frames of reference of H.264 at 3 bytes, and the copies that make one frame a square."""
_DAMAGED: Final = (OSError, ValueError, EOFError, KeyError, TypeError, OverflowError, RuntimeError, struct.error,
                   zipfile.BadZipFile, zlib.error, MemoryError)  # fmt: skip


@dataclass(frozen=True)
class Clip:
    """Some frames of a clip, in their order.

    Attributes:
        frames: uint8 [T, size, size, 3], or what was made of each, float32 [T, d].
        numbers: of each among all frames of the clip, from 0.
    """

    frames: Shaped[np.ndarray, "T ..."]
    numbers: Int[np.ndarray, " T"]


def read_clip(path: Path, *, framing: Framing, most: int) -> Clip:
    """At most so many frames of a clip, each framed.

    Args:
        path: of a video file; of a folder of pictures with numbers in their names; or of an `.npz` file with `frames`,
            uint8 [T, H, W, 3].
        framing: how frames become squares.
        most: frames that are taken.

    Raises:
        DataError: there is no such clip, it is damaged, or it has no frames.
        MissingExtraError: PyAV or Pillow is not installed.
    """
    if path.is_dir():
        files = sorted(picture_files(path), key=lambda file: (_number(file), file.name))
        numbers = evenly(range(len(files)), most)
        return Clip(np.stack([framing(read_picture(files[number])) for number in numbers]), numbers)
    _require_clip(path)
    if path.suffix.lower() == ".npz":
        array = _array(path)
        numbers = evenly(range(len(array)), most)
        return Clip(np.stack([framing(array[number]) for number in numbers]), numbers)
    return _video(path, framing, most)


def read_features(path: Path, *, width: int, most: int) -> Clip:
    """What others made of a clip's frames: at most so many rows of `features` [T, width] of a safetensors file.

    Raises:
        DataError: there is no such file, or it does not hold that.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if path.is_dir():
        raise DataError(f"{path}: a folder of pictures, where features are read; name a safetensors file")
    _require_clip(path)
    try:
        features = load_file(path)[FEATURES]
    except KeyError:
        raise DataError(
            f"{path}: has no tensor {FEATURES!r}; write what was made of the frames under this name"
        ) from None
    except (SafetensorError, *_DAMAGED) as error:
        raise DataError(f"{path}: no safetensors file that can be read ({error}); write it anew") from None
    if features.ndim != 2 or features.shape[1] != width or not len(features):
        raise DataError(f"{path}: features of shape {features.shape}; each frame needs data.features = {width} numbers")
    if not np.isfinite(features := features.astype(np.float32)).all():
        raise DataError(f"{path}: features that are no finite numbers; write it anew")
    numbers = evenly(range(len(features)), most)
    return Clip(features[numbers], numbers)


def evenly(times: Sequence[float], most: int) -> Int[np.ndarray, " T"]:
    """Which of the frames that are first shown at these times are taken; one that is shown for long may be several.

    Args:
        times: of all frames, in their order; at least one.
        most: frames that are taken, at most.
    """
    if len(times) <= most:
        return np.arange(len(times))
    shown = np.maximum.accumulate(np.asarray(times, dtype=np.float64))
    end = shown[-1] + np.median(np.diff(shown))
    middles = shown[0] + (np.arange(most) + 0.5 + _ROUNDING) * ((end - shown[0]) / most)
    taken: Int[np.ndarray, " T"] = np.searchsorted(shown, middles, side="right") - 1
    return taken


def unpacked_size(path: Path) -> int:
    """Bytes that the frames in a file would have as pixels, all of them; they are counted, and not decoded.

    Raises:
        DataError: the file is damaged.
        MissingExtraError: it is a video, and PyAV is not installed.
    """
    _require_clip(path)
    if path.suffix.lower() == ".npz":
        return _array_size(path)
    opening = _pyav()
    try:
        with _opened(opening, path) as container:
            stream = _pictures(container, path)
            size: int = 3 * stream.width * stream.height
            return size * sum(1 for packet in container.demux(stream) if packet.size)
    except (opening.FFmpegError, *_DAMAGED) as error:
        raise _unknown(path, error) from None


def decoding_memory(path: Path) -> int:
    """Estimate the bytes of memory that it takes to read a clip, at most; only the header of the file is read.

    Of a video, decoders keep some frames of several bytes a pixel, from which others are predicted, and one frame is
    converted and framed at a time. An array of frames is read whole.

    Raises:
        DataError: the file is damaged.
        MissingExtraError: it is a video, and PyAV is not installed.
    """
    _require_clip(path)
    if path.suffix.lower() == ".npz":
        return 2 * _array_size(path)
    opening = _pyav()
    try:
        with _opened(opening, path) as container:
            stream = _pictures(container, path)
            return _BYTES_A_PIXEL * int(stream.width) * int(stream.height)
    except (opening.FFmpegError, *_DAMAGED) as error:
        raise _unknown(path, error) from None


def _require_clip(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: there is no such clip; check the path")
    if not path.stat().st_size:
        raise DataError(f"{path}: an empty file; fetch the clip again or remove it")


def _number(file: Path) -> int:
    numbers = re.findall(r"\d+", file.stem)
    if not numbers:
        raise DataError(f"{file}: a frame without a number in its name; number the frames of a clip, or remove it")
    return int(numbers[-1])


def _array_size(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.getinfo(f"{_FRAMES}.npy").file_size
    except _DAMAGED as error:
        raise _no_array(path, error) from None


def _no_array(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: no array {_FRAMES!r} that can be read ({error}); write the clip anew")


def _array(path: Path) -> UInt8[np.ndarray, "T H W 3"]:
    if _array_size(path) > _BYTES:
        raise DataError(f"{path}: more than {_BYTES:,} bytes of frames; cut the clip")
    try:
        with np.load(path, allow_pickle=False) as file:
            frames: np.ndarray = file[_FRAMES]
    except _DAMAGED as error:
        raise _no_array(path, error) from None
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or 0 in frames.shape:
        raise DataError(f"{path}: frames of {frames.dtype} and shape {frames.shape}; write uint8 [T, H, W, 3]")
    return frames


def _video(path: Path, framing: Framing, most: int) -> Clip:
    """Two passes: when frames are shown, then those that are taken, so that a long video needs no more memory."""
    opening = _pyav()
    try:
        times = [number if frame.time is None else frame.time for number, frame in enumerate(_decoded(opening, path))]
        if not times:
            raise DataError(f"{path}: a video without frames; fetch it again or remove it")
        numbers = evenly(times, most)
        wanted = set(numbers.tolist())
        taken = {
            number: framing(_upright(frame)) for number, frame in enumerate(_decoded(opening, path)) if number in wanted
        }
    except (opening.FFmpegError, *_DAMAGED) as error:
        raise _unknown(path, error) from None
    return Clip(np.stack([taken[number] for number in numbers.tolist()]), numbers)


def _decoded(opening: ModuleType, path: Path) -> Iterator[Any]:
    """The frames of a video, in the order in which they are shown."""
    with _opened(opening, path) as container:
        yield from container.decode(_pictures(container, path))


def _opened(opening: ModuleType, path: Path) -> Any:
    return opening.open(str(path), options={"protocol_whitelist": "file", "format_whitelist": _FORMATS})


def _pictures(container: Any, path: Path) -> Any:
    """The stream of them."""
    if not container.streams.video:
        raise DataError(f"{path}: no pictures in it; give a video")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise DataError(f"{path}: a damaged video, or one that nothing here decodes; fetch it again or convert it")
    if stream.width * stream.height > LARGEST:
        raise DataError(f"{path}: frames of more than {LARGEST:,} pixels; make it smaller")
    return stream


def _unknown(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: damaged, or no video that is known ({error}); fetch it again or remove it")


def _upright(frame: Any) -> Picture:
    """Red, green and blue, turned as the file wants it shown: counter-clockwise."""
    colours: Picture = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(colours, round(frame.rotation / 90)))


def _pyav() -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError('videos are decoded by PyAV: pip install "heedful[video]"') from error
    return av
