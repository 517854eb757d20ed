"""Sound files, resampling, and log-mel frames beside the same in plain loops."""

from __future__ import annotations

import math
import struct
import sys
import wave
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from scipy.signal import resample_poly

from heedful.data.sound import LogMel, Sound, decode_sound, read_sound, resample
from heedful.errors import DataError, MissingExtraError

RATE = 8000


def sine(hertz: float, rate: int, seconds: float = 0.5) -> torch.Tensor:
    return torch.sin(2 * math.pi * hertz * torch.arange(round(rate * seconds), dtype=torch.float64) / rate).float()


@pytest.mark.parametrize("kind", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_files_hold_the_mean_of_their_channels(tmp_path: Path, kind: str, channels: int) -> None:
    """Python's own reader and soundfile's agree, whichever is asked."""
    sound = np.stack([0.5 * sine(300.0 * (n + 1), RATE).numpy() for n in range(channels)], 1)
    path = tmp_path / "a.wav"
    soundfile.write(path, sound, RATE, subtype=kind)
    found = read_sound(path)
    expected, rate = soundfile.read(path, dtype="float32", always_2d=True)
    assert (found.rate, rate) == (RATE, RATE)
    np.testing.assert_allclose(found.samples, expected.mean(1), atol=1e-6)
    # the coarsest kinds have eight bits
    np.testing.assert_allclose(found.samples, sound.mean(1), atol=0.02 if kind in ("PCM_U8", "ULAW") else 1e-4)


def test_flac_is_read_by_soundfile_and_its_absence_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, sine(300, RATE).numpy(), RATE)
    assert len(read_sound(path).samples) == 4000
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"a\.flac: .*pip install heedful\[audio\]"):
        read_sound(path)


def test_what_is_no_sound_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with pytest.raises(DataError, match=r"a\.wav: there is no such file; check the path"):
        read_sound(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.wav: is not a sound that can be read .*; convert it"):
        read_sound(path)
    path.write_bytes(b"RIFF of nothing at all")
    with pytest.raises(DataError, match=r"a\.wav: is not a sound that can be read"):
        read_sound(path)
    soundfile.write(path, np.zeros(0), RATE)
    with pytest.raises(DataError, match=r"a\.wav: holds no sound; record it again"):
        read_sound(path)
    soundfile.write(path, np.array([0.0, np.nan, 0.1], np.float32), RATE, subtype="FLOAT")
    with pytest.raises(DataError, match=r"a\.wav: holds samples that are not numbers"):
        read_sound(path)


def test_of_a_file_that_was_cut_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, RATE, 0, "NONE", ""))
        file.writeframes(np.full(200, 1000, "<i2").tobytes())
    path.write_bytes(path.read_bytes()[:-101])
    found = read_sound(path).samples
    assert 70 <= len(found) < 100
    torch.testing.assert_close(found, torch.full_like(found, 1000 / 2**15))


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg"])
def test_what_a_file_holds_is_what_the_file_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, np.stack([sine(300, RATE).numpy(), sine(500, RATE).numpy()], 1), RATE)
    held = decode_sound(BytesIO(path.read_bytes()), name="sound", max_seconds=1.0)
    found = read_sound(path)
    assert held.rate == found.rate
    torch.testing.assert_close(held.samples, found.samples, atol=0, rtol=0)
    with pytest.raises(DataError, match=r"sound: has more than 0\.4 s; split it"):
        decode_sound(BytesIO(path.read_bytes()), name="sound", max_seconds=0.4)


def test_a_long_silence_in_few_bytes_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros(2**20, np.float32), RATE)
    asked: list[int] = []
    read = soundfile.SoundFile.read

    def counted(self: soundfile.SoundFile, frames: int, **given: str | bool) -> np.ndarray:
        asked.append(frames)
        found: np.ndarray = read(self, frames, **given)
        return found

    monkeypatch.setattr(soundfile.SoundFile, "read", counted)
    with pytest.raises(DataError, match="has more than 2 s"):
        decode_sound(BytesIO(path.read_bytes()), name="sound", max_seconds=2.0)
    assert sum(asked) == 2 * RATE + 1


def headed(*, rate: int = RATE, bits: int = 16, claimed: int = 400, channels: int = 1) -> bytes:
    """A WAV of 400 bytes of sound, whatever its head says of them."""
    width = bits // 8 * channels
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * width % 2**32, width % 2**16, bits)
    return b"RIFF" + struct.pack("<I", 36 + 400) + b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack(
        "<I", claimed
    ) + bytes(400)  # fmt: skip


@pytest.mark.parametrize(
    "head",
    [{"rate": 0}, {"rate": 768_001}, {"rate": 2**32 - 1}, {"bits": 40}, {"bits": 48}, {"channels": 0}],
)
def test_heads_that_say_what_no_sound_has(head: dict[str, int]) -> None:
    with pytest.raises(DataError, match=r"sound: .*convert it"):
        decode_sound(BytesIO(headed(**head)), name="sound")


def test_a_part_that_says_it_is_longer_than_the_whole_is_told() -> None:
    content = headed().replace(b"fmt ", b"LIST").replace(struct.pack("<I", 436), struct.pack("<I", 20))
    with pytest.raises(DataError, match="sound: is not a sound that can be read"):
        decode_sound(BytesIO(content), name="sound")


def parts(*, riff: int | None, every: list[tuple[bytes, int | None, bytes]]) -> bytes:
    """A file of these parts: a name, the size that is said, the true one unless given, and the content."""
    body = b"WAVE"
    for name, size, content in every:
        body += name + struct.pack("<I", len(content) if size is None else size) + content + b"\0" * (len(content) % 2)
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


PLAIN = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
BYTES = struct.pack("<HHIIHH", 1, 1, RATE, RATE, 1, 8)
EXTENSIBLE = struct.pack("<HHIIHHHHI", 0xFFFE, 1, RATE, 2 * RATE, 2, 16, 22, 16, 0) + bytes.fromhex(
    "0100000000001000800000aa00389b71"
)
WRITTEN = np.array([1000, -2000, 3000, -4000, 5000], "<i2").tobytes()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (parts(riff=0, every=[(b"fmt ", None, PLAIN), (b"data", 0, WRITTEN)]), 5),
        (parts(riff=2**32 - 1, every=[(b"fmt ", None, PLAIN), (b"data", 2**32 - 1, WRITTEN)]), 5),
        (parts(riff=0, every=[(b"fmt ", None, PLAIN), (b"LIST", None, b"odd"), (b"data", 0, WRITTEN)]), 5),
        (parts(riff=None, every=[(b"fmt ", None, PLAIN), (b"data", 2**31, WRITTEN)]), 5),
        (parts(riff=None, every=[(b"fmt ", None, PLAIN), (b"data", 11, WRITTEN)]), 5),
        (parts(riff=None, every=[(b"fmt ", None, EXTENSIBLE), (b"data", None, WRITTEN)]), 5),
        (parts(riff=0, every=[(b"fmt ", None, EXTENSIBLE), (b"data", 0, WRITTEN)]), 5),
        (
            parts(
                riff=None, every=[(b"fmt ", None, PLAIN), (b"data", None, WRITTEN[:4]), (b"data", None, WRITTEN[4:])]
            ),
            5,
        ),
        (
            parts(
                riff=None,
                every=[
                    (b"fmt ", None, BYTES),
                    (b"data", None, b"abc"),
                    (b"LIST", None, b"odd"),
                    (b"data", None, b"de"),
                ],
            ),
            -5,
        ),
    ],
)
def test_sounds_of_writers_that_could_not_go_back(content: bytes, expected: int) -> None:
    found = decode_sound(BytesIO(content), name="sound").samples
    numbers = (
        np.frombuffer(WRITTEN, "<i2") / 2**15 if expected > 0 else (np.frombuffer(b"abcde", np.uint8) - 128.0) / 128
    )
    np.testing.assert_allclose(found, numbers, atol=1e-7)


def test_a_sound_that_says_it_is_empty_is_empty() -> None:
    content = parts(riff=None, every=[(b"fmt ", None, PLAIN), (b"data", 0, b""), (b"LIST", None, b"about it")])
    with pytest.raises(DataError, match="holds no sound"):
        decode_sound(BytesIO(content), name="sound")


@pytest.mark.parametrize("claimed", [0xFFFFFFFF, 0x7FFFFFFE, 402])
def test_more_is_claimed_than_there_is(claimed: int) -> None:
    found = decode_sound(BytesIO(headed(claimed=claimed)), name="sound", max_seconds=20.0)
    assert len(found.samples) <= 200


@pytest.mark.parametrize(
    ("before", "after"), [(44100, 16000), (8000, 16000), (16000, 8000), (11025, 8000), (8001, 8000)]
)
def test_a_resampled_sine_is_the_sine(before: int, after: int) -> None:
    found = resample(sine(440, before), before, after)
    assert len(found) == math.ceil(round(0.5 * before) * after / before)
    # away from the ends, beyond which there is silence; 16 zero crossings leave ripples of a few ten-thousandths
    torch.testing.assert_close(found[200:-200], sine(440, after)[200 : len(found) - 200], atol=2e-3, rtol=0)


def test_what_the_lower_rate_cannot_hold_is_left_out_and_the_rest_is_as_scipy_has_it() -> None:
    high = resample(sine(6000, 16000), 16000, 8000)[100:-100]
    assert high.abs().max() < 1e-3
    mixed = sine(300, 16000) + 0.5 * sine(2500, 16000)
    expected = resample_poly(mixed.numpy(), 1, 2)
    np.testing.assert_allclose(resample(mixed, 16000, 8000)[100:-100], expected[100:-100], atol=0.02)


def test_a_long_sound_is_resampled_in_parts_as_if_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resample(sine(440, 11025), 11025, 8000)
    monkeypatch.setattr("heedful.data.sound._PRODUCTS_PER_BLOCK", 777)
    torch.testing.assert_close(resample(sine(440, 11025), 11025, 8000), whole)


def longhand(samples: list[float], front: LogMel) -> list[list[float]]:
    """Frame by frame, frequency by frequency, in plain loops."""
    width, step, size = front.frame_length, front.hop_length, 1
    while size < width:
        size *= 2

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    def hertz(of_mel: float) -> float:
        return 700 * (10 ** (of_mel / 2595) - 1)

    low, high = mel(front.low), mel(front.high or front.rate / 2)
    peaks = [hertz(low + (high - low) * k / (front.bands + 1)) for k in range(front.bands + 2)]
    found: list[list[float]] = []
    for start in range(0, len(samples) - width + 1, step):
        power = []
        for k in range(size // 2 + 1):
            real = imaginary = 0.0
            for n in range(width):
                x = samples[start + n] * (0.5 - 0.5 * math.cos(2 * math.pi * n / width))
                real += x * math.cos(2 * math.pi * k * n / size)
                imaginary -= x * math.sin(2 * math.pi * k * n / size)
            power.append((real**2 + imaginary**2) / width)
        row = []
        for left, peak, right in zip(peaks, peaks[1:], peaks[2:], strict=False):
            total = 0.0
            for k, each in enumerate(power):
                at = k * front.rate / size
                if left < at <= peak:
                    total += each * (at - left) / (peak - left)
                elif peak < at < right:
                    total += each * (right - at) / (right - peak)
            row.append(total)
        found.append(row)
    least = max(1e-10, 1e-8 * max(map(max, found)))
    logs = [[math.log(max(each, least)) for each in row] for row in found]
    if not front.normalise:
        return logs
    columns = []
    for column in zip(*logs, strict=True):
        mean = sum(column) / len(column)
        deviation = math.sqrt(sum((each - mean) ** 2 for each in column) / len(column))
        columns.append([(each - mean) / max(deviation, 1e-3) for each in column])
    return [list(row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("normalise", [False, True])
def test_frames_are_those_of_plain_loops(normalise: bool) -> None:
    front = LogMel(rate=1000, bands=7, window=25, hop=10, normalise=normalise)
    samples = torch.randn(88) * 0.1 + sine(100, 1000, 0.088)
    found = front.compute_frames(Sound(samples, 1000))
    assert found.shape == (7, 7)
    # single precision beside double, behind a logarithm
    torch.testing.assert_close(found, torch.tensor(longhand(samples.tolist(), front)), atol=2e-3, rtol=2e-3)


def test_loudness_and_silence_leave_no_trace() -> None:
    front, samples = LogMel(rate=RATE), sine(500, RATE) + 0.1 * torch.randn(4000)
    one, other = (front.compute_frames(Sound(loud * samples, RATE)) for loud in (1.0, 0.01))
    # the floor of what is told apart moves with the loudness
    torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
    assert front.compute_frames(Sound(torch.zeros(4000), RATE)).abs().max() == 0
    assert front.compute_frames(Sound(torch.ones(199), RATE)).shape == (0, 40)
    assert front.compute_frames(Sound(torch.ones(200), RATE)).shape == (1, 40)


def test_a_sine_sounds_in_the_band_that_it_is_in() -> None:
    front = LogMel(rate=RATE, normalise=False)
    bands = [
        int(front.compute_frames(Sound(sine(hertz, RATE), RATE)).mean(0).argmax()) for hertz in (150, 500, 1500, 3500)
    ]
    assert bands == sorted(set(bands))
    assert (front.build_filterbank().sum(0) > 0).all(), "a band that no frequency reaches"
