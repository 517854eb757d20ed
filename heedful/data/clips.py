"""Read video files, folders of numbered pictures and arrays as a few frames that are evenly spaced in time.

One policy for all: if a clip has more frames than wanted, its duration is divided into equal parts and the frame shown
in the middle of each part is taken, whatever the frame rate; shorter clips are taken whole. PyAV decodes video files
(the extra `[video]`) and applies their rotation; references to other files inside a file are never opened.
"""

from __future__ import annotations

import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from heedful.data.pictures import MAX_PIXELS, Picture, SquareResize, list_picture_files, read_picture
from heedful.errors import DataError, MissingExtraError
from heedful.files import is_file, is_folder

Frames: TypeAlias = UInt8[np.ndarray, "T size size 3"]

FEATURES_TENSOR: Final = "features"
"""Name of the safetensors tensor with precomputed features of the frames of a clip."""
_FRAMES_KEY: Final = "frames"
_VIDEO_FORMATS: Final = "mov,mp4,matroska,webm,avi,gif,mpeg,mpegts,mpegvideo,m4v,h264,flv,ogg,asf"
_ROUNDING_TOLERANCE: Final = 1e-6
"""Fraction of a part of the clip: a frame that begins exactly in the middle of a part is taken, however times are
rounded."""
_MAX_ARRAY_BYTES: Final = 2**31
"""Largest size of the frames in one array, in bytes."""
_BYTES_PER_PIXEL: Final = 96
"""Memory to decode a video, in bytes a pixel: 17 reference frames of H.264 at 3 bytes, and the copies needed to make
one frame square."""
_DECODING_ERRORS: Final = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    OverflowError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    MemoryError,
)


@dataclass(frozen=True)
class Clip:
    """Some frames of a clip, or features of them, in order.

    Attributes:
        frames: uint8 [T, size, size, 3], or one feature vector for each frame, float32 [T, d].
        frame_indices: index of each frame among all frames of the clip, from 0.
    """

    frames: Shaped[np.ndarray, "T ..."]
    frame_indices: Int[np.ndarray, " T"]


def read_clip(path: Path, *, resize: SquareResize, max_frames: int) -> Clip:
    """Read at most `max_frames` evenly spaced frames of a clip, each resized to a square.

    Args:
        path: a video file; a folder of pictures with numbers in their names; or an `.npz` file with `frames`,
            uint8 [T, H, W, 3].
        resize: turns each frame into a square.
        max_frames: largest number of frames to return.

    Raises:
        DataError: the clip does not exist, is damaged, or has no frames.
        MissingExtraError: PyAV or Pillow is not installed.
    """
    if is_folder(path):
        files = sorted(list_picture_files(path), key=lambda file: (_parse_frame_number(file), file.name))
        indices = sample_frame_indices(range(len(files)), max_frames)
        return Clip(np.stack([resize(read_picture(files[index])) for index in indices]), indices)
    _require_clip_file(path)
    if path.suffix.lower() == ".npz":
        frames = _read_frame_array(path)
        indices = sample_frame_indices(range(len(frames)), max_frames)
        return Clip(np.stack([resize(frames[index]) for index in indices]), indices)
    return _read_video(path, resize, max_frames)


def read_clip_features(path: Path, *, width: int, max_frames: int) -> Clip:
    """Read precomputed frame features of a clip: at most `max_frames` rows of the tensor `features` [T, width] in a
    safetensors file.

    Raises:
        DataError: the file does not exist, or does not hold such a tensor.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if is_folder(path):
        raise DataError(f"{path}: is a folder of pictures, but features are needed; give a safetensors file")
    _require_clip_file(path)
    try:
        features = load_file(path)[FEATURES_TENSOR]
    except KeyError:
        raise DataError(
            f"{path}: has no tensor {FEATURES_TENSOR!r}; store the features of the frames under this name"
        ) from None
    except (SafetensorError, *_DECODING_ERRORS) as error:
        raise DataError(f"{path}: is not a readable safetensors file ({error}); write it again") from None
    if features.ndim != 2 or features.shape[1] != width or not len(features):
        raise DataError(f"{path}: features of shape {features.shape}; each frame needs data.features = {width} numbers")
    if not np.isfinite(features := features.astype(np.float32)).all():
        raise DataError(f"{path}: has features that are not finite numbers; write it again")
    indices = sample_frame_indices(range(len(features)), max_frames)
    return Clip(features[indices], indices)


def sample_frame_indices(times: Sequence[float], max_frames: int) -> Int[np.ndarray, " T"]:
    """Return the indices of at most `max_frames` frames that are evenly spaced in time; a frame that is shown for long
    may occur several times.

    Args:
        times: time at which each frame is first shown, in order; at least one.
        max_frames: largest number of indices to return.
    """
    if len(times) <= max_frames:
        return np.arange(len(times))
    start_times = np.maximum.accumulate(np.asarray(times, dtype=np.float64))
    end = start_times[-1] + np.median(np.diff(start_times))
    midpoints = start_times[0] + (np.arange(max_frames) + 0.5 + _ROUNDING_TOLERANCE) * (
        (end - start_times[0]) / max_frames
    )
    indices: Int[np.ndarray, " T"] = np.searchsorted(start_times, midpoints, side="right") - 1
    return indices


def count_frame_bytes(path: Path) -> int:
    """Return the size of all frames of a file as raw pixels, in bytes; frames are counted without decoding them.

    Raises:
        DataError: the file is damaged.
        MissingExtraError: it is a video, and PyAV is not installed.
    """
    _require_clip_file(path)
    if path.suffix.lower() == ".npz":
        return _read_array_size(path)
    av = _import_pyav()
    try:
        with _open_container(av, path) as container:
            stream = _find_video_stream(container, path)
            frame_size: int = 3 * stream.width * stream.height
            return frame_size * sum(1 for packet in container.demux(stream) if packet.size)
    except (av.FFmpegError, *_DECODING_ERRORS) as error:
        raise _build_video_error(path, error) from None


def estimate_clip_memory(path: Path) -> int:
    """Estimate the most bytes of memory needed to read a clip; only the header of the file is read.

    Video decoders keep several reference frames of a few bytes a pixel, and one frame at a time is converted and
    resized. An array of frames is read whole.

    Raises:
        DataError: the file is damaged.
        MissingExtraError: it is a video, and PyAV is not installed.
    """
    _require_clip_file(path)
    if path.suffix.lower() == ".npz":
        return 2 * _read_array_size(path)
    av = _import_pyav()
    try:
        with _open_container(av, path) as container:
            stream = _find_video_stream(container, path)
            return _BYTES_PER_PIXEL * int(stream.width) * int(stream.height)
    except (av.FFmpegError, *_DECODING_ERRORS) as error:
        raise _build_video_error(path, error) from None


def _require_clip_file(path: Path) -> None:
    """Raise `DataError` if the file does not exist or is empty."""
    if not is_file(path):
        raise DataError(f"{path}: there is no such clip; check the path")
    if not path.stat().st_size:
        raise DataError(f"{path}: an empty file; fetch the clip again or remove it")


def _parse_frame_number(file: Path) -> int:
    """Return the last number in a file name; raise `DataError` if there is none."""
    numbers = re.findall(r"\d+", file.stem)
    if not numbers:
        raise DataError(f"{file}: a frame without a number in its name; number the frames of a clip, or remove it")
    return int(numbers[-1])


def _read_array_size(path: Path) -> int:
    """Read the size of the frame array in an `.npz` file from its directory, in bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.getinfo(f"{_FRAMES_KEY}.npy").file_size
    except _DECODING_ERRORS as error:
        raise _build_array_error(path, error) from None


def _build_array_error(path: Path, error: Exception) -> DataError:
    """Build the error for an `.npz` file whose frames cannot be read."""
    return DataError(f"{path}: has no readable array {_FRAMES_KEY!r} ({error}); write the clip again")


def _read_frame_array(path: Path) -> UInt8[np.ndarray, "T H W 3"]:
    """Read the frame array of an `.npz` file; raise `DataError` if it is too large, cannot be read, or is not uint8 of
    shape [T, H, W, 3].
    """
    if _read_array_size(path) > _MAX_ARRAY_BYTES:
        raise DataError(f"{path}: more than {_MAX_ARRAY_BYTES:,} bytes of frames; cut the clip")
    try:
        with np.load(path, allow_pickle=False) as file:
            frames: np.ndarray | bytes = file[_FRAMES_KEY]
    except _DECODING_ERRORS as error:
        raise _build_array_error(path, error) from None
    if isinstance(frames, bytes):
        raise DataError(f"{path}: its {_FRAMES_KEY} are not an array; write them with np.savez")
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or 0 in frames.shape:
        raise DataError(f"{path}: frames of {frames.dtype} and shape {frames.shape}; write uint8 [T, H, W, 3]")
    return frames


def _read_video(path: Path, resize: SquareResize, max_frames: int) -> Clip:
    """Read at most `max_frames` evenly spaced frames of a video, each made square by `resize`, in two passes, first the
    times and then the frames, so that a long video needs no more memory.
    """
    av = _import_pyav()
    try:
        times = [index if frame.time is None else frame.time for index, frame in enumerate(_decode_frames(av, path))]
        if not times:
            raise DataError(f"{path}: a video without frames; fetch it again or remove it")
        indices = sample_frame_indices(times, max_frames)
        wanted_indices = set(indices.tolist())
        frames = {
            index: resize(_to_upright_rgb(frame))
            for index, frame in enumerate(_decode_frames(av, path))
            if index in wanted_indices
        }
    except (av.FFmpegError, *_DECODING_ERRORS) as error:
        raise _build_video_error(path, error) from None
    return Clip(np.stack([frames[index] for index in indices.tolist()]), indices)


def _decode_frames(av: ModuleType, path: Path) -> Iterator[Any]:
    """Decode the frames of a video in display order."""
    with _open_container(av, path) as container:
        yield from container.decode(_find_video_stream(container, path))


def _open_container(av: ModuleType, path: Path) -> Any:
    """Open a video with PyAV; only local files of known formats are allowed."""
    return av.open(str(path), options={"protocol_whitelist": "file", "format_whitelist": _VIDEO_FORMATS})


def _find_video_stream(container: Any, path: Path) -> Any:
    """Return the first video stream of an opened container of PyAV; raise `DataError` if there is none, it cannot be
    decoded, or its frames are too large.
    """
    if not container.streams.video:
        raise DataError(f"{path}: no pictures in it; give a video")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise DataError(f"{path}: is damaged, or not a video that can be decoded here; fetch it again or convert it")
    if stream.width * stream.height > MAX_PIXELS:
        raise DataError(f"{path}: frames of more than {MAX_PIXELS:,} pixels; make it smaller")
    return stream


def _build_video_error(path: Path, error: Exception) -> DataError:
    """Build the error for a video that cannot be decoded."""
    return DataError(f"{path}: is damaged, or not a video of a known format ({error}); fetch it again or remove it")


def _to_upright_rgb(frame: Any) -> Picture:
    """Convert a frame to RGB and apply the rotation that the file asks for (counter-clockwise)."""
    pixels: Picture = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(pixels, round(frame.rotation / 90)))


def _import_pyav() -> ModuleType:
    """Import PyAV; raise `MissingExtraError` if it is not installed."""
    try:
        import av
    except ImportError as error:
        raise MissingExtraError('videos are decoded by PyAV: pip install "heedful[video]"') from error
    return av
