"""The speech recognition predictor: sound files in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional

from heedful.argument_checks import to_file_list
from heedful.attention.hooks import SOURCE_AXIS
from heedful.data.sound import Frontend, Sound
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import Hypotheses, Hypothesis
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.models.interface import State
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.decoder_target import DecoderTarget, TextCandidate
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.predictor import (
    AnswerRecord,
    BatchMethod,
    CandidateRecord,
    InspectRequest,
    LineFormat,
    Predictor,
    escape_cell,
    run_batched,
)
from heedful.tasks.speech.data import count_slots, pad_frames
from heedful.tasks.speech.decoding import CTCRescoring, SpeechDecoding, remove_prompts
from heedful.tensors import FeatureBatch, move_to_device

SoundInput: TypeAlias = Path | str | Sound
"""A file of sound, or what it holds."""


@dataclass(frozen=True)
class Transcription:
    """The transcript candidates of a sound.

    Attributes:
        sound: the file, or a number if there is none.
        seconds: length of the sound.
        candidates: best first.
    """

    sound: str
    seconds: float
    candidates: tuple[TextCandidate, ...]

    @property
    def text(self) -> str:
        """The best candidate."""
        return self.candidates[0].text


class TranscriptRecord(AnswerRecord):
    """The transcript of a sound, as `heedful transcribe --format jsonl` writes it."""

    sound: str
    seconds: float
    text: str
    candidates: list[CandidateRecord]


@dataclass(frozen=True)
class _SoundFrames:
    """The acoustic frames of a sound, its number, and its length in seconds."""

    frames: Tensor
    number: int
    seconds: float


@dataclass(frozen=True)
class _SoundTexts:
    """The acoustic frames of a sound, and texts that it may have."""

    sound: _SoundFrames
    texts: Sequence[Hypothesis]


@final
@dataclass(frozen=True)
class SpeechSearchCall(SearchCall[_SoundFrames]):
    """Search call that generates the texts of sounds.

    Attributes:
        decoding: says what to generate for each sound.
        build_source: builds the source batch of some sounds.
    """

    decoding: SpeechDecoding
    build_source: Callable[[Sequence[_SoundFrames]], FeatureBatch] = field(compare=False)

    def start_search(self, batch: list[_SoundFrames]) -> tuple[State, GenerationRequest]:
        """Encode a batch of sounds, and return the decoding state and the request with prompts and length limits."""
        model: Any = self.engine
        memory = model.encoder(self.build_source(batch))
        requests = self.decoding.build_requests(model, memory, numbers=[sound.number for sound in batch])
        return model.decoder.init_state(memory), self.decoding.target.build_generation_request(requests)


@keep_old_names(front="frontend", seconds="max_seconds", way="make_decoding", widened="with_beam_width")
@dataclass(frozen=True, eq=False, repr=False)
class SpeechRecognizer(Predictor):
    """A speech recognition model with its vocabulary and acoustic frontend.

    Attributes:
        model: in evaluation mode.
        target: the side that is generated.
        frontend: computes acoustic frames.
        max_seconds: longest sound.
        generation: the default search settings.
        make_decoding: builds a `SpeechDecoding` from search settings, a number of candidates and a seed.
        frames_per_slot: number of frames that become one slot of the model's memory.
    """

    command = "transcribe"

    model: nn.Module
    _: KW_ONLY
    target: DecoderTarget
    frontend: Frontend
    max_seconds: float
    generation: GenerationConfig
    make_decoding: Callable[..., SpeechDecoding]
    frames_per_slot: int = 4

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that `with_language` can choose; none if the model knows only that of its training."""
        return ()

    @property
    def max_slots(self) -> int:
        """Number of memory slots of the longest sound that is read at once."""
        num_frames = round(1000 * self.max_seconds / self.frontend.hop)
        return count_slots(num_frames, frames_per_slot=self.frames_per_slot)

    def transcribe(
        self,
        sounds: SoundInput | Sequence[SoundInput],
        *,
        generation: GenerationConfig | None = None,
        n_best: int = 1,
        seed: int = 1,
        batch_frames: int = 32_000,
        first: int = 1,
        heard: Callable[[int, TextCandidate], None] | None = None,
    ) -> list[Transcription]:
        """Transcribe sounds in the given order; internally, long ones are processed first and in batches.

        Args:
            sounds: files or `Sound` objects; a single one is a list of one.
            generation: search settings instead of the recogniser's own.
            n_best: maximal number of candidates per sound.
            seed: of sampling.
            batch_frames: padded frames per batch.
            first: number of the first sound, which determines its random numbers in sampling.
            heard: called with the index of a sound, from 0, and its best text so far, whenever there is more of it; it
                is not called if CTC alone finds the texts, all at once.

        Raises:
            DataError: a file is missing, is not a sound, is shorter than a frame or longer than the model reads.
            RecipeError: the search settings do not fit the model.
        """
        decoding = self.make_decoding(generation or self.generation, n_best=n_best, seed=seed)
        sounds = to_file_list(sounds, Sound, name="sounds", noun="file of sound")
        encoded = [self._compute_frames(sound, number) for number, sound in enumerate(sounds, first)]
        options: dict[str, Any] = {"batch_tokens": batch_frames, "max_rows": 64}
        if heard is not None and decoding.growing_search is not None:
            hypotheses = self._decode_growing(encoded, decoding, heard, options)
        else:
            decode_batch = BatchMethod[_SoundFrames, Sequence[Hypothesis]](self._decode_batch, (decoding,))
            hypotheses = run_batched(encoded, decode_batch, size=_count_frames, **options)
        return [
            Transcription(
                _name_sound(sound, sound_frames.number),
                sound_frames.seconds,
                tuple(map(self.target.to_candidate, texts)),
            )
            for sound, sound_frames, texts in zip(sounds, encoded, hypotheses, strict=True)
        ]

    def _decode_batch(self, batch: list[_SoundFrames], decoding: SpeechDecoding) -> Hypotheses:
        numbers = [sound_frames.number for sound_frames in batch]
        return decoding.decode(self.model, self._build_source(batch), numbers=numbers)

    def _decode_growing(
        self,
        encoded: Sequence[_SoundFrames],
        decoding: SpeechDecoding,
        heard: Callable[[int, TextCandidate], None],
        options: Mapping[str, Any],
    ) -> Sequence[Sequence[Hypothesis]]:
        """Decode sounds with the search of a decoding, call `heard` with their texts so far, and return their
        candidates. `options` are those of `run_batched`.
        """
        model: Any = self.model
        search, prompt_size = decoding.growing_search, decoding.num_prompt_ids
        assert search is not None, "other decodings find whole texts at once"

        def report_growth(index: int, ids: Sequence[int]) -> None:
            if len(ids) > prompt_size:
                heard(index, self.target.to_growing_candidate(ids[prompt_size:]))

        search_call = SpeechSearchCall(model, search, decoding, self._build_source)
        found = run_batched(encoded, search_call, size=_count_frames, on_tokens=report_growth, **options)
        if isinstance(decoding, CTCRescoring):
            rerank_batch = BatchMethod[_SoundTexts, Sequence[Hypothesis]](self._rerank_batch, (decoding,))
            sound_texts = list(map(_SoundTexts, encoded, found))
            return run_batched(sound_texts, rerank_batch, size=lambda item: _count_frames(item.sound), **options)
        return remove_prompts(found, prompt_size)

    def _rerank_batch(self, batch: list[_SoundTexts], decoding: CTCRescoring) -> Hypotheses:
        model: Any = self.model
        memory = model.encoder(self._build_source([item.sound for item in batch]))
        return decoding.rerank(model, memory, [list(item.texts) for item in batch])

    def _build_source(self, batch: Sequence[_SoundFrames]) -> FeatureBatch:
        return move_to_device(pad_frames([sound_frames.frames for sound_frames in batch]), self.target.device)

    def inspect(
        self, sound: SoundInput, text: str | None = None, *, scope: InspectionSelection | None = None
    ) -> InspectionRecord:
        """Record the attention of the model while it reads a sound and generates its text, or reads a given text.

        A model without a decoder generates nothing: its answers are the labels of the slots.

        Args:
            sound: a file or a `Sound`.
            text: the text to read; the best one found unless given.
            scope: which layers, heads and details are recorded; all unless given.

        Raises:
            DataError: the file cannot be read.
            RecipeError: there is no such layer or head, or a text is given to a model that does not read text.
        """
        scope, frames = scope or InspectionSelection(), self._compute_frames(sound, 1).frames
        slots = count_slots(len(frames), frames_per_slot=self.frames_per_slot)
        source = _pad_columns(pad_frames([frames]), length=self.frames_per_slot * (slots + scope.padding))
        names = scope.name_columns([str(slot) for slot in range(slots)])
        axis = MapAxis(SOURCE_AXIS, names, "frames", pictures=_draw_spectrogram(source))
        decoding, source = self.make_decoding(self.generation), move_to_device(source, self.target.device)
        return decoding.inspect(self.model, source, text, selection=scope, axis=axis, title=_name_sound(sound, 1))

    def line_format(self) -> SpeechLineFormat:
        """Return the line format that reads one sound file per line."""
        return SpeechLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's sound file, with its text if given."""
        recognizer = self if request.beam is None else self.with_beam_width(request.beam)
        return recognizer.inspect(request.source, request.target, scope=request.selection)

    def with_language(self, language: str | None, *, to_english: bool = False) -> SpeechRecognizer:
        """Return the same model for speech in a language, transcribed or translated into English; `RecipeError` if it
        knows no languages, as this one.
        """
        if language is not None or to_english:
            option = "--to-english" if language is None else "--language"
            raise RecipeError(f"{option}: this model knows the language of its training only; leave it out")
        return self

    def with_beam_width(self, width: int) -> SpeechRecognizer:
        """Return a copy with another beam width; raise `RecipeError` if the search has no beam."""
        if not isinstance(self.generation, BeamConfig):
            raise RecipeError("--beam: this run's recipe does not search with a beam; leave it out")
        return replace(self, generation=self.generation.model_copy(update={"width": width}))

    def _compute_frames(self, sound_input: SoundInput, number: int) -> _SoundFrames:
        """Read a sound if it is a file, and compute its acoustic frames; raise `DataError` if it is too long or shorter
        than a frame. `number` is the number of the sound.
        """
        sound, name = (
            (sound_input, f"sound {number}")
            if isinstance(sound_input, Sound)
            else (self.frontend.read(Path(sound_input)), sound_input)
        )
        seconds = len(sound.samples) / sound.rate
        if seconds > self.max_seconds:
            raise DataError(f"{name}: has {seconds:.1f} s, this model reads at most {self.max_seconds:g}; split it")
        frames = self.frontend.compute_frames(sound)
        if not len(frames):
            raise DataError(
                f"{name}: has {1000 * seconds:.0f} ms, and a frame needs {self.frontend.window:g}; give a longer sound"
            )
        return _SoundFrames(frames, number, round(seconds, 3))


def _count_frames(sound: _SoundFrames) -> int:
    return len(sound.frames)


def _name_sound(sound: SoundInput, number: int) -> str:
    return str(number) if isinstance(sound, Sound) else str(sound)


def _pad_columns(source: FeatureBatch, *, length: int) -> FeatureBatch:
    """Pad the frames of each sound in a batch with empty columns up to a length."""
    num_added = length - source.positions.size(1)
    return FeatureBatch(
        functional.pad(source.vectors, (0, 0, 0, num_added)), functional.pad(source.positions, (0, num_added), value=-1)
    )


def _draw_spectrogram(source: FeatureBatch) -> Shaped[np.ndarray, "1 H W 3"]:
    """Return the frames of the first sound in a batch as a grey picture, high frequencies on top, the lowest value
    black, the highest white.
    """
    bands = source.vectors[0].T.flip(0)
    low, high = bands.min(), bands.max()
    grey = (255 * (bands - low) / (high - low).clamp(min=1e-3)).to(torch.uint8).numpy()
    return np.repeat(grey[None, :, :, None], 3, 3)


@final
@dataclass(frozen=True)
class SpeechLineFormat(LineFormat[str, tuple[int, Transcription]]):
    """Reads one sound file per line; writes its text, or several candidates with number and score, tab-separated.

    Attributes:
        recognizer: transcribes the sounds.
        generation: search settings; the recogniser's own unless given.
        n_best: candidates per sound.
        seed: of sampling.
    """

    recognizer: SpeechRecognizer
    generation: GenerationConfig | None = None
    n_best: int = 1
    seed: int = 1
    chunk_size = 256

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[str]:
        """Return the file names, without empty lines."""
        return (line.strip() for line in lines if line.strip())

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[tuple[int, Transcription]]:
        """Transcribe the sound files, and return each transcription with its number; the first has number `start`."""
        transcriptions = self.recognizer.transcribe(
            inputs, generation=self.generation, n_best=self.n_best, seed=self.seed, first=start
        )
        return list(enumerate(transcriptions, start))

    def to_record(self, answer: tuple[int, Transcription]) -> TranscriptRecord:
        """Return the record of a transcription, without its number: all candidates with their scores."""
        _, transcription = answer
        return TranscriptRecord(
            sound=transcription.sound,
            seconds=transcription.seconds,
            text=transcription.text,
            candidates=[candidate.to_record() for candidate in transcription.candidates],
        )

    def format_answer(self, answer: tuple[int, Transcription]) -> str:
        """Format an answer: the number of the sound file and its transcription. If one candidate was asked for, return
        its text as one line, else a line with the number, text and score of each candidate.
        """
        number, transcription = answer
        if self.n_best == 1:
            return f"{transcription.text}\n"
        return "".join(
            f"{number}\t{escape_cell(candidate.text)}\t{candidate.score:.4f}\n"
            for candidate in transcription.candidates
        )
