"""A trained model as its user sees it: files of sound in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.probe import SOURCE
from heedful.data.sound import LogMel, Sound, read_sound
from heedful.errors import DataError, RecipeError
from heedful.generation.hypotheses import Hypotheses, Hypothesis
from heedful.given_texts import file_list
from heedful.inspection.record import Axis, Record
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.tasks.faces import Asked, Face, Lines, Saying, cell, in_batches
from heedful.tasks.inspecting import Scope
from heedful.tasks.speech.data import SHORTENED, slots_of, stacked
from heedful.tasks.speech.ways import Way
from heedful.tasks.target import Candidate, Target
from heedful.values import Vectors, move

Said: TypeAlias = Path | str | Sound
"""A file of sound, or what it holds."""


@dataclass(frozen=True)
class Transcription:
    """What is said in a sound.

    Attributes:
        sound: the file, or a number where there is none.
        seconds: how long it is.
        candidates: best first.
    """

    sound: str
    seconds: float
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best one."""
        return self.candidates[0].text


@dataclass(frozen=True)
class _Heard:
    """The frames of a sound, its number, and how long it is."""

    frames: Tensor
    number: int
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Recogniser(Face):
    """A model with the vocabulary that it was trained with, and what makes frames for it.

    Attributes:
        model: in evaluation mode.
        target: the side that is written.
        front: makes frames.
        seconds: longest sound.
        generation: how texts are looked for unless a call says otherwise.
        way: makes a way of that, of a number of texts and of a seed.
    """

    model: nn.Module
    _: KW_ONLY
    target: Target
    front: LogMel
    seconds: float
    generation: GenerationConfig
    way: Callable[..., Way]

    def transcribe(
        self,
        sounds: Said | Sequence[Said],
        *,
        generation: GenerationConfig | None = None,
        n_best: int = 1,
        seed: int = 1,
        batch_frames: int = 32_000,
        first: int = 1,
    ) -> list[Transcription]:
        """What is said in sounds, in their order; inside, long ones first and many at a time.

        Args:
            sounds: files, or what they hold; a single one is a list of one.
            generation: instead of the recogniser's own.
            n_best: texts for each, at most.
            seed: of sampling.
            batch_frames: padded frames that are read at one time.
            first: number of the first sound, which is its source of chance when sampling.

        Raises:
            DataError: a file is missing, no sound, shorter than a frame or longer than the model reads.
            RecipeError: the generation does not fit the model.
        """
        way = self.way(generation or self.generation, n_best=n_best, seed=seed)
        sounds = file_list(sounds, Sound, name="sounds", noun="file of sound")
        heard = [self._heard(sound, number) for number, sound in enumerate(sounds, first)]
        say = Saying[_Heard, Sequence[Hypothesis]](self._found, (way,))

        found = in_batches(heard, say, size=lambda each: len(each.frames), tokens=batch_frames, rows=64)
        return [
            Transcription(_named(sound, each.number), each.seconds, tuple(map(self.target.candidate, texts)))
            for sound, each, texts in zip(sounds, heard, found, strict=True)
        ]

    def _found(self, batch: list[_Heard], way: Way) -> Hypotheses:
        source = move(stacked([each.frames for each in batch]), self.target.device)
        return way.find(self.model, source, numbers=[each.number for each in batch])

    def inspect(self, sound: Said, text: str | None = None, *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a sound and writes what is said, or reads a given text.

        A model without a decoder writes nothing: what each slot says are its answers.

        Args:
            sound: a file, or what it holds.
            text: what is said; unless given, the best that is found.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: the file cannot be read.
            RecipeError: no such layer or head, or a text for a model that reads none.
        """
        scope, frames = scope or Scope(), self._heard(sound, 1).frames
        source = _padded(stacked([frames]), to=SHORTENED * (slots_of(len(frames)) + scope.padding))
        names = scope.named([str(slot) for slot in range(slots_of(len(frames)))])
        axis = Axis(SOURCE, names, "frames", pictures=_spectrogram(source))
        way, source = self.way(self.generation), move(source, self.target.device)
        return way.look(self.model, source, text, scope=scope, axis=axis, title=_named(sound, 1))

    def lines(self) -> SpeechLines:
        """A file of sound a line."""
        return SpeechLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; the source is a file of sound."""
        heard = self if asked.beam is None else self.widened(asked.beam)
        return heard.inspect(asked.source, asked.target, scope=asked.scope)

    def widened(self, beam: int) -> Recogniser:
        """The same with a beam of another width; `RecipeError` where it searches with none."""
        if not isinstance(self.generation, BeamConfig):
            raise RecipeError("--beam: this run's recipe does not search with a beam; leave it out")
        return replace(self, generation=self.generation.model_copy(update={"width": beam}))

    def _heard(self, given: Said, number: int) -> _Heard:
        sound, place = (given, f"sound {number}") if isinstance(given, Sound) else (read_sound(Path(given)), given)
        seconds = len(sound.samples) / sound.rate
        if seconds > self.seconds:
            raise DataError(f"{place}: has {seconds:.1f} s, this model reads at most {self.seconds:g}; split it")
        frames = self.front.frames(sound)
        if not len(frames):
            raise DataError(
                f"{place}: has {1000 * seconds:.0f} ms, and a frame needs {self.front.window:g}; give a longer sound"
            )
        return _Heard(frames, number, round(seconds, 3))


def _named(sound: Said, number: int) -> str:
    return str(number) if isinstance(sound, Sound) else str(sound)


def _padded(source: Vectors, *, to: int) -> Vectors:
    """With as many columns, the last of which hold no frame."""
    more = to - source.positions.size(1)
    return Vectors(
        functional.pad(source.vectors, (0, 0, 0, more)), functional.pad(source.positions, (0, more), value=-1)
    )


def _spectrogram(source: Vectors) -> Shaped[np.ndarray, "1 H W 3"]:
    """One sound's frames as a picture, high tones above: black where there is least, white where most."""
    bands = source.vectors[0].T.flip(0)
    low, high = bands.min(), bands.max()
    grey = (255 * (bands - low) / (high - low).clamp(min=1e-3)).to(torch.uint8).numpy()
    return np.repeat(grey[None, :, :, None], 3, 3)


@final
@dataclass(frozen=True)
class SpeechLines(Lines[str, tuple[int, Transcription]]):
    """A file of sound a line; its text, or several with number and score between tabs.

    Attributes:
        recogniser: who listens.
        generation: how; the recogniser's way unless given.
        n_best: texts for each sound.
        seed: of sampling.
    """

    recogniser: Recogniser
    generation: GenerationConfig | None = None
    n_best: int = 1
    seed: int = 1
    chunk = 256

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[str]:
        """Names of files; empty lines are none."""
        return (line.strip() for line in lines if line.strip())

    def answers(self, inputs: Sequence[str], *, first: int) -> list[tuple[int, Transcription]]:
        """Numbers and transcriptions."""
        found = self.recogniser.transcribe(
            inputs, generation=self.generation, n_best=self.n_best, seed=self.seed, first=first
        )
        return list(enumerate(found, first))

    def record(self, answer: tuple[int, Transcription]) -> Any:
        """All candidates with their scores."""
        _, heard = answer
        candidates = [each.record for each in heard.candidates]
        return {"sound": heard.sound, "seconds": heard.seconds, "text": heard.text, "candidates": candidates}

    def text(self, answer: tuple[int, Transcription]) -> str:
        """The best one, or a line for each."""
        number, heard = answer
        if self.n_best == 1:
            return f"{heard.text}\n"
        return "".join(f"{number}\t{cell(each.text)}\t{each.score:.4f}\n" for each in heard.candidates)
