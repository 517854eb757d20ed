"""`heedful quickstart speech`: train a small model to transcribe digits spoken by synthetic voices.

A voice is a buzz or a hiss through moving resonators (Klatt 1980, simplified), with its own pitch, vocal tract length,
speed, breath and room noise. No two parts of the data share a voice or a string.
"""

from __future__ import annotations

import io
import random
import wave
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from heedful.tasks.demonstration import Demonstration, format_correction, print_now, write_viewer

if TYPE_CHECKING:
    from heedful.tasks.speech.predictor import SpeechRecognizer

WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE: Final = 8000
PARTS: Final = ("train", "validation", "test")
VOICES: Final = {"train": 400, "validation": 40, "test": 40}
MAX_DIGITS: Final = 6
_HOP, _WINDOW, _SIZE = 32, 128, 256
"""Samples from one frame of the synthesis to the next, in a frame, and in its spectrum."""
_RECIPE: Final = """\
# Written by: heedful quickstart speech. Go on with it: heedful train {recipe} --training.steps 2000

task = "speech"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.tsv" }}
validation = {{ path = "validation.tsv" }}
test = {{ path = "test.tsv" }}
frames = {{ rate = 8000 }}
max_seconds = 10
max_length = 20

[tokenizer]
kind = "words"

[model]
d_model = 96
layers = 3
d_ff = 256
channels = 16
ctc_weight = 0.5

[model.decoder]
layers = 1
d_ff = 256

[training]
steps = {steps}
batch_tokens = 3000
schedule = {{ kind = "cosine", rate = 2e-3, warmup = 50 }}
clip = 1.0
evaluate_every = 250
monitor = "exact"

[generation]
width = 4
"""
_TEST_DIGITS: Final = 4
"""In each string of the test part."""


@final
@dataclass(frozen=True, kw_only=True)
class SpeechDemonstration(Demonstration):
    """Train a small Transformer on strings of spoken digits, and show what it transcribes.

    The voices are synthesised by rules: a buzz or a hiss through resonators. The test part has other voices and other
    strings than the training part.
    """

    recipe_template: ClassVar = _RECIPE
    own_data: ClassVar = "recordings"

    output: Path = Path("runs/quickstart-speech")
    """folder for the recordings, the recipe and the run"""
    steps: int = 2500
    """number of updates; about three minutes on two cores"""
    size: int = 2000
    """number of training recordings"""
    tests: int = 500
    """number of test recordings, each of four digits"""

    def iter_files(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield the name and content of each file: the recordings of each part, and its table."""
        validation = max(20, self.tests // 5)
        print_now(f"{self.size + self.tests + validation:,} recordings are made")
        for part, count, digits in (
            ("train", self.size, None),
            ("validation", validation, None),
            ("test", self.tests, _TEST_DIGITS),
        ):
            rows = []
            for number, recording in enumerate(generate_recordings(part, count, seed=self.seed, digits=digits)):
                name = f"{part}/{number:05d}.wav"
                yield name, recording.wav
                rows.append(f"{name}\t{recording.text}\n")
            yield f"{part}.tsv", "".join(rows)

    def show_results(self, predictor: SpeechRecognizer, run_folder: Path) -> None:
        """Print error rates and some transcriptions of the predictor on the test part, and write a page of one
        recording beside the run folder.
        """
        from heedful.data.readers import read_lines
        from heedful.metrics.error_rates import word_error_rate

        folder = run_folder.parent
        rows = [line.split("\t") for line in read_lines(folder / "test.tsv")]
        sounds, references = [folder / name for name, _ in rows], [text for _, text in rows]
        transcripts = [each.text for each in predictor.transcribe(sounds)]
        exact = sum(map(str.__eq__, transcripts, references)) / len(references)
        print_now(f"\n{len(rows)} strings of four digits in voices that were never in the training part:")
        print_now(f"  exact {100 * exact:.1f} %   word errors {word_error_rate(transcripts, references).value:.2f} %\n")
        for sound, text, reference in list(zip(sounds, transcripts, references, strict=True))[:5]:
            print_now(f"  {sound}\n  -> {text}{format_correction(text, reference)}\n")
        page = folder / "heard.html"
        write_viewer(predictor.inspect(sounds[0]), page)
        commands = (("transcribe", run_folder, sounds[0]), ("evaluate", run_folder))
        self.print_next_steps("what it listened to", page, *commands)


class _Phone(NamedTuple):
    """A phone: milliseconds, three formants in Hz, loudness of buzz and hiss, and the hiss's centre in Hz."""

    time: float
    formants: tuple[float, float, float]
    buzz: float
    hiss: float = 0.0
    centre: float = 2000.0


_PHONES: Final = {
    "AH": _Phone(110, (640, 1200, 2450), 1.0),
    "AI": _Phone(110, (720, 1250, 2500), 1.0),
    "AO": _Phone(130, (570, 850, 2450), 1.0),
    "EH": _Phone(100, (540, 1850, 2500), 1.0),
    "EI": _Phone(80, (480, 1950, 2550), 1.0),
    "F": _Phone(90, (350, 1100, 2300), 0.0, 0.10, 2600),
    "IH": _Phone(80, (400, 1950, 2550), 0.9),
    "IY": _Phone(120, (280, 2250, 2950), 0.9),
    "K": _Phone(25, (300, 1900, 2500), 0.0, 0.35, 1900),
    "N": _Phone(80, (260, 1450, 2500), 0.35),
    "OH": _Phone(90, (500, 950, 2400), 1.0),
    "R": _Phone(60, (360, 1150, 1600), 0.6),
    "S": _Phone(120, (320, 1600, 2600), 0.0, 0.35, 3700),
    "T": _Phone(30, (320, 1700, 2600), 0.0, 0.40, 3300),
    "TH": _Phone(90, (320, 1300, 2500), 0.0, 0.09, 3000),
    "UH": _Phone(70, (400, 850, 2350), 0.8),
    "UW": _Phone(130, (320, 900, 2250), 0.9),
    "V": _Phone(60, (280, 1100, 2300), 0.3, 0.05, 2600),
    "W": _Phone(60, (300, 650, 2250), 0.5),
    "Z": _Phone(90, (300, 1600, 2600), 0.25, 0.18, 3700),
    "_": _Phone(45, (350, 1500, 2500), 0.0),
}
"""As a man says them; "_" is a closed mouth."""
_DIGIT_PHONES: Final = (
    ("Z", "IH", "R", "OH", "UH"),
    ("W", "AH", "N"),
    ("T", "UW"),
    ("TH", "R", "IY"),
    ("F", "AO", "R"),
    ("F", "AI", "IH", "V"),
    ("S", "IH", "_", "K", "S"),
    ("S", "EH", "V", "AH", "N"),
    ("EI", "IY", "_", "T"),
    ("N", "AI", "IH", "N"),
)


@dataclass(frozen=True)
class Voice:
    """A synthetic speaker in a room.

    Attributes:
        pitch: in Hz.
        throat: factor of the formants; below 1 for a long vocal tract.
        speed: divisor of the durations.
        breath: share of hiss in the buzz.
        tilt: in Hz, from where the buzz falls off.
        noise: of the room, as a share of the loudest sample.
    """

    pitch: float
    throat: float
    speed: float
    breath: float
    tilt: float
    noise: float

    @classmethod
    def from_number(cls, part: str, number: int, *, seed: int) -> Voice:
        """Return the voice `number` of a part of the data, drawn from the seed."""
        rng = random.Random(f"{seed} {part} voice {number}")
        height = rng.random()  # from men to children
        return cls(
            pitch=85 * 2 ** (1.6 * height + rng.uniform(-0.1, 0.1)),
            throat=0.88 + 0.32 * height + rng.uniform(-0.04, 0.04),
            speed=rng.uniform(0.75, 1.35),
            breath=rng.uniform(0.0, 0.15),
            tilt=rng.uniform(250, 900),
            noise=10 ** rng.uniform(-3.0, -1.5),
        )


class DigitRecording(NamedTuple):
    """The text of a recording, and its WAV file."""

    text: str
    wav: bytes


def generate_recordings(part: str, count: int, *, seed: int, digits: int | None = None) -> Iterator[DigitRecording]:
    """Generate `count` recordings of 1 to 6 digits, or of exactly `digits`, in the voices of a part of the data."""
    rng = random.Random(f"{seed} {part} {digits}")
    for number in range(count):
        string = _sample_digits(rng, part, digits)
        voice = Voice.from_number(part, rng.randrange(VOICES[part]), seed=seed)
        text = " ".join(WORDS[digit] for digit in string)
        yield DigitRecording(
            text, encode_wav(synthesize_digits(string, voice, seed=f"{seed} {part} {digits} {number}"))
        )


def assign_part(digits: Sequence[int]) -> str:
    """Return the part of the data for a string of digits: a tenth is for testing, a tenth for validation."""
    return {0: "test", 1: "validation"}.get(zlib.crc32(bytes(digits)) % 10, "train")


def synthesize_digits(string: Sequence[int], voice: Voice, *, seed: str) -> Int[np.ndarray, " N"]:
    """Synthesise a string of digits in a voice, as 16-bit samples at `RATE` per second."""
    rng = random.Random(seed)
    phones = [*_make_pause(rng)]
    for digit in string:
        duration_factor = rng.uniform(0.85, 1.2) / voice.speed
        phones += [_PHONES[name]._replace(time=_PHONES[name].time * duration_factor) for name in _DIGIT_PHONES[digit]]
        phones += _make_pause(rng)
    frames = [max(1, round(phone.time * RATE / 1000 / _HOP)) for phone in phones]
    track = np.repeat(np.array([[*each.formants, each.buzz, each.hiss, each.centre] for each in phones]), frames, 0)
    # a mouth takes its time from one place to the next, and less time to open than to move
    formants, loudness = _smooth_track(track[:, :3] * voice.throat, 11), _smooth_track(track[:, 3:5], 5)
    noise_rng = np.random.default_rng(zlib.crc32(seed.encode()))
    buzz, hiss = _make_sources(voice, len(track), rng, noise_rng)
    hertz = np.fft.rfftfreq(_SIZE, 1 / RATE)
    tones = _compute_resonances(hertz, formants, widths=(70.0, 100.0, 140.0)) / (1 + hertz / voice.tilt)
    hiss_resonances = _compute_resonances(hertz, track[:, 5:6] * voice.throat, widths=(900.0,))
    voiced = loudness[:, :1] * buzz * tones * (1 - voice.breath)
    breath = (loudness[:, 1:] * hiss_resonances + 0.3 * voice.breath * loudness[:, :1] * tones) * hiss
    sound = _overlap_add(np.fft.irfft(voiced + breath, _SIZE, 1))
    sound = sound / np.abs(sound).max() + voice.noise * noise_rng.standard_normal(len(sound))
    peak = rng.uniform(0.2, 0.9) * 2**15
    samples: np.ndarray = np.clip(sound / np.abs(sound).max() * peak, -(2**15), 2**15 - 1).astype("<i2")
    return samples


def encode_wav(samples: Int[np.ndarray, " N"]) -> bytes:
    """Encode 16-bit samples as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def _sample_digits(rng: random.Random, part: str, digits: int | None) -> list[int]:
    """Draw a string of `digits` digits, or of a random length if None, that belongs to a part of the data."""
    while True:
        sampled = [rng.randrange(10) for _ in range(digits or rng.randint(1, MAX_DIGITS))]
        if assign_part(sampled) == part:
            return sampled


def _make_pause(rng: random.Random) -> list[_Phone]:
    return [_PHONES["_"]._replace(time=rng.uniform(30, 250))]


def _make_sources(
    voice: Voice, frames: int, rng: random.Random, noise_rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the spectra of `frames` frames of a buzz with the voice's falling, trembling pitch, and of a hiss. `rng`
    draws the melody, `noise_rng` the hiss.
    """
    count = frames * _HOP + _WINDOW
    time = np.arange(count) / RATE
    melody = 1.1 - 0.2 * time / time[-1] + 0.06 * np.sin(2 * np.pi * (rng.uniform(1, 3) * time + rng.random()))
    periods = np.floor(np.cumsum(voice.pitch * melody) / RATE)
    pulses = np.diff(periods, prepend=0.0) * np.sqrt(RATE / voice.pitch)
    noise = noise_rng.standard_normal(count)
    window = np.hanning(_WINDOW + 1)[:-1]
    cuts = np.arange(frames)[:, None] * _HOP + np.arange(_WINDOW)
    buzz, hiss = (np.fft.rfft(source[cuts] * window, _SIZE, 1) for source in (pulses, noise))
    return buzz, hiss


def _compute_resonances(
    hertz: Float[np.ndarray, " F"], centres: Float[np.ndarray, "T n"], *, widths: Sequence[float]
) -> np.ndarray:
    """Return the response, at the frequencies `hertz`, of resonators in series in each frame, scaled to a maximum of 1.
    `centres` has their frequencies in Hz, `widths` their bandwidths.
    """
    total = np.ones((len(centres), len(hertz)), dtype=complex)
    z = np.exp(-2j * np.pi * hertz / RATE)
    for centre, width in zip(np.minimum(centres, 0.48 * RATE).T[:, :, None], widths, strict=True):
        radius = np.exp(-np.pi * width / RATE)
        coefficient = 2 * radius * np.cos(2 * np.pi * centre / RATE)
        total *= (1 - coefficient + radius**2) / (1 - coefficient * z + radius**2 * z**2)
    return np.asarray(total / np.abs(total).max(1, keepdims=True))


def _smooth_track(track: Float[np.ndarray, "T n"], width: int) -> Float[np.ndarray, "T n"]:
    """Return the moving average of each column over `width` frames."""
    padded = np.pad(track, ((width // 2, width // 2), (0, 0)), mode="edge")
    sums = np.cumsum(np.concatenate((np.zeros((1, track.shape[1])), padded)), 0)
    return np.asarray((sums[width:] - sums[:-width]) / width)


def _overlap_add(frames: Float[np.ndarray, "T size"]) -> Float[np.ndarray, " N"]:
    """Add frames of samples, each starting one hop after the previous one."""
    parts = _SIZE // _HOP
    sound = np.zeros((len(frames) + parts - 1, _HOP))
    for number in range(parts):
        sound[number : number + len(frames)] += frames[:, number * _HOP : (number + 1) * _HOP]
    return np.asarray(sound.ravel())
