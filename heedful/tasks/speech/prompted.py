"""Speech recognition with a prompt of language and task, and of long sounds in windows, as Whisper does (Radford et al.
2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.argument_checks import to_file_list
from heedful.data.pretrained_tokenizers import PretrainedTokenizer
from heedful.data.sound import PaddedLogMel, Sound
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.generation.results import Hypotheses
from heedful.generation.search import SearchStrategy
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Decoder, State
from heedful.recipes.generation import GenerationConfig, GreedyConfig
from heedful.tasks.decoder_target import DecoderTarget, TargetRequest, TextCandidate
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.speech.decoding import AttentionDecoding, SpeechDecoding, check_speech_search, remove_prompts
from heedful.tasks.speech.predictor import SoundInput, SpeechRecognizer, Transcription
from heedful.tensors import FeatureBatch, Memory, Tokens

_SEARCHED_SHARE: Final = 0.2
"""Share of a window, at its end, in which the quietest place is cut."""
TASKS: Final = ("transcribe", "translate")
"""What a model of many languages does with speech, as its pieces name it."""
_MAX_SECONDS: Final = 3600.0
"""Longest sound, in seconds, that is transcribed in windows."""
_CUT_SECONDS: Final = 0.1
"""Length of the stretch whose loudness is measured where a sound may be cut."""


@dataclass(frozen=True)
class SpeechPrompt:
    """What a model reads before it writes a transcript, after the token that begins a text: a language, a task, and an
    id that says that no times are written.

    Attributes:
        languages: id of each language by its code; empty if the model knows only one language or has no tasks.
        task_ids: ids of the tasks `transcribe` and `translate` (into English).
        last_ids: ids after the language and the task.
        language: code of the spoken language; None lets the model recognise it.
        to_english: whether the speech is translated into English.
    """

    languages: Mapping[str, int]
    task_ids: Mapping[str, int]
    last_ids: tuple[int, ...]
    language: str | None = None
    to_english: bool = False

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> SpeechPrompt:
        """Read the prompt from a vocabulary: its tags name languages, and the ids that texts begin with are a language,
        a task and others; any of these may be missing.
        """
        if not isinstance(tokenizer, PretrainedTokenizer):
            return cls({}, {}, ())
        languages = {tag.strip("<|>"): number for tag, number in tokenizer.tag_ids.items()}
        task_ids = {task: tokenizer.ids[piece] for task in TASKS if (piece := f"<|{task}|>") in tokenizer.ids}
        chosen = [code for code, number in languages.items() if number in tokenizer.prefix_ids]
        return cls(
            languages,
            task_ids,
            tuple(each for each in tokenizer.prefix_ids if each not in {*languages.values(), *task_ids.values()}),
            language=chosen[0] if chosen else None,
            to_english=task_ids.get("translate") in tokenizer.prefix_ids,
        )

    def with_language(self, language: str | None, *, to_english: bool = False) -> SpeechPrompt:
        """Return the same prompt for speech in a language, which is recognised if None, transcribed or translated.

        Raises:
            RecipeError: the model does not know the language; or it knows only one language, and a language or a
                translation is requested.
        """
        if language is not None and language not in self.languages:
            choices = ", ".join(sorted(self.languages)) or "only one language, so leave it out"
            raise RecipeError(f"language: {language!r}: this model knows {choices}")
        if to_english and not self.languages:
            raise RecipeError("--to-english: this model knows only English; leave it out")
        return replace(self, language=language, to_english=to_english)

    def build_ids(self, language_id: int | None) -> tuple[int, ...]:
        """Return the ids of the prompt, without the id that begins a text: the language, the task and the last ids.
        Return only the last ids if `language_id` is None, for a model of one language.
        """
        if language_id is None:
            return self.last_ids
        return language_id, self.task_ids["translate" if self.to_english else "transcribe"], *self.last_ids


@final
class _MemoryReader(nn.Module):
    """The decoder of a model as an engine whose sources are encoded already, so that only its attention is recorded."""

    def __init__(self, model: SequenceToSequence[FeatureBatch]) -> None:
        super().__init__()
        self.decoder: Decoder = model.decoder
        self.output = model.output

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.parameters()).device

    def init_state(self, source: Memory) -> State:
        """Return the state before the first token."""
        return self.decoder.init_state(source)

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Return the logits of the next token for each token, and the new state."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state


@final
@dataclass(frozen=True)
class PromptedDecoding(SpeechDecoding):
    """Decoding with the attention decoder, which first reads a prompt.

    Attributes:
        attention_decoding: decodes behind the prompt.
        prompt: the prompt of all sounds, but for a language that is to be recognised.
    """

    attention_decoding: AttentionDecoding
    prompt: SpeechPrompt

    def build_requests(self, model: Any, memory: Memory, *, numbers: Sequence[int]) -> list[TargetRequest]:
        """Return what to generate for each encoded sound: a text behind the prompt."""
        prompts = [self.prompt.build_ids(language_id) for language_id in self._find_languages(model, memory)]
        requests = super().build_requests(model, memory, numbers=numbers)
        return [replace(request, prefix=ids) for request, ids in zip(requests, prompts, strict=True)]

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """Search the text candidates of each encoded sound behind the prompts in the requests; their ids do not contain
        the prompt.
        """
        found = self.attention_decoding.decode_memory(model, memory, requests)
        return remove_prompts(found, self.num_prompt_ids)

    @property
    def growing_search(self) -> SearchStrategy:
        """The search over texts."""
        return self.attention_decoding.search

    @property
    def num_prompt_ids(self) -> int:
        """Number of ids of the prompt, which all sounds share."""
        return len(self.prompt.build_ids(next(iter(self.prompt.languages.values()), None)))

    def inspect(
        self,
        model: Any,
        source: FeatureBatch,
        text: str | None,
        *,
        selection: InspectionSelection,
        axis: MapAxis,
        title: str,
    ) -> InspectionRecord:
        """Record the attention of the decoder while it generates the given text, or the best one found; that of the
        encoder, between all slots, is too large for a record.
        """
        with torch.inference_mode():
            memory = model.encoder(source)
            (language_id,) = self._find_languages(model, memory)
        if text is None:
            text_ids = self.decode(model, source, numbers=[1])[0][0].ids
        else:
            text_ids = tuple(self.target.encode(text, name=f"{title}: its text"))
        greedy = build_search(GreedyConfig(), self.target.tokenizer)
        return self.target.inspect(
            _MemoryReader(model),
            memory,
            (*self.prompt.build_ids(language_id), *text_ids),
            search=greedy,
            selection=selection,
            axes=[axis],
            title=title,
        )

    def _find_languages(self, model: Any, memory: Memory) -> list[int | None]:
        """Return the id of the language of each sound, the most probable first token unless the prompt gives one; None
        if the model knows one language only.
        """
        rows, languages = len(memory.positions), self.prompt.languages
        if not languages:
            return [None] * rows
        if self.prompt.language is not None:
            return [languages[self.prompt.language]] * rows
        first = torch.full((rows, 1), self.target.tokenizer.special.bos, device=memory.positions.device)
        with torch.inference_mode():
            logits, _ = model.step(Tokens(first, torch.zeros_like(first)), model.decoder.init_state(memory))
        ids = torch.tensor([*languages.values()], device=logits.device)
        chosen: list[int | None] = ids[logits[:, 0, ids].argmax(1)].tolist()
        return chosen


def build_prompted_decoding(
    config: GenerationConfig, *, target: DecoderTarget, prompt: SpeechPrompt, n_best: int = 1, seed: int = 1
) -> PromptedDecoding:
    """Build the decoding of texts in `target`'s vocabulary behind a prompt; it returns the `n_best` texts.

    Raises:
        RecipeError: the search settings do not fit the model.
    """
    check_speech_search(config, ctc_weight=0.0)
    length = build_length_limits(config)
    search = build_search(config, target.tokenizer, n_best=n_best, seed=seed)
    return PromptedDecoding(length, target, AttentionDecoding(length, target, search), prompt)


@dataclass(frozen=True, eq=False, repr=False)
class PromptedRecognizer(SpeechRecognizer):
    """A speech recognition model that reads a prompt, and sounds of one length; longer ones are read in windows.

    Attributes:
        prompt: language and task.
        window_seconds: length of a window.
    """

    prompt: SpeechPrompt
    window_seconds: float

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that `with_language` can choose."""
        return tuple(self.prompt.languages)

    @property
    def max_slots(self) -> int:
        """Number of memory slots of a window."""
        return round(1000 * self.window_seconds / self.frontend.hop) // self.frames_per_slot

    def with_language(self, language: str | None, *, to_english: bool = False) -> PromptedRecognizer:
        """Return the same model for sounds in a language, which it recognises if None, transcribed or translated.

        Raises:
            RecipeError: the model does not know the language, or only one, or cannot translate.
        """
        prompt = self.prompt.with_language(language, to_english=to_english)
        decoding = partial(build_prompted_decoding, target=self.target, prompt=prompt)
        return replace(self, prompt=prompt, make_decoding=decoding)

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
        """Transcribe sounds in the given order; see `SpeechRecognizer.transcribe`. A sound that is longer than a window
        is cut at quiet places, and its text is joined. With `heard`, its windows are read one after the other, so that
        its text grows at the end only.

        Raises:
            DataError: a file is missing, or is not a sound.
            RecipeError: the search settings do not fit the model, or several candidates of such a sound are asked for.
        """
        inputs = to_file_list(sounds, Sound, name="sounds", noun="file of sound")
        windows: list[list[Sound]] = []
        for number, each in enumerate(inputs, first):
            sound = each if isinstance(each, Sound) else self.frontend.read(Path(each))
            windows.append(list(split_sound(sound, self.window_seconds)))
            if n_best > 1 and len(windows[-1]) > 1:
                name = f"sound {number}" if isinstance(each, Sound) else each
                raise RecipeError(f"n-best {n_best}: {name} is longer than a window, and has one text; leave it out")
        transcribe = partial(
            super().transcribe, generation=generation, n_best=n_best, seed=seed, batch_frames=batch_frames
        )
        all_windows = [window for parts in windows for window in parts]
        if heard is None:
            parts = iter(transcribe(all_windows, first=first))
        else:
            indices = [index for index, parts in enumerate(windows) for _ in parts]
            parts = _transcribe_in_turn(transcribe, all_windows, indices, heard, first=first)
        return [
            _join_transcriptions(str(number) if isinstance(each, Sound) else str(each), [next(parts) for _ in part])
            for number, (each, part) in enumerate(zip(inputs, windows, strict=True), first)
        ]

    def inspect(
        self, sound: SoundInput, text: str | None = None, *, scope: InspectionSelection | None = None
    ) -> InspectionRecord:
        """Record the attention of the decoder while it generates the text of a sound, or reads a given text; see
        `SpeechRecognizer.inspect`. Of a sound that is longer than a window the first part is recorded.
        """
        whole = sound if isinstance(sound, Sound) else self.frontend.read(Path(sound))
        first, *others = split_sound(whole, self.window_seconds)
        record = super().inspect(first, text, scope=scope)
        title = record.title if isinstance(sound, Sound) else str(sound)
        note = f"The sound is longer than {self.window_seconds:g} s; this is its first part."
        return replace(record, title=title, notes=(*record.notes, note) if others else record.notes)


def build_prompted_recognizer(
    model: nn.Module,
    tokenizer: Tokenizer,
    *,
    frontend: PaddedLogMel,
    generation: GenerationConfig,
    frames_per_slot: int,
    max_length: int,
) -> PromptedRecognizer:
    """Build the recogniser of a model whose prompt is the beginning of each text in its vocabulary.

    Args:
        model: in evaluation mode.
        tokenizer: its vocabulary.
        frontend: computes its frames.
        generation: default search settings.
        frames_per_slot: number of frames that become one slot of its memory.
        max_length: tokens of the longest text, prompt and end included.
    """
    prompt = SpeechPrompt.from_tokenizer(tokenizer)
    text_tokenizer = tokenizer.with_prefix(()) if isinstance(tokenizer, PretrainedTokenizer) else tokenizer
    target = DecoderTarget(text_tokenizer, device=next(model.parameters()).device, max_length=max_length)
    return PromptedRecognizer(
        model,
        target=target,
        frontend=frontend,
        max_seconds=_MAX_SECONDS,
        generation=generation,
        make_decoding=partial(build_prompted_decoding, target=target, prompt=prompt),
        frames_per_slot=frames_per_slot,
        prompt=prompt,
        window_seconds=float(frontend.seconds),
    )


def split_sound(sound: Sound, max_seconds: float) -> Iterator[Sound]:
    """Split a sound into parts of at most `max_seconds`, each cut at the quietest place near its end; a short sound is
    one part.
    """
    samples, size = sound.samples, round(max_seconds * sound.rate)
    stretch = max(1, round(_CUT_SECONDS * sound.rate))
    while len(samples) > size:
        start = round((1 - _SEARCHED_SHARE) * size)
        energies = samples[start:size].square().unfold(0, stretch, max(1, stretch // 2)).sum(1)
        cut = start + int(energies.argmin()) * max(1, stretch // 2) + stretch // 2
        yield Sound(samples[:cut], sound.rate)
        samples = samples[cut:]
    yield Sound(samples, sound.rate)


def _transcribe_in_turn(
    transcribe: Callable[..., list[Transcription]],
    windows: Sequence[Sound],
    indices: Sequence[int],
    heard: Callable[[int, TextCandidate], None],
    *,
    first: int,
) -> Iterator[Transcription]:
    """Transcribe windows one after the other, and yield their transcriptions. `indices` say of which sound each window
    is, and `heard` is called with such an index and the text of the sound so far; `first` is the number of the first
    window.
    """
    finished: list[Transcription] = []
    for position, (window, index) in enumerate(zip(windows, indices, strict=True)):
        before = [part for part, owner in zip(finished, indices, strict=False) if owner == index]

        def report_growth(_: int, candidate: TextCandidate, before: Any = before, index: int = index) -> None:
            """Join the text of a window with that of the windows before it."""
            parts = [*before, Transcription("", 0.0, (candidate,))]
            heard(index, _join_transcriptions("", parts).candidates[0])

        finished += transcribe([window], first=first + position, heard=report_growth)
        yield finished[-1]


def _join_transcriptions(name: str, parts: Sequence[Transcription]) -> Transcription:
    """Join the best texts of the windows of a sound; a sound of one window keeps all of its candidates."""
    if len(parts) == 1:
        return replace(parts[0], sound=name)
    best = [part.candidates[0] for part in parts]
    joined = replace(
        best[0],
        text=" ".join(text for each in best if (text := each.text.strip())),
        tokens=tuple(token for each in best for token in each.tokens),
        ids=tuple(token_id for each in best for token_id in each.ids),
        score=math.fsum(each.score for each in best) / len(best),
        log_probability=math.fsum(each.log_probability for each in best),
        finished=all(each.finished for each in best),
    )
    return Transcription(name, round(math.fsum(part.seconds for part in parts), 3), (joined,))
