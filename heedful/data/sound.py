"""Read sound files as samples, and compute log-mel frames from samples.

PCM WAV files of integers are read here; everything else that soundfile knows (FLAC, OGG, MP3, other kinds of WAV)
needs the extra `audio`. Several channels are averaged.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
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
from heedful.files import is_file, open_regular

_ZERO_CROSSINGS: Final = 16
"""Number of zero crossings of the sinc on each side of a resampled point."""
_ROLLOFF: Final = 0.95
"""Frequency at which resampling begins to attenuate, as a share of the lower Nyquist frequency."""
_PRODUCTS_PER_BLOCK: Final = 2**19
"""Number of products that are summed in one block; each takes about 64 bytes."""
_NUMBERS_PER_BLOCK: Final = 2**20
"""Number of samples of all channels that are decoded in one block."""
_MAX_RATE: Final = 768_000
"""Largest sampling rate in samples a second; with a higher one, the sinc would become as long as the memory."""
_MAX_FORMAT_BYTES: Final = 64
"""Largest number of bytes read from the format chunk of a WAV file; the extensible form has 40."""
_FORMAT_PCM, _FORMAT_EXTENSIBLE = 1, 0xFFFE
_GUID_TAIL: Final = bytes.fromhex("000000001000800000aa00389b71")
"""The bytes after the format code in the extensible form, if the code is one of the plain form."""
_MIN_POWER: Final = 1e-10
_MIN_RELATIVE_POWER: Final = 1e-8
"""Smallest power that is distinguished, as a share of the largest of a sound: 80 dB."""


class Sound(NamedTuple):
    """Samples between -1 and 1, and the sampling rate in samples a second."""

    samples: Float[Tensor, " N"]
    rate: int


def read_sound(path: Path) -> Sound:
    """Read the sound in a file, with its channels averaged.

    Raises:
        DataError: the file is missing, not a sound, empty, or holds values that are not finite.
        MissingExtraError: it is not a PCM WAV of integers, and soundfile is not installed.
    """
    if not is_file(path):
        raise DataError(f"{path}: there is no such file; check the path")
    return decode_sound(path, name=str(path))


def decode_sound(source: Path | BytesIO, *, name: str, max_seconds: float = math.inf) -> Sound:
    """Decode a sound of at most `max_seconds` from a file or from bytes in memory; `name` identifies it in messages.

    Args:
        source: the sound; whatever length it claims, no more than needed is decoded.
        name: name of the sound for messages.
        max_seconds: largest length in seconds.

    Raises:
        DataError: it is not a sound, is empty or longer than that, or holds values that are not finite.
        MissingExtraError: it is not a PCM WAV of integers, and soundfile is not installed.
    """
    try:
        array, rate = _read_pcm_wav(source, name, max_seconds)
    except _NotPcmWavError:
        array, rate = _read_with_soundfile(source, name, max_seconds)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); check its rights") from None
    samples = torch.from_numpy(array)
    if not len(samples):
        raise DataError(f"{name}: holds no sound; record it again")
    if len(samples) > max_seconds * rate:
        raise DataError(f"{name}: has more than {max_seconds:g} s; split it")
    if not bool(samples.isfinite().all()):
        raise DataError(f"{name}: holds samples that are not numbers; convert it again")
    return Sound(samples, rate)


def estimate_sound_memory(content: BytesIO, *, name: str, max_seconds: float, target_rate: int) -> int:
    """Estimate, from the header alone, the most bytes of memory needed to decode `max_seconds` of a sound file and to
    resample them to `target_rate`; `name` identifies the sound in messages.

    Args:
        content: content of a sound file.
        name: name of the sound for messages.
        max_seconds: largest number of seconds that is decoded.
        target_rate: sampling rate that the model reads.

    Raises:
        DataError: it is not a sound.
        MissingExtraError: it is not a PCM WAV of integers, and soundfile is not installed.
    """
    try:
        with _open_stream(content) as file:
            header, _ = _read_wav_chunks(file, name, max_seconds=0)
        source_rate = header.rate
        num_samples = len(content.getbuffer()) // (header.bytes_per_sample * header.channels)
        samples = int(min(num_samples, max_seconds * source_rate + 1))
        size = 16 * header.channels * samples
    except _NotPcmWavError:
        content.seek(0)
        with _open_soundfile(content, name) as other:
            source_rate, frames = int(other.samplerate), int(other.frames)
        samples = int(min(max(0, frames), max_seconds * source_rate + 1))
        size = 12 * samples + 8 * _NUMBERS_PER_BLOCK
    content.seek(0)
    return size + (estimate_resampling_memory(samples) if source_rate != target_rate else 0)


def estimate_resampling_memory(num_samples: int) -> int:
    """Estimate the most bytes of memory needed to resample a number of samples."""
    return 8 * num_samples + 72 * _PRODUCTS_PER_BLOCK


class _NotPcmWavError(Exception):
    """Raised for a sound that is not a PCM WAV file of integers."""


@dataclass(frozen=True)
class _WavHeader:
    """The format of the samples of a WAV file: bytes a sample, channels and sampling rate."""

    bytes_per_sample: int
    channels: int
    rate: int


def _read_pcm_wav(source: Path | BytesIO, name: str, max_seconds: float) -> tuple[Float[np.ndarray, " N"], int]:
    """Read a PCM WAV file of integers; return the samples, averaged over channels, and the rate. Little more than
    `max_seconds` is read. Raise `_NotPcmWavError` for other sounds, and `DataError` with the name for a wrong rate.
    """
    with _open_stream(source) as file:
        header, raw = _read_wav_chunks(file, name, max_seconds)
    width, channels, rate = header.bytes_per_sample, header.channels, header.rate
    raw = raw[: len(raw) // (width * channels) * width * channels]  # a truncated file may end inside a frame
    if width == 1:  # the only width without a sign
        numbers = np.frombuffer(raw, np.uint8).astype(np.float32) - 128.0
    elif width == 3:
        padded = np.zeros((len(raw) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        numbers = padded.view("<i4")[:, 0].astype(np.float32) / 256.0
    else:
        numbers = np.frombuffer(raw, f"<i{width}").astype(np.float32)
    return (numbers.reshape(-1, channels) / 2.0 ** (8 * width - 1)).mean(1, dtype=np.float32), rate


@contextmanager
def _open_stream(source: Path | BytesIO) -> Iterator[BinaryIO]:
    """Open a file, or rewind bytes in memory, as a binary stream."""
    if isinstance(source, BytesIO):
        source.seek(0)
        yield source
        return
    with open_regular(source) as file:
        yield file


def _read_wav_chunks(file: BinaryIO, name: str, max_seconds: float) -> tuple[_WavHeader, bytes]:
    """Read the header and the samples of a WAV file, little more than `max_seconds` of them (Microsoft and IBM 1991,
    Multimedia Programming Interface, 3). Raise `_NotPcmWavError` for other sounds.

    A writer that cannot seek, such as one into a pipe, writes 0 or 2^32 - 1 as the size; then, and if the size goes
    beyond the file, the samples reach to the end of the file. Several chunks of samples are one sound.
    """
    riff_id, riff_size, wave_id = file.read(4), int.from_bytes(file.read(4), "little"), file.read(4)
    if riff_id != b"RIFF" or wave_id != b"WAVE":
        raise _NotPcmWavError
    unknown_sizes = {2**32 - 1} if riff_size == 4 + _count_remaining_bytes(file) else {0, 2**32 - 1}
    header: _WavHeader | None = None
    samples, max_bytes = bytearray(), math.inf
    while len(chunk_header := file.read(8)) == 8 and len(samples) < max_bytes:
        size = int.from_bytes(chunk_header[4:], "little")
        if chunk_header[:4] == b"fmt ":
            header = _parse_format_chunk(file.read(min(size, _MAX_FORMAT_BYTES)), name)
            max_bytes = (max_seconds * header.rate + 1) * header.bytes_per_sample * header.channels
            file.seek(max(0, size - _MAX_FORMAT_BYTES) + size % 2, SEEK_CUR)
        elif chunk_header[:4] == b"data" and header is None:
            raise _NotPcmWavError
        elif chunk_header[:4] == b"data" and (size in unknown_sizes or size > _count_remaining_bytes(file)):
            samples += file.read() if max_bytes == math.inf else file.read(int(max_bytes - len(samples)))
            break
        elif chunk_header[:4] == b"data":
            block = file.read(int(min(size, max_bytes - len(samples))))
            samples += block
            file.seek(size - len(block) + size % 2, SEEK_CUR)
        else:
            file.seek(size + size % 2, SEEK_CUR)
    if header is None:
        raise _NotPcmWavError
    return header, bytes(samples)


def _count_remaining_bytes(file: BinaryIO) -> int:
    """Return the number of bytes after the current position of a file."""
    position = file.tell()
    end = file.seek(0, SEEK_END)
    file.seek(position)
    return end - position


def _parse_format_chunk(chunk: bytes, name: str) -> _WavHeader:
    """Parse the chunk `fmt ` of a WAV file; in the extensible form, the format code is in its extension. Raise
    `_NotPcmWavError` for other formats, and `DataError` with the name for a wrong rate.
    """
    if len(chunk) < 16:
        raise _NotPcmWavError
    format_code, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
    if format_code == _FORMAT_EXTENSIBLE and len(chunk) >= 40:
        format_code = int.from_bytes(chunk[24:26], "little") if chunk[26:40] == _GUID_TAIL else 0
    width = (bits + 7) // 8
    if format_code != _FORMAT_PCM or not 1 <= width <= 4 or not channels:
        raise _NotPcmWavError
    return _WavHeader(width, channels, _check_rate(rate, name))


def _read_with_soundfile(source: Path | BytesIO, name: str, max_seconds: float) -> tuple[Float[np.ndarray, " N"], int]:
    """Read a sound with soundfile; return the samples, averaged over channels, and the rate. Little more than
    `max_seconds` is read.
    """
    blocks = [np.zeros(0, np.float32)]
    with _open_soundfile(source, name) as file:
        rate = _check_rate(int(file.samplerate), name)
        remaining = max_seconds * rate + 1
        while remaining > 0:
            # the length that a file declares may be wrong
            block = file.read(
                int(min(remaining, _NUMBERS_PER_BLOCK // file.channels + 1)), dtype="float32", always_2d=True
            )
            if not len(block):
                break
            blocks.append(block.mean(1, dtype=np.float32))
            remaining -= len(block)
    return np.concatenate(blocks), rate


@contextmanager
def _open_soundfile(source: Path | BytesIO, name: str) -> Iterator[Any]:
    """Open a file or bytes in memory with soundfile; raise `DataError` with the name if they cannot be read."""
    try:
        import soundfile
    except ImportError:
        raise MissingExtraError(
            f"{name}: is not a WAV of whole numbers, and soundfile, which may be able to read it, is not installed: "
            "pip install heedful[audio]"
        ) from None
    try:
        with _to_file(source) as file_or_descriptor, soundfile.SoundFile(file_or_descriptor, closefd=False) as file:
            yield file
    except (soundfile.SoundFileError, TypeError) as error:  # the second for headerless files
        reason = getattr(error, "error_string", error)
        raise DataError(f"{name}: is not a sound that can be read ({reason}); convert it to WAV or FLAC") from None


@contextmanager
def _to_file(source: Path | BytesIO) -> Iterator[Path | int]:
    """Yield the path, or for bytes in memory the descriptor of a temporary file with them; soundfile prints errors when
    it reads from memory.
    """
    if isinstance(source, Path):
        yield source
        return
    with TemporaryFile() as file:
        file.write(source.getbuffer())
        file.seek(0)
        yield file.fileno()


def _check_rate(rate: int, name: str) -> int:
    """Return the sampling rate; raise `DataError` with the name of the sound if it is out of range."""
    if not 1 <= rate <= _MAX_RATE:
        raise DataError(f"{name}: declares {rate} samples a second; convert it again")
    return rate


def resample(samples: Float[Tensor, " N"], old_rate: int, new_rate: int) -> Float[Tensor, " M"]:
    """Resample a sound from rate `old_rate` to rate `new_rate`.

    Each new sample is the sum of the old ones around it, weighted by a sinc that passes what both rates can hold,
    under a Hann window of sixteen zero crossings on each side (Smith, Digital Audio Resampling, ccrma.stanford.edu).
    """
    if old_rate == new_rate:
        return samples
    cutoff = _ROLLOFF * min(1.0, new_rate / old_rate)  # of the old Nyquist frequency
    half_width = math.ceil(_ZERO_CROSSINGS / cutoff)
    padded = torch.nn.functional.pad(samples, (half_width, half_width + 1))
    taps = torch.arange(-half_width, half_width + 2, device=samples.device)
    blocks = []
    for indices in torch.split(
        torch.arange(-(-len(samples) * new_rate // old_rate)), max(1, _PRODUCTS_PER_BLOCK // len(taps))
    ):
        # whole numbers, so that an hour of sound is as exact as its first second
        base, fraction = indices * old_rate // new_rate, (indices * old_rate % new_rate).to(torch.float64) / new_rate
        distance = cutoff * (taps - fraction.unsqueeze(1))
        window = torch.where(
            distance.abs() < _ZERO_CROSSINGS, torch.cos(distance * (math.pi / 2 / _ZERO_CROSSINGS)).square(), 0.0
        )
        weights = (cutoff * torch.sinc(distance) * window).to(samples.dtype)
        blocks.append((padded[base.unsqueeze(1) + taps + half_width] * weights).sum(1))
    return torch.cat(blocks)


class Frontend(ABC):
    """Reads a sound and computes its frames, the input of a model.

    Abstract: what the frames are. Subclasses may read other files as sounds.
    """

    @property
    @abstractmethod
    def rate(self) -> int:
        """Samples a second that frames are computed from."""

    @property
    @abstractmethod
    def bands(self) -> int:
        """Numbers in a frame."""

    @property
    @abstractmethod
    def frame_length(self) -> int:
        """Number of samples in a frame."""

    @property
    @abstractmethod
    def window(self) -> float:
        """Length of a frame in milliseconds."""

    @property
    @abstractmethod
    def hop(self) -> float:
        """Milliseconds from one frame to the next."""

    @abstractmethod
    def compute_frames(self, sound: Sound) -> Float[Tensor, "T bands"]:
        """Compute the frames of a sound."""

    def read(self, path: Path) -> Sound:
        """Read a file; raises like `read_sound`."""
        return read_sound(path)

    def decode(self, content: BytesIO, *, name: str, max_seconds: float) -> Sound:
        """Decode the content of a file; raises like `decode_sound`."""
        return decode_sound(content, name=name, max_seconds=max_seconds)

    def estimate_memory(self, content: BytesIO, *, name: str, max_seconds: float) -> int:
        """Estimate the most bytes of memory that `decode` and `compute_frames` need; raises like `decode`."""
        return estimate_sound_memory(content, name=name, max_seconds=max_seconds, target_rate=self.rate)


@dataclass(frozen=True)
class LogMel(Frontend):
    """Computes log-mel frames of a sound: the log power in mel-spaced frequency bands.

    Attributes:
        rate: sampling rate to which sounds are resampled.
        bands: number of triangular bands, evenly spaced on the mel scale 2595 log10(1 + f / 700) (O'Shaughnessy 1987,
            as in HTK).
        low, high: Hz, where the first triangle begins and the last one ends; `high` is half the rate by default.
        window: length of a frame in milliseconds, under a Hann window.
        hop: milliseconds from one frame to the next.
        normalise: whether each band of each sound is normalised to mean 0 and variance 1 over its frames, which removes
            the effect of microphone and loudness.
    """

    rate: int = 16000
    bands: int = 40
    low: float = 20.0
    high: float | None = None
    window: float = 25.0
    hop: float = 10.0
    normalise: bool = True

    @property
    def frame_length(self) -> int:
        """Number of samples in a frame."""
        return round(self.rate * self.window / 1000)

    @property
    def hop_length(self) -> int:
        """Number of samples from one frame to the next."""
        return round(self.rate * self.hop / 1000)

    def build_filterbank(self) -> Float[Tensor, "bins bands"]:
        """Return the weight of each frequency in each band: triangles of height 1 that end at their neighbours'
        peaks.
        """
        size = _get_next_power_of_two(self.frame_length)
        ends = torch.tensor([self.low, self.high or self.rate / 2], dtype=torch.float64)
        first, last = (2595 * torch.log10(1 + ends / 700)).tolist()
        mels = torch.linspace(first, last, self.bands + 2, dtype=torch.float64)
        return _build_triangles(700 * (10 ** (mels / 2595) - 1), size=size, rate=self.rate).float()

    def compute_frames(self, sound: Sound) -> Float[Tensor, "T bands"]:
        """Compute the frames that lie completely inside a sound: none if it is shorter than one frame."""
        samples = resample(sound.samples, sound.rate, self.rate)
        if len(samples) < self.frame_length:
            return samples.new_zeros(0, self.bands)
        windowed = samples.unfold(0, self.frame_length, self.hop_length) * torch.hann_window(self.frame_length)
        power = torch.fft.rfft(windowed, _get_next_power_of_two(self.frame_length)).abs().square() / self.frame_length
        bands = power @ self.build_filterbank()
        log_power: Tensor = bands.clamp(min=max(_MIN_POWER, _MIN_RELATIVE_POWER * float(bands.max()))).log()
        if not self.normalise:
            return log_power
        centred = log_power - log_power.mean(0)
        normalised: Tensor = centred / centred.square().mean(0).sqrt().clamp(min=1e-3)
        return normalised


@dataclass(frozen=True)
class PaddedLogMel(Frontend):
    """Computes log-mel frames of a sound that is padded with silence to a fixed length, as Whisper does (Radford et al.
    2023, 2.2).

    The powers are at most 8 orders of magnitude below the largest, and (log10(power) + 4) / 4 is a value of a frame.

    Attributes:
        rate: sampling rate to which sounds are resampled.
        bands: number of triangular bands of equal area, evenly spaced on Slaney's mel scale from 0 Hz to half the rate
            (Slaney 1998: linear up to 1000 Hz, then logarithmic, 27 bands for a factor of 6.4).
        frame_length: number of samples in a frame, under a Hann window; frames are centred, and the sound is reflected
            at its ends.
        hop_length: number of samples from one frame to the next.
        seconds: length to which sounds are padded; longer ones are cut.
    """

    rate: int = 16000
    bands: int = 80
    frame_length: int = 400
    hop_length: int = 160
    seconds: int = 30

    @property
    def window(self) -> float:
        """Length of a frame in milliseconds."""
        return 1000 * self.frame_length / self.rate

    @property
    def hop(self) -> float:
        """Milliseconds from one frame to the next."""
        return 1000 * self.hop_length / self.rate

    @property
    def num_frames(self) -> int:
        """Number of frames of every sound."""
        return self.seconds * self.rate // self.hop_length

    def build_filterbank(self) -> Float[Tensor, "bins bands"]:
        """Return the weight of each frequency in each band: triangles of equal area that end at their neighbours'
        peaks.
        """
        last = 15 + 27 * math.log(self.rate / 2000, 6.4)
        mels = torch.linspace(0, last, self.bands + 2, dtype=torch.float64)
        peaks = torch.where(mels < 15, mels * (200 / 3), 1000 * 6.4 ** ((mels - 15) / 27))
        triangles = _build_triangles(peaks, size=self.frame_length, rate=self.rate)
        return (triangles * (2 / (peaks[2:] - peaks[:-2]))).float()

    def compute_frames(self, sound: Sound) -> Float[Tensor, "T bands"]:
        """Compute the frames of a sound, padded or cut to `seconds`."""
        samples = resample(sound.samples, sound.rate, self.rate)[: self.seconds * self.rate]
        padded = torch.nn.functional.pad(samples, (0, self.seconds * self.rate - len(samples)))
        window = torch.hann_window(self.frame_length)
        spectrum = torch.stft(padded, self.frame_length, self.hop_length, window=window, return_complex=True)
        power = spectrum[:, :-1].abs().square().T @ self.build_filterbank()
        logarithms = power.clamp(min=_MIN_POWER).log10()
        return (torch.maximum(logarithms, logarithms.max() - 8.0) + 4.0) / 4.0


def _build_triangles(peaks: Float[Tensor, " N"], *, size: int, rate: int) -> Float[Tensor, "bins bands"]:
    """Return the weight of each frequency of a Fourier transform of `size` samples in each band: triangles of height 1
    that end at their neighbours' peaks in Hz.
    """
    hertz = torch.arange(size // 2 + 1, dtype=torch.float64).unsqueeze(1) * rate / size
    rising = (hertz - peaks[:-2]) / (peaks[1:-1] - peaks[:-2])
    falling = (peaks[2:] - hertz) / (peaks[2:] - peaks[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def _get_next_power_of_two(minimum: int) -> int:
    """Return the smallest power of two that is at least `minimum`."""
    return 1 << (minimum - 1).bit_length()
