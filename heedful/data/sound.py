"""Sound files as samples, and samples as the log-mel frames that a model reads.

WAV files of whole numbers are read here; whatever else soundfile knows (FLAC, OGG, MP3, WAV of other
kinds) needs the extra `audio`. Several channels become their mean.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_END, BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.errors import DataError, MissingExtraError
from heedful.files import open_regular

_ZEROS: Final = 16
"""Zero crossings of the sinc on each side of a resampled point."""
_ROLLOFF: Final = 0.95
"""Where resampling begins to cut, as a share of the lower Nyquist frequency."""
_AT_A_TIME: Final = 2**19
"""Products that are added up together; each takes some 64 bytes meanwhile."""
_READ: Final = 2**20
"""Numbers of all channels that are decoded together."""
_FASTEST: Final = 768_000
"""Samples a second; of a rate that nobody records at, the sinc would become as long as the memory."""
_LONGEST_HEADER: Final = 64
"""Bytes that are read of what a WAV file says of its samples; the extensible form has 40."""
_WHOLE_NUMBERS, _EXTENSIBLE = 1, 0xFFFE
_OF_RIFF: Final = bytes.fromhex("000000001000800000aa00389b71")
"""What follows the kind of samples in the extensible form, where the kind is one of the plain form."""
_SILENCE: Final = 1e-10
_QUIET: Final = 1e-8
"""Power below which nothing is told apart, as a share of the loudest of a sound: 80 dB."""


class Sound(NamedTuple):
    """Samples between -1 and 1, and how many of them are in a second."""

    samples: Float[Tensor, " N"]
    rate: int


def read_sound(path: Path) -> Sound:
    """The sound in a file, its channels averaged.

    Raises:
        DataError: the file is missing, no sound, empty, or holds what is no number.
        MissingExtraError: it is no WAV of whole numbers, and soundfile is not installed.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path")
    return decoded_sound(path, name=str(path))


def decoded_sound(content: Path | BytesIO, *, name: str, longest: float = math.inf) -> Sound:
    """The sound in a file, or in what a file holds; `name` tells in messages which one.

    Args:
        content: whatever it claims, no more of it is decoded than is wanted.
        name: of the sound.
        longest: seconds.

    Raises:
        DataError: it is no sound, empty, longer than that, or holds what is no number.
        MissingExtraError: it is no WAV of whole numbers, and soundfile is not installed.
    """
    try:
        found, rate = _plain(content, name, longest)
    except _NotPlainError:
        found, rate = _other(content, name, longest)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); check its rights") from None
    samples = torch.from_numpy(found)
    if not len(samples):
        raise DataError(f"{name}: holds no sound; record it again")
    if len(samples) > longest * rate:
        raise DataError(f"{name}: has more than {longest:g} s; split it")
    if not bool(samples.isfinite().all()):
        raise DataError(f"{name}: holds samples that are no numbers; convert it again")
    return Sound(samples, rate)


def decoding_memory(content: BytesIO, *, name: str, longest: float, rate: int) -> int:
    """Estimate the bytes of memory that `decoded_sound` takes, and to bring the samples to another rate, at most.

    The header is read, and nothing is decoded.

    Args:
        content: what a sound file holds.
        name: of the sound, for messages.
        longest: seconds that are decoded.
        rate: samples a second that a model reads.

    Raises:
        DataError: it is no sound.
        MissingExtraError: it is no WAV of whole numbers, and soundfile is not installed.
    """
    try:
        with _opened(content) as file:
            header, _ = _chunks(file, name, longest=0)
        found = header.rate
        whole = len(content.getbuffer()) // (header.width * header.channels)
        samples = int(min(whole, longest * found + 1))
        size = 16 * header.channels * samples
    except _NotPlainError:
        content.seek(0)
        with _soundfile(content, name) as other:
            found, frames = int(other.samplerate), int(other.frames)
        samples = int(min(max(0, frames), longest * found + 1))
        size = 12 * samples + 8 * _READ
    content.seek(0)
    return size + (resampling_memory(samples) if found != rate else 0)


def resampling_memory(samples: int) -> int:
    """Estimate the bytes of memory that it takes to bring this many samples to another rate, at most."""
    return 8 * samples + 72 * _AT_A_TIME


class _NotPlainError(Exception):
    """No WAV of whole numbers."""


@dataclass(frozen=True)
class _Header:
    """What a WAV file says of its samples."""

    width: int
    channels: int
    rate: int


def _plain(content: Path | BytesIO, name: str, longest: float) -> tuple[Float[np.ndarray, " N"], int]:
    with _opened(content) as file:
        header, whole = _chunks(file, name, longest)
    width, channels, rate = header.width, header.channels, header.rate
    whole = whole[: len(whole) // (width * channels) * width * channels]  # a cut file ends somewhere
    if width == 1:  # the only width without a sign
        numbers = np.frombuffer(whole, np.uint8).astype(np.float32) - 128.0
    elif width == 3:
        padded = np.zeros((len(whole) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(whole, np.uint8).reshape(-1, 3)
        numbers = padded.view("<i4")[:, 0].astype(np.float32) / 256.0
    else:
        numbers = np.frombuffer(whole, f"<i{width}").astype(np.float32)
    return (numbers.reshape(-1, channels) / 2.0 ** (8 * width - 1)).mean(1, dtype=np.float32), rate


@contextmanager
def _opened(content: Path | BytesIO) -> Iterator[BinaryIO]:
    if isinstance(content, BytesIO):
        content.seek(0)
        yield content
        return
    with open_regular(content) as file:
        yield file


def _chunks(file: BinaryIO, name: str, longest: float) -> tuple[_Header, bytes]:
    """The header and the samples of a WAV file (Microsoft and IBM 1991, Multimedia Programming Interface, 3).

    A writer that could not go back, as into a pipe, says 0 or 2^32 - 1 for the size of what it writes; then, and where
    the size is beyond the file, the samples reach to its end. Several parts of samples are one sound.
    """
    kind, whole, form = file.read(4), int.from_bytes(file.read(4), "little"), file.read(4)
    if kind != b"RIFF" or form != b"WAVE":
        raise _NotPlainError
    unsaid = {2**32 - 1} if whole == 4 + _left(file) else {0, 2**32 - 1}
    header: _Header | None = None
    found, most = bytearray(), math.inf
    while len(part := file.read(8)) == 8 and len(found) < most:
        size = int.from_bytes(part[4:], "little")
        if part[:4] == b"fmt ":
            header = _header(file.read(min(size, _LONGEST_HEADER)), name)
            most = (longest * header.rate + 1) * header.width * header.channels
            file.seek(max(0, size - _LONGEST_HEADER) + size % 2, SEEK_CUR)
        elif part[:4] == b"data" and header is None:
            raise _NotPlainError
        elif part[:4] == b"data" and (size in unsaid or size > _left(file)):
            found += file.read() if most == math.inf else file.read(int(most - len(found)))
            break
        elif part[:4] == b"data":
            taken = file.read(int(min(size, most - len(found))))
            found += taken
            file.seek(size - len(taken) + size % 2, SEEK_CUR)
        else:
            file.seek(size + size % 2, SEEK_CUR)
    if header is None:
        raise _NotPlainError
    return header, bytes(found)


def _left(file: BinaryIO) -> int:
    """Bytes behind the place where a file is read."""
    here = file.tell()
    end = file.seek(0, SEEK_END)
    file.seek(here)
    return end - here


def _header(part: bytes, name: str) -> _Header:
    """What stands in the part `fmt ` of a WAV file; of the extensible form the kind of its samples stands behind."""
    if len(part) < 16:
        raise _NotPlainError
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", part[:16])
    if kind == _EXTENSIBLE and len(part) >= 40:
        kind = int.from_bytes(part[24:26], "little") if part[26:40] == _OF_RIFF else 0
    width = (bits + 7) // 8
    if kind != _WHOLE_NUMBERS or not 1 <= width <= 4 or not channels:
        raise _NotPlainError
    return _Header(width, channels, _rate(rate, name))


def _other(content: Path | BytesIO, name: str, longest: float) -> tuple[Float[np.ndarray, " N"], int]:
    parts = [np.zeros(0, np.float32)]
    with _soundfile(content, name) as file:
        rate = _rate(int(file.samplerate), name)
        most = longest * rate + 1
        while most > 0:
            # what a file says of its length may be anything
            part = file.read(int(min(most, _READ // file.channels + 1)), dtype="float32", always_2d=True)
            if not len(part):
                break
            parts.append(part.mean(1, dtype=np.float32))
            most -= len(part)
    return np.concatenate(parts), rate


@contextmanager
def _soundfile(content: Path | BytesIO, name: str) -> Iterator[Any]:
    """The file as soundfile reads it while the block runs."""
    try:
        import soundfile
    except ImportError:
        raise MissingExtraError(
            f"{name}: is no WAV of whole numbers, and soundfile, which may know it, is not installed: "
            "pip install heedful[audio]"
        ) from None
    try:
        with _held(content) as held, soundfile.SoundFile(held, closefd=False) as file:
            yield file
    except (soundfile.SoundFileError, TypeError) as error:  # the second for headerless files
        why = getattr(error, "error_string", error)
        raise DataError(f"{name}: is no sound that can be read ({why}); convert it to WAV or FLAC") from None


@contextmanager
def _held(content: Path | BytesIO) -> Iterator[Path | int]:
    """A file, or one without a name: what reads from memory prints what is wrong with it."""
    if isinstance(content, Path):
        yield content
        return
    with TemporaryFile() as file:
        file.write(content.getbuffer())
        file.seek(0)
        yield file.fileno()


def _rate(rate: int, name: str) -> int:
    if not 1 <= rate <= _FASTEST:
        raise DataError(f"{name}: says that it has {rate} samples a second; convert it again")
    return rate


def resampled(samples: Float[Tensor, " N"], before: int, after: int) -> Float[Tensor, " M"]:
    """The same sound with `after` samples a second instead of `before`.

    Each new sample is the sum of the old ones around it, weighed by a sinc that lets through what both rates can hold,
    under a Hann window of sixteen zero crossings on each side (Smith, Digital Audio Resampling, ccrma.stanford.edu).
    """
    if before == after:
        return samples
    cut = _ROLLOFF * min(1.0, after / before)  # of the old Nyquist frequency
    reach = math.ceil(_ZEROS / cut)
    padded = torch.nn.functional.pad(samples, (reach, reach + 1))
    taps = torch.arange(-reach, reach + 2, device=samples.device)
    found = []
    for part in torch.split(torch.arange(-(-len(samples) * after // before)), max(1, _AT_A_TIME // len(taps))):
        # whole numbers, so that an hour of sound is as exact as its first second
        base, rest = part * before // after, (part * before % after).to(torch.float64) / after
        distance = cut * (taps - rest.unsqueeze(1))
        window = torch.where(distance.abs() < _ZEROS, torch.cos(distance * (math.pi / 2 / _ZEROS)).square(), 0.0)
        weights = (cut * torch.sinc(distance) * window).to(samples.dtype)
        found.append((padded[base.unsqueeze(1) + taps + reach] * weights).sum(1))
    return torch.cat(found)


@dataclass(frozen=True)
class LogMel:
    """Log-mel frames of a sound: what of its power is in each of some bands, which are as wide as the ear's.

    Attributes:
        rate: samples a second that sounds are brought to.
        bands: triangles, evenly spaced on the mel scale 2595 log10(1 + f / 700) (O'Shaughnessy 1987, as in HTK).
        low, high: Hz, where the first triangle begins and the last one ends; half the rate unless given.
        window: milliseconds that a frame looks at, under a Hann window.
        hop: milliseconds from one frame to the next.
        normalise: whether each band of each sound has mean 0 and variance 1 over its frames, which takes away what
            microphone and loudness add.
    """

    rate: int = 16000
    bands: int = 40
    low: float = 20.0
    high: float | None = None
    window: float = 25.0
    hop: float = 10.0
    normalise: bool = True

    @property
    def width(self) -> int:
        """Samples in a frame."""
        return round(self.rate * self.window / 1000)

    @property
    def step(self) -> int:
        """Samples from one frame to the next."""
        return round(self.rate * self.hop / 1000)

    def filters(self) -> Float[Tensor, "bins bands"]:
        """The weight of each frequency in each band: triangles of height 1, whose feet are their neighbours' peaks."""
        size = _power_of_two(self.width)
        ends = torch.tensor([self.low, self.high or self.rate / 2], dtype=torch.float64)
        first, last = (2595 * torch.log10(1 + ends / 700)).tolist()
        mels = torch.linspace(first, last, self.bands + 2, dtype=torch.float64)
        peaks = 700 * (10 ** (mels / 2595) - 1)
        hertz = torch.arange(size // 2 + 1, dtype=torch.float64).unsqueeze(1) * self.rate / size
        rising = (hertz - peaks[:-2]) / (peaks[1:-1] - peaks[:-2])
        falling = (peaks[2:] - hertz) / (peaks[2:] - peaks[1:-1])
        return torch.minimum(rising, falling).clamp(min=0).float()

    def frames(self, sound: Sound) -> Float[Tensor, "T bands"]:
        """The frames that lie inside a sound: none where it is shorter than one."""
        samples = resampled(sound.samples, sound.rate, self.rate)
        if len(samples) < self.width:
            return samples.new_zeros(0, self.bands)
        cut = samples.unfold(0, self.width, self.step) * torch.hann_window(self.width)
        power = torch.fft.rfft(cut, _power_of_two(self.width)).abs().square() / self.width
        bands = power @ self.filters()
        logs: Tensor = bands.clamp(min=max(_SILENCE, _QUIET * float(bands.max()))).log()
        if not self.normalise:
            return logs
        centred = logs - logs.mean(0)
        normed: Tensor = centred / centred.square().mean(0).sqrt().clamp(min=1e-3)
        return normed


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
