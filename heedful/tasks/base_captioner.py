"""Models that say what they see, whatever it is: the face that they share, its lines, and its scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float

from heedful.argument_checks import to_file_list
from heedful.data.clips import Clip
from heedful.data.pictures import Picture
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.generation.prefill import GenerationRequest as Wish
from heedful.generation.search import SearchStrategy
from heedful.inspection.capture import find_attention_sites
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.inspection.watch import watch_attention
from heedful.metrics.captions import CaptionBLEU, cider_d
from heedful.models.interface import State
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GenerationConfig
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.decoder_target import DecoderTarget, ForcedScore, TargetRequest, TextCandidate
from heedful.tasks.inspection_records import InspectionSelection, set_beam_width
from heedful.tasks.predictor import InspectRequest, LineFormat, Predictor, escape_cell, iter_chunks, run_batched
from heedful.tasks.search_factory import LengthLimits
from heedful.tensors import SOURCE, GridLayout, as_mapping

Features = TypeVar("Features")
CaptionInput: TypeAlias = Any
"""Whatever a face looks at: a file, or what it holds."""


@dataclass(frozen=True)
class CaptionResult:
    """What is said of something.

    Attributes:
        name: the file, or a number where there is none.
        candidates: best first.
    """

    name: str
    candidates: tuple[TextCandidate, ...]

    @property
    def text(self) -> str:
        """The best one."""
        return self.candidates[0].text


@dataclass(frozen=True)
class CaptionAttention:
    """Where a caption looks: weights of each token, its end last, as the slots lie: [T, frames], [T, rows, columns]."""

    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "T ..."]


@dataclass(frozen=True)
class NumberedInput(Generic[Features]):
    """Something as it is kept, its number, and a caption of it."""

    features: Features
    number: int
    ids: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class CaptionSearchCall(SearchCall[NumberedInput[Features]]):
    """Captions by one way to search.

    Attributes:
        target: the side that is written.
        length: how long they may become.
        build_source: a batch of what is seen.
    """

    target: DecoderTarget
    length: LengthLimits
    build_source: Callable[[Sequence[NumberedInput[Features]]], Any] = field(compare=False)

    def start_search(self, batch: list[NumberedInput[Features]]) -> tuple[State, Wish]:
        """Behind what is seen."""
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
    """A model with its vocabulary, which says what it sees.

    Abstract: what is seen, and how, belongs to the task.

    Attributes:
        input_noun: what it looks at, in one word.
        figure_view: the figure (`heedful.inspection.figures`) that shows what was looked at, word by word.

    Args:
        model: in evaluation mode.
        tokenizer: of captions.
        search: how captions are looked for unless a call says otherwise.
        length: how long they may become; what is seen counts as one token.
        longest: tokens of the longest caption, its end included; None where there is none.
        generation: what `search` and `length` were made of.
    """

    input_noun: ClassVar[str]
    figure_view: ClassVar[str]

    def __init__(
        self,
        model: SequenceToSequence[Any],
        *,
        tokenizer: Tokenizer,
        search: SearchStrategy,
        length: LengthLimits,
        generation: GenerationConfig,
        longest: int | None = None,
    ) -> None:
        self.model = model
        self.search = search
        self.length = length
        self.generation = generation
        self.device = next(model.parameters()).device
        self.target = DecoderTarget(tokenizer, device=self.device, max_length=longest)

    @abstractmethod
    def extract_features(self, input_value: CaptionInput) -> Features:
        """What is kept of a file, or of what it holds; `DataError` where it cannot be seen."""

    @abstractmethod
    def build_source(self, features: Sequence[Features]) -> Any:
        """What the model reads of several, where the model is."""

    @abstractmethod
    def build_axis(self, input_value: CaptionInput, features: Features) -> MapAxis:
        """How the slots of one lie, to be looked at."""

    @abstractmethod
    def render_picture(self, input_value: CaptionInput) -> Picture | None:
        """What one sees, as a picture; None where there is nothing to be seen."""

    def caption(
        self,
        shown: Sequence[CaptionInput],
        *,
        search: SearchStrategy | None = None,
        length: LengthLimits | None = None,
        first: int = 1,
        together: int = 32,
    ) -> list[CaptionResult]:
        """Captions, in the order of what is shown.

        Args:
            shown: files, or what they hold; a single file is a list of one.
            search: instead of its own.
            length: likewise.
            first: number of the first one, its source of chance when sampling.
            together: how many are looked at together.

        Raises:
            DataError: a file is missing or damaged, or is of no kind that is known.
            MissingExtraError: the package that decodes it is not installed.
        """
        algorithm, limits = search or self.search, length or self.length

        captioning = CaptionSearchCall(self.model, algorithm, self.target, limits, self._build_batch_source)
        captions: list[CaptionResult] = []
        inputs = to_file_list(shown, np.ndarray, Clip, name="shown", noun="file or its content")
        for chunk in iter_chunks(inputs, together):  # what is seen of more may not fit into the memory
            items = [
                NumberedInput(self.extract_features(input_value), number)
                for number, input_value in enumerate(chunk, first + len(captions))
            ]
            hypotheses_by_item = run_batched(items, captioning, size=_unit_size, batch_tokens=together)
            names = (name_input(input_value, inputs.number) for input_value, inputs in zip(chunk, items, strict=True))
            captions += map(
                CaptionResult,
                names,
                (tuple(map(self.target.to_candidate, hypotheses)) for hypotheses in hypotheses_by_item),
            )
        return captions

    def score(self, pairs: Sequence[tuple[CaptionInput, str]], *, together: int = 32) -> list[ForcedScore]:
        """Log-probabilities of given captions; `DataError` where something or its caption cannot be read."""
        return run_batched(self._encode_pairs(pairs), self._score_batch, size=_unit_size, batch_tokens=together)

    def attend(self, pairs: Sequence[tuple[CaptionInput, str]], *, together: int = 32) -> list[CaptionAttention]:
        """Where given captions look, token by token: the mean over heads of the last attention to what is seen.

        Raises:
            DataError: something or its caption cannot be read.
            RecipeError: the model begins with what it sees and never looks at it again.
        """
        return run_batched(self._encode_pairs(pairs), self._attend_batch, size=_unit_size, batch_tokens=together)

    @property
    def has_attention(self) -> bool:
        """Whether there is attention to what is seen."""
        return bool(self._cross_attention_paths)

    def inspect(
        self,
        shown: CaptionInput,
        caption: str | None = None,
        *,
        search: SearchStrategy | None = None,
        scope: InspectionSelection | None = None,
    ) -> InspectionRecord:
        """Everything the model looks at while it says what it sees, or while it reads a given caption of it.

        Raises:
            DataError: what is shown or the caption cannot be read.
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
        """A file a line."""
        return CaptionLineFormat(self, self.search, self.length)

    @final
    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """See `inspect`; the source is a file."""
        search = self.search
        if request.max_tokens is not None:
            raise RecipeError("--tokens: belongs to language models; leave it out")
        if request.beam is not None:
            search = set_beam_width(search, request.beam)
        return self.inspect(request.source, request.target, search=search, scope=request.selection)

    @property
    def _cross_attention_paths(self) -> list[str]:
        return [path for path, site in find_attention_sites(self.model).items() if site.declaration.kind == "cross"]

    def _encode_pairs(self, pairs: Sequence[tuple[CaptionInput, str]]) -> list[NumberedInput[Features]]:
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
        if not self.has_attention:
            raise RecipeError(f"this model begins with the {self.input_noun} and never looks at it again")
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


@final
@dataclass(frozen=True)
class CaptionLineFormat(LineFormat[str, CaptionResult]):
    """A file a line, and its caption; with several for each, lines of file, caption and score, between tabs."""

    chunk_size: ClassVar[int] = 256

    captioner: BaseCaptioner[Any]
    search: SearchStrategy
    length: LengthLimits
    all_candidates: bool = False

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[str]:
        """The names of files; `DataError` where there is none."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                raise DataError(f"{source_name}:{number}: names no {self.captioner.input_noun}; leave the line out")
            yield line

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[CaptionResult]:
        """Captions."""
        return self.captioner.caption(inputs, search=self.search, length=self.length, first=start)

    def to_json(self, answer: CaptionResult) -> dict[str, Any]:
        """All candidates."""
        return {
            self.captioner.input_noun: answer.name,
            "caption": answer.text,
            "candidates": [each.json_record for each in answer.candidates],
        }

    def format_answer(self, answer: CaptionResult) -> str:
        """The best one, or all."""
        if not self.all_candidates:
            return f"{escape_cell(answer.name)}\t{escape_cell(answer.text)}\n"
        return "".join(
            f"{escape_cell(answer.name)}\t{escape_cell(each.text)}\t{each.score:.4f}\n" for each in answer.candidates
        )


def evaluate_captions(
    captioner: BaseCaptioner[Any], examples: Iterable[tuple[CaptionInput, Sequence[str]]], *, search: SearchStrategy
) -> dict[str, float]:
    """BLEU-4 and CIDEr-D of captions; what cannot be seen is left out, and so is what has no captions."""
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
    """A file by its name, what is no file by its number."""
    return str(input_value) if isinstance(input_value, str | Path) else str(number)


def _unit_size(_: NumberedInput[Any]) -> int:
    return 1
