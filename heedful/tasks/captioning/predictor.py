"""Predictors that caption pictures and clips, and their line format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from heedful.argument_checks import to_file_list
from heedful.data.clips import Clip, Frames
from heedful.data.corpus import ArraySpec
from heedful.data.pictures import Picture, SquareResize, read_picture
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import SearchStrategy
from heedful.inspection.capture import find_attention_sites, watch_attention
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.metrics.captions import CaptionBLEU, cider_d
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import State
from heedful.models.vision import ClipBatch
from heedful.recipes.generation import GenerationConfig
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.captioning.data import PictureFeatures, batch_clips
from heedful.tasks.decoder_target import DecoderTarget, ForcedScore, TargetRequest, TextCandidate
from heedful.tasks.inspection_records import InspectionSelection, set_beam_width
from heedful.tasks.predictor import (
    OMIT_EMPTY,
    AnswerRecord,
    CandidateRecord,
    InspectRequest,
    LineFormat,
    Predictor,
    escape_cell,
    iter_chunks,
    run_batched,
)
from heedful.tasks.search_factory import LengthLimits, build_length_limits, build_search
from heedful.tensors import SOURCE, GridLayout, as_mapping, move_to_device

Features = TypeVar("Features")
CaptionInput: TypeAlias = Any
"""An input to caption: a file, or its content."""


@dataclass(frozen=True)
class CaptionResult:
    """Captions of one input.

    Attributes:
        name: the file, or the input's number.
        candidates: captions, best first.
    """

    name: str
    candidates: tuple[TextCandidate, ...]

    @property
    def text(self) -> str:
        """The best caption."""
        return self.candidates[0].text


class CaptionAttentionRecord(AnswerRecord):
    """Attention weights of the words of a caption."""

    tokens: list[str]
    """the end included"""
    weights: list[list[list[float]]] | list[list[float]]
    """of each token: rows and columns of the picture's square, or frames"""
    frames: Annotated[list[int] | None, OMIT_EMPTY] = None
    """indices of the frames of a clip that the model saw, from 0"""


class _PictureCaptionRecord(AnswerRecord):
    """The caption of a picture, as `heedful caption --format jsonl` writes it."""

    picture: str
    caption: str
    candidates: list[CandidateRecord]
    looked: CaptionAttentionRecord | None = None


class _ClipCaptionRecord(AnswerRecord):
    """The caption of a clip, as `heedful caption --format jsonl` writes it."""

    clip: str
    caption: str
    candidates: list[CandidateRecord]
    looked: CaptionAttentionRecord | None = None


CaptionRecord: TypeAlias = _PictureCaptionRecord | _ClipCaptionRecord


@dataclass(frozen=True)
class CaptionAttention:
    """Attention weights of each caption token, its end last, in the shape of the slots: [T, frames] or [T, rows,
    columns].
    """

    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "T ..."]

    def to_record(self, *, frames: Sequence[int] = ()) -> CaptionAttentionRecord:
        """Return the record; `frames` are the indices of the frames that the slots stand for, if they do."""
        weights = self.weights.astype(float).round(4).tolist()
        return CaptionAttentionRecord(tokens=list(self.tokens), weights=weights, frames=list(frames))


@dataclass(frozen=True)
class NumberedInput(Generic[Features]):
    """Features of an input, its number, and the ids of a caption."""

    features: Features
    number: int
    ids: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class CaptionSearchCall(SearchCall[NumberedInput[Features]]):
    """Search call that generates captions.

    Attributes:
        target: the target side of the model.
        length: length limits of captions.
        build_source: builds the source batch of some inputs.
    """

    target: DecoderTarget
    length: LengthLimits
    build_source: Callable[[Sequence[NumberedInput[Features]]], Any] = field(compare=False)

    def start_search(self, batch: list[NumberedInput[Features]]) -> tuple[State, GenerationRequest]:
        """Encode a batch of inputs, and return the decoding state and the request with the length limits."""
        requests = [
            TargetRequest(self.length.max_tokens(1), item.number, min_tokens=self.length.min_tokens(1))
            for item in batch
        ]
        return self.engine.init_state(self.build_source(batch)), self.target.build_generation_request(requests)


@keep_old_names(
    seen="input_noun",
    view="figure_view",
    see="extract_features",
    photograph="render_picture",
    source="build_source",
    axis="build_axis",
    attentive="has_attention",
)
class BaseCaptioner(Predictor, Generic[Features]):
    """A captioning model with its tokenizer.

    Abstract: the task defines the inputs and their features.

    Attributes:
        input_noun: noun for an input, such as "picture".
        figure_view: figure (`heedful.inspection.figures`) that shows the attention of each word.
        record_class: class of the records of captions, which has the name of the input in the field `input_noun`.

    Args:
        model: the model in evaluation mode.
        tokenizer: tokenizer of captions.
        generation: config of the default search algorithm `search` and of the length limits `length` of captions; an
            input counts as one token.
        longest: tokens of the longest caption, its end included; None if unlimited.
    """

    command = "caption"

    input_noun: ClassVar[str]
    figure_view: ClassVar[str]
    record_class: ClassVar[type[CaptionRecord]]

    def __init__(
        self,
        model: SequenceToSequence[Any],
        *,
        tokenizer: Tokenizer,
        generation: GenerationConfig,
        longest: int | None = None,
    ) -> None:
        self.model = model
        self.search = build_search(generation, tokenizer)
        self.length = build_length_limits(generation)
        self.generation = generation
        self.device = next(model.parameters()).device
        self.target = DecoderTarget(tokenizer, device=self.device, max_length=longest)

    @abstractmethod
    def extract_features(self, input_value: CaptionInput) -> Features:
        """Extract the features of an input; raise `DataError` if it cannot be read."""

    @abstractmethod
    def build_source(self, features: Sequence[Features]) -> Any:
        """Build the model's source batch from the features of several inputs, on its device."""

    @abstractmethod
    def build_axis(self, input_value: CaptionInput, features: Features) -> MapAxis:
        """Return the axis of attention maps that names the encoder's slots of an input; `features` are those of
        `extract_features`.
        """

    @abstractmethod
    def render_picture(self, input_value: CaptionInput) -> Picture | None:
        """Return a picture of the input for people; None if there is nothing to show."""

    def caption(
        self,
        shown: Sequence[CaptionInput],
        *,
        search: SearchStrategy | None = None,
        length: LengthLimits | None = None,
        first: int = 1,
        together: int = 32,
        heard: Callable[[int, TextCandidate], None] | None = None,
    ) -> list[CaptionResult]:
        """Generate captions of the inputs `shown`, files or their content, in their order; `together` inputs are
        processed at a time, and `first` is the number of the first one, for its random stream. `heard` is called with
        the index of an input and its best caption so far.

        Args:
            shown: files, or their content; a single file is a list of one.
            search: search algorithm instead of the default.
            length: length limits instead of the default.
            first: number of the first input, which selects its random stream when sampling.
            together: inputs that are processed together.
            heard: called with the index of an input, from 0, and its best caption so far, whenever there is more of it.

        Raises:
            DataError: a file is missing or damaged, or its type is unknown.
            MissingExtraError: the package that decodes it is not installed.
        """
        algorithm, limits = search or self.search, length or self.length

        captioning = CaptionSearchCall(self.model, algorithm, self.target, limits, self._build_batch_source)
        captions: list[CaptionResult] = []
        inputs = to_file_list(shown, np.ndarray, Clip, name="shown", noun="file or its content")
        for chunk in iter_chunks(inputs, together):  # features of more inputs may not fit into memory
            items = [
                NumberedInput(self.extract_features(input_value), number)
                for number, input_value in enumerate(chunk, first + len(captions))
            ]
            on_tokens = None if heard is None else partial(self._report_growth, heard, len(captions))
            hypotheses_by_item = run_batched(
                items, captioning, size=lambda _: 1, batch_tokens=together, on_tokens=on_tokens
            )
            names = (name_input(input_value, inputs.number) for input_value, inputs in zip(chunk, items, strict=True))
            captions += map(
                CaptionResult,
                names,
                (tuple(map(self.target.to_candidate, hypotheses)) for hypotheses in hypotheses_by_item),
            )
        return captions

    def _report_growth(
        self, heard: Callable[[int, TextCandidate], None], num_before: int, index: int, ids: Sequence[int]
    ) -> None:
        """Call `heard` with the number of inputs before a caption and its text so far; `index` is that of its input
        among those behind the first `num_before`.
        """
        heard(num_before + index, self.target.to_growing_candidate(ids))

    def score(self, pairs: Sequence[tuple[CaptionInput, str]], *, together: int = 32) -> list[ForcedScore]:
        """Return the log-probabilities of given captions, for pairs of input and caption, of which `together` are
        processed at a time. Raise `DataError` if an input or its caption cannot be read.
        """
        return run_batched(self._encode_pairs(pairs), self._score_batch, size=lambda _: 1, batch_tokens=together)

    def attend(self, pairs: Sequence[tuple[CaptionInput, str]], *, together: int = 32) -> list[CaptionAttention]:
        """Return where the tokens of given captions attend: the mean over heads of the last cross-attention. Pairs
        consist of input and caption; `together` of them are processed at a time.

        Raises:
            DataError: an input or its caption cannot be read.
            RecipeError: the model has no attention to its input.
        """
        return run_batched(self._encode_pairs(pairs), self._attend_batch, size=lambda _: 1, batch_tokens=together)

    @property
    def has_attention(self) -> bool:
        """Whether the model has attention to its input."""
        return bool(self._cross_attention_paths)

    def inspect(
        self,
        shown: CaptionInput,
        caption: str | None = None,
        *,
        search: SearchStrategy | None = None,
        scope: InspectionSelection | None = None,
    ) -> InspectionRecord:
        """Record everything the model attends to while it captions the input `shown`, or reads a given caption of it.
        `search` replaces the default search, and `scope` selects layers, heads and details; all by default.

        Raises:
            DataError: the input or the caption cannot be read.
            RecipeError: no such layer or head.
        """
        features = self.extract_features(shown)
        target: list[int] | TargetRequest = TargetRequest(
            self.length.max_tokens(1), min_tokens=self.length.min_tokens(1)
        )
        if caption is not None:
            target = self.target.encode(caption, name="the caption")
        return self.target.inspect(
            self.model,
            self.build_source([features]),
            target,
            search=search or self.search,
            selection=scope or InspectionSelection(),
            axes=[self.build_axis(shown, features)],
            title=name_input(shown, 1),
        )

    def line_format(self) -> CaptionLineFormat:
        """Return the line format with one file per line."""
        return CaptionLineFormat(self, self.search, self.length)

    @final
    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect a captioning request, whose source is a file; raise `RecipeError` if it limits the tokens."""
        search = self.search
        if request.max_tokens is not None:
            raise RecipeError("--tokens: is an option of language models; leave it out")
        if request.beam is not None:
            search = set_beam_width(search, request.beam)
        return self.inspect(request.source, request.target, search=search, scope=request.selection)

    @property
    def _cross_attention_paths(self) -> list[str]:
        return [path for path, site in find_attention_sites(self.model).items() if site.declaration.kind == "cross"]

    def _encode_pairs(self, pairs: Sequence[tuple[CaptionInput, str]]) -> list[NumberedInput[Features]]:
        """Extract the features and encode the given caption of each pair."""
        items: list[NumberedInput[Features]] = []
        for number, (input_value, text) in enumerate(pairs, 1):
            is_same = number > 1 and input_value is pairs[number - 2][0]  # captions of one thing follow each other
            features = items[-1].features if is_same else self.extract_features(input_value)
            items.append(NumberedInput(features, number, tuple(self.target.encode(text, name=f"caption {number}"))))
        return items

    def _build_batch_source(self, batch: Sequence[NumberedInput[Features]]) -> Any:
        return self.build_source([item.features for item in batch])

    def _score_batch(self, batch: list[NumberedInput[Features]]) -> Iterator[ForcedScore]:
        return self.target.score_texts(self.model, self._build_batch_source(batch), [each.ids for each in batch])

    def _attend_batch(self, batch: list[NumberedInput[Features]]) -> Iterator[CaptionAttention]:
        """Read each caption with its input and yield its attention weights, averaged over heads; raise `RecipeError` if
        the model has no attention to its input.
        """
        if not self.has_attention:
            raise RecipeError(
                f"this model reads the {self.input_noun} only before the first word, so it has no attention to show"
            )
        path = self._cross_attention_paths[-1]
        inputs, _ = self.target.build_forced_batch([item.ids for item in batch])
        memory = self.model.encoder(self._build_batch_source(batch))
        with watch_attention(self.model, paths=[path]) as weights_by_path:
            self.model.decoder(inputs, self.model.decoder.init_state(memory))
        shape = as_mapping(memory)[SOURCE].layout
        slot_shape = (shape.rows, shape.columns) if isinstance(shape, GridLayout) else (-1,)
        token_weights = (
            torch.cat([call.mean(1) if call.dim() == 4 else call for call in weights_by_path[path]], 1)
            .float()
            .cpu()
            .numpy()
        )
        for item, weights in zip(batch, token_weights, strict=True):
            tokens = (*self.target.tokenizer.to_pieces(item.ids), "</s>")
            yield CaptionAttention(tokens, weights[: len(tokens)].reshape(len(tokens), *slot_shape))


class Captioner(BaseCaptioner[np.ndarray]):
    """Captioning predictor with its picture preprocessing, for picture files or RGB arrays [H, W, 3].

    Args:
        args: see `BaseCaptioner`.
        picture_features: converts a picture into the encoder's input.
        framing: crops or scales pictures to squares.
        kwargs: see `BaseCaptioner`.
    """

    input_noun: ClassVar = "picture"
    figure_view: ClassVar = "regions"
    record_class: ClassVar = _PictureCaptionRecord

    def __init__(self, *args: Any, picture_features: PictureFeatures, framing: SquareResize, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.picture_features = picture_features
        self.framing = framing

    def extract_features(self, input_value: CaptionInput) -> Shaped[np.ndarray, ...]:
        """Load a picture and return its encoder input."""
        return self.picture_features(self.render_picture(input_value))

    def render_picture(self, input_value: CaptionInput) -> Picture:
        """Return the square picture that the model sees."""
        return self.framing(read_picture(Path(input_value)) if isinstance(input_value, str | Path) else input_value)

    def build_source(self, features: Sequence[Shaped[np.ndarray, ...]]) -> Tensor:
        """Stack encoder inputs into a batch on the model's device."""
        return torch.from_numpy(np.stack(features)).to(self.device)

    def build_axis(self, input_value: CaptionInput, features: Shaped[np.ndarray, ...]) -> MapAxis:
        """Return the grid axis of a picture's regions with the picture `input_value`, from its encoder input
        `features`.
        """
        with torch.inference_mode():
            shape = self.model.encoder(self.build_source([features])).layout
        assert isinstance(shape, GridLayout)
        return MapAxis.from_grid(
            SOURCE, rows=shape.rows, columns=shape.columns, pictures=self.render_picture(input_value)[None]
        )


@final
class VideoCaptioner(BaseCaptioner[Clip]):
    """Video captioning predictor, for clip files or `Clip` objects.

    Args:
        args: see `BaseCaptioner`.
        read_clip: returns the encoder's input for the clip at a path; raises `DataError` if it cannot be read.
        read_frames: returns the clip as it is shown to people.
        decoded_size: bytes of the decoded clip.
        peak_memory: bytes of memory that reading takes at most.
        array_spec: type and shape of a frame's encoder input.
        kwargs: see `BaseCaptioner`.
    """

    input_noun: ClassVar = "clip"
    figure_view: ClassVar = "frames"
    record_class: ClassVar = _ClipCaptionRecord

    def __init__(
        self,
        *args: Any,
        read_clip: Callable[[Path], Clip],
        read_frames: Callable[[Path], Clip],
        decoded_size: Callable[[Path], int],
        peak_memory: Callable[[Path], int],
        array_spec: ArraySpec,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.read_clip = read_clip
        self.read_frames = read_frames
        self.decoded_size = decoded_size
        self.peak_memory = peak_memory
        self.array_spec = array_spec

    def extract_features(self, input_value: CaptionInput) -> Clip:
        """Return the encoder's input for a clip: its frames or their features."""
        return input_value if isinstance(input_value, Clip) else self.read_clip(Path(input_value))

    def build_source(self, features: Sequence[Clip]) -> ClipBatch:
        """Pad and stack clips on the model's device."""
        return move_to_device(batch_clips(features), self.device)

    def build_axis(self, input_value: CaptionInput, features: Clip) -> MapAxis:
        """Return the axis of a clip's frames, with their pictures unless only features are known."""
        return MapAxis.from_frames(SOURCE, len(features.frames), pictures=self._get_pictures(input_value, features))

    def render_picture(self, input_value: CaptionInput) -> Picture | None:
        """Return the frames side by side as one picture, or None if there are no pictures."""
        pictures = self._get_pictures(input_value, self.extract_features(input_value))
        return None if pictures is None else np.concatenate(list(pictures), 1)

    def _get_pictures(self, shown: CaptionInput, kept: Clip) -> Frames | None:
        """Return the frames of the input `shown` as pictures; None if it has only features. `kept` is the input if it
        is a `Clip`.
        """
        clip = kept if isinstance(shown, Clip) else self.read_frames(Path(shown))
        return clip.frames if clip.frames.dtype == np.uint8 else None


@final
@dataclass(frozen=True)
class CaptionLineFormat(LineFormat[str, CaptionResult]):
    """Line format of one file per line with its caption; with `all_candidates`, tab-separated lines of file, caption
    and score.
    """

    chunk_size: ClassVar[int] = 256

    captioner: BaseCaptioner[Any]
    search: SearchStrategy
    length: LengthLimits
    all_candidates: bool = False

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[str]:
        """Return the file names; raise `DataError` for an empty line."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                raise DataError(f"{source_name}:{number}: does not name a {self.captioner.input_noun}; remove the line")
            yield line

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[CaptionResult]:
        """Caption the files; `start` is the number of the first one, for its random stream."""
        return self.captioner.caption(inputs, search=self.search, length=self.length, first=start)

    def to_record(self, answer: CaptionResult) -> CaptionRecord:
        """Return the name of an answer's input, its best caption and all candidates."""
        candidates = [candidate.to_record() for candidate in answer.candidates]
        fields = {self.captioner.input_noun: answer.name, "caption": answer.text, "candidates": candidates}
        return self.captioner.record_class.model_validate(fields)

    def format_answer(self, answer: CaptionResult) -> str:
        """Format the best caption as one tab-separated line of name and caption, or all candidates as lines with their
        scores.
        """
        if not self.all_candidates:
            return f"{escape_cell(answer.name)}\t{escape_cell(answer.text)}\n"
        return "".join(
            f"{escape_cell(answer.name)}\t{escape_cell(each.text)}\t{each.score:.4f}\n" for each in answer.candidates
        )


def evaluate_captions(
    captioner: BaseCaptioner[Any], examples: Iterable[tuple[CaptionInput, Sequence[str]]], *, search: SearchStrategy
) -> dict[str, float]:
    """Caption the inputs by a search algorithm, and compute BLEU-4 ("bleu") and CIDEr-D ("cider") with the captions in
    `examples` as references. Unreadable inputs and inputs without captions are skipped.
    """
    inputs, references = [], []
    for input_value, captions in examples:
        try:
            captioner.extract_features(input_value)
        except DataError:
            continue
        if captions:
            inputs.append(input_value)
            references.append(captions)
    texts = [caption.text for caption in captioner.caption(inputs, search=search)]
    return {"bleu": CaptionBLEU(texts, references).value, "cider": cider_d(texts, references).value}


def name_input(input_value: CaptionInput, number: int) -> str:
    """Return the name of a file, or the number of an input without a file."""
    return str(input_value) if isinstance(input_value, str | Path) else str(number)
