"""Predictor of text classification, regression and choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, Final, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor
from torch.nn import functional

from heedful.argument_checks import to_text_list
from heedful.data.batches import to_segmented_tokens
from heedful.data.encoder_inputs import EncoderInput, encode_texts
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.inspection.record import InspectionRecord, ModelAnswer
from heedful.models.heads import TextClassifier
from heedful.tasks.classification.recipe import AnswerType
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    record_encoder,
    repeat_rows,
    top_options,
)
from heedful.tasks.predictor import (
    OMIT_EMPTY,
    BatchMethod,
    InspectRequest,
    LineFormat,
    Predictor,
    default_batch_tokens,
    escape_cell,
    run_batched,
)
from heedful.tensors import Tokens, move_to_device

SINGLE_TEXT_WARNING: Final = (
    "only one text, but the model was trained on pairs; give the second one too (--pair, or after a tab)"
)
UNMARKED_TEXT_WARNING: Final = (
    "no word between asterisks, but the model was trained on texts that mark one, as in: the *bank* is near"
)
_MARKED_WORD: Final = re.compile(r"\*[^*]+\*")
Texts = str | Sequence[str]
"""One text, or a pair of texts."""
TextColumns = tuple[str, ...]


@dataclass(frozen=True)
class ClassificationResult:
    """Prediction for a text."""

    label: str | float
    """the most probable class, or the number"""
    probabilities: Annotated[Mapping[str, float], OMIT_EMPTY] = field(default_factory=dict)
    """probability of each class, the most probable first; empty if the answer is a number. They sum to 1, unless the
    model predicts each class independently"""
    cut: Annotated[int, OMIT_EMPTY] = 0
    """number of tokens at the end of the text, or of the longer of two, that were truncated"""
    doubts: Annotated[tuple[str, ...], Field(exclude=True), SkipJsonSchema()] = ()
    """warnings that the text differs from all training texts, so that the answer may be wrong; not in the record"""


@dataclass(frozen=True)
class ChoiceResult:
    """The most probable of several candidates."""

    number: int
    """index of the candidate, from 0"""
    probabilities: tuple[float, ...]
    """probability of each candidate"""
    cut: Annotated[int, OMIT_EMPTY] = 0
    """number of tokens of all candidates and of their common text that were truncated"""


@keep_old_names(answered="answer_type", paired="requires_pairs", pairs="trained_on_pairs", marked="trained_on_marked")
@dataclass(frozen=True, eq=False, repr=False)
class Classifier(Predictor):
    """A text classifier with its tokenizer and its classes.

    Attributes:
        model: the model in evaluation mode.
        tokenizer: tokenizer of the texts.
        answer_type: what it predicts.
        labels: the classes; None if there are none.
        max_length: tokens of an input at most, with begin and ends.
        requires_pairs: whether it reads only pairs of texts.
        independent: whether each class is predicted independently, so that several or none may be right.
        trained_on_pairs: whether it was trained on pairs of texts; a single text then gets an answer with a warning.
        trained_on_marked: whether it was trained on texts with a word between asterisks; others get a warning.
    """

    command = "classify"

    model: TextClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    answer_type: AnswerType
    labels: LabelVocabulary | None
    max_length: int
    requires_pairs: bool = False
    independent: bool = False
    trained_on_pairs: bool = False
    trained_on_marked: bool = False

    def classify(self, texts: str | Sequence[Texts], *, batch_tokens: int | None = None) -> list[ClassificationResult]:
        """Predict the class or the number of each text, or of each pair of texts, in batches of at most `batch_tokens`
        tokens.

        Raises:
            DataError: the model chooses among candidates, gets more than two texts together, or one text where it reads
                pairs.
        """
        if self.answer_type == "choice":
            raise DataError("this model chooses among candidates: give it candidates with `choose`")
        inputs = _list_texts(texts)
        rows, doubts = [self._encode_row(item) for item in inputs], list(map(self._input_warnings, inputs))
        logits = self._run_logits(rows, batch_tokens=batch_tokens)
        if self.answer_type == "number":
            numbers = logits.squeeze(1).tolist()
            return [
                ClassificationResult(number, cut=row.num_truncated, doubts=warnings)
                for number, row, warnings in zip(numbers, rows, doubts, strict=True)
            ]
        assert self.labels is not None
        results = []
        for probabilities, row, warnings in zip(self._to_probabilities(logits).tolist(), rows, doubts, strict=True):
            ranked = sorted(zip(self.labels.names, probabilities, strict=True), key=lambda pair: -pair[1])
            results.append(ClassificationResult(ranked[0][0], dict(ranked), row.num_truncated, warnings))
        return results

    def choose(self, choices: Sequence[Sequence[Texts]], *, batch_tokens: int | None = None) -> list[ChoiceResult]:
        """Choose the most probable candidate of each choice; each candidate is one text, or two. Batches have at most
        `batch_tokens` tokens.

        Raises:
            DataError: the model does not choose, or a choice has no candidates.
        """
        if self.answer_type != "choice":
            raise DataError(
                "this model classifies texts and does not choose among candidates: give it texts with `classify`"
            )
        choices = [_list_texts(candidates, f"choices[{index}]") for index, candidates in enumerate(choices)]
        for number, candidates in enumerate(choices, 1):
            if not candidates:
                raise DataError(f"choice {number}: has no candidates")
        rows = [self._encode_row(candidate) for candidates in choices for candidate in candidates]
        scores = self._run_logits(rows, batch_tokens=batch_tokens).squeeze(1)
        sizes, cuts = [len(candidates) for candidates in choices], iter([row.num_truncated for row in rows])
        return [
            ChoiceResult(
                int(candidate_scores.argmax()),
                tuple(candidate_scores.softmax(0).tolist()),
                sum(islice(cuts, len(candidate_scores))),
            )
            for candidate_scores in torch.split(scores, sizes)
        ]

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_summary"]:
        """Return the vector of each text that the model classifies: Lin et al.'s M if the model is of that kind. `cut`
        is called with the number of each text that is too long, counted from `first`.

        The arguments are those of `Embedder.embed`.

        Raises:
            DataError: a text is too long for the model, or the model reads pairs.
        """
        rows = [self._encode_row(text) for text in to_text_list(texts)]
        for number, row in enumerate(rows, first):
            if row.num_truncated and cut is None:
                raise DataError(
                    f"text {number}: has {len(row.ids) + row.num_truncated} tokens with begin and end, this model "
                    f"reads at most {self.max_length}; split it"
                )
            if row.num_truncated and cut is not None:
                cut(number)
        vectors: np.ndarray = self._run_rows(rows, self.model.embed_text, batch_tokens=batch_tokens).numpy()
        return vectors

    def inspect(self, texts: Texts, *, scope: InspectionSelection | None = None) -> InspectionRecord:
        """Record everything the model attends to while it reads a text or a pair of texts, and its prediction.

        Args:
            texts: one text, or a pair; for a model that chooses, one candidate, whose score is returned.
            scope: layers, heads and details to record; all by default.

        Raises:
            DataError: more than two texts.
            RecipeError: no such layer or head.
        """
        scope, row = scope or InspectionSelection(), self._encode_row(texts)
        title = texts if isinstance(texts, str) else " / ".join(texts)
        record, logits = record_encoder(
            self.model,
            lambda tokens: self._compute_logits(tokens)[0].float(),
            self._to_tokens([row]),
            tokenizer=self.tokenizer,
            selection=scope,
            title=title,
        )
        if self.labels is None:
            about = "score of the candidate" if self.answer_type == "choice" else "number"
            answer = ModelAnswer(about, "", None, (), number=float(logits[0]))
        else:
            names = self.labels.names
            options = top_options(
                self._to_probabilities(logits), lambda ids: [names[number] for number in ids], max_options=len(names)
            )
            answer = ModelAnswer("class", "", None, options)
        notes = (
            (f"The text was too long: {row.num_truncated:,} tokens at its end were not read.",)
            if row.num_truncated
            else ()
        )
        record = replace(record, answers=(answer,), notes=(*record.notes, *notes))
        predicted = int(logits.argmax())

        def compute_values(rows: int) -> Tensor:
            """Return the log-probability of the predicted class, or the number, for each copy of the input."""
            tokens = repeat_rows(scope.pad_tokens(self._to_tokens([row])), rows)
            outputs = self._compute_logits(tokens).float()
            if self.labels is None:
                return outputs[:, :1]
            return (functional.logsigmoid(outputs) if self.independent else outputs.log_softmax(-1))[:, [predicted]]

        unit = "" if self.labels is None else "nats"
        return add_attribution(record, self.model, compute_values, selection=scope, about="answers", unit=unit)

    def line_format(self) -> ClassLineFormat | ChoiceLineFormat:
        """Return the line format: for a model that chooses, a text with its candidates, else texts or tab-separated
        pairs.
        """
        return ChoiceLineFormat(self) if self.answer_type == "choice" else ClassLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's text or pair of texts."""
        request = request.require_no_generation()
        return self.inspect(
            request.source if request.target is None else (request.source, request.target), scope=request.selection
        )

    def _to_probabilities(self, logits: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
        """Convert logits to class probabilities."""
        return logits.sigmoid() if self.independent else logits.softmax(-1)

    def _input_warnings(self, texts: Texts) -> tuple[str, ...]:
        """Return warnings if the model was trained on pairs and gets one text, or on marked words and finds none."""
        parts = (texts,) if isinstance(texts, str) else tuple(texts)
        warnings = []
        if self.trained_on_pairs and len(parts) == 1:
            warnings.append(SINGLE_TEXT_WARNING)
        if self.trained_on_marked and not any(_MARKED_WORD.search(part) for part in parts):
            warnings.append(UNMARKED_TEXT_WARNING)
        return tuple(warnings)

    def _encode_row(self, texts: Texts) -> EncoderInput:
        """Encode one text or a pair as a row of ids; raise `DataError` for another number of texts, or one where the
        model reads pairs.
        """
        parts = tuple(to_text_list(texts))
        if not 1 <= len(parts) <= 2:
            raise DataError(f"{len(parts)} texts were given together; give one or two")
        if self.requires_pairs and len(parts) == 1:
            raise DataError(f"{parts[0][:40]!r}: is only one text, but this model reads two together; give both")
        return encode_texts(self.tokenizer, parts, max_length=self.max_length)

    def _run_logits(self, rows: Sequence[EncoderInput], *, batch_tokens: int | None) -> Tensor:
        return self._run_rows(rows, self._compute_logits, batch_tokens=batch_tokens)

    def _compute_logits(self, tokens: Tokens) -> Tensor:
        logits: Tensor = self.model.output(self.model(tokens))
        return logits

    def _run_rows(
        self, rows: Sequence[EncoderInput], run_model: Callable[[Tokens], Tensor], *, batch_tokens: int | None
    ) -> Tensor:
        """Run a function on rows in batches and stack its results, in their order, on the CPU."""
        batch_method = BatchMethod[EncoderInput, Tensor](self._run_batch, (run_model,))
        outputs = run_batched(
            rows,
            batch_method,
            size=lambda row: len(row.ids),
            batch_tokens=batch_tokens or default_batch_tokens(self.model),
        )
        return torch.stack(outputs) if outputs else torch.zeros(0, 0)

    def _run_batch(self, rows: list[EncoderInput], run_model: Callable[[Tokens], Tensor]) -> Tensor:
        return run_model(self._to_tokens(rows)).float().cpu()

    def _to_tokens(self, rows: Sequence[EncoderInput]) -> Tokens:
        """Pad rows to a batch on the model's device."""
        tokens = to_segmented_tokens([row.ids for row in rows], [row.segments.count(0) for row in rows])
        return move_to_device(tokens, next(self.model.parameters()).device)


def _list_texts(texts: Any, name: str = "texts") -> list[Texts]:
    """Return texts, or pairs of texts, as a list; a string is a list of one. `name` is the argument that the error
    message names if one is no text.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        return to_text_list(texts, name=name)
    items = list(texts)
    for index, item in enumerate(items):
        to_text_list(item, name=f"{name}[{index}]")
    return items


@final
@dataclass(frozen=True)
class ClassLineFormat(LineFormat[TextColumns, ClassificationResult]):
    """Line format of one text, or a tab-separated pair, per line, and its class with the probability, or its number."""

    classifier: Classifier

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TextColumns]:
        """Split each line at tabs into one or two texts; raise `DataError`, which names `source_name`, for more."""
        for number, line in enumerate(lines, 1):
            columns = tuple(line.split("\t"))
            if len(columns) > 2:
                raise DataError(
                    f"{source_name}:{number}: {len(columns)} texts; write one, or two with a tab between them"
                )
            yield columns

    def answer_inputs(self, inputs: Sequence[TextColumns], *, start: int) -> list[ClassificationResult]:
        """Classify the inputs."""
        return self.classifier.classify(inputs)

    def format_answer(self, answer: ClassificationResult) -> str:
        """Format the prediction as one line: class and probability, or the number."""
        if isinstance(answer.label, str):
            return f"{escape_cell(answer.label)}\t{answer.probabilities[answer.label]:.4f}\n"
        return f"{answer.label:.4f}\n"

    def input_notes(self, answer: ClassificationResult) -> Iterator[str]:
        """Note truncated texts, and warnings."""
        return iter([*super().input_notes(answer), *answer.doubts])


@final
@dataclass(frozen=True)
class ChoiceLineFormat(LineFormat[TextColumns, ChoiceResult]):
    """Line format of a text and its candidates, tab-separated, and the index of the right one with its probability."""

    classifier: Classifier

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TextColumns]:
        """Split each line at tabs into a text and its candidates; if there are none, raise `DataError` with
        `source_name`.
        """
        for number, line in enumerate(lines, 1):
            columns = tuple(line.split("\t"))
            if len(columns) < 2:
                raise DataError(
                    f"{source_name}:{number}: has no candidates; write a text and its candidates with tabs between them"
                )
            yield columns

    def answer_inputs(self, inputs: Sequence[TextColumns], *, start: int) -> list[ChoiceResult]:
        """Choose a candidate for each input."""
        return self.classifier.choose([[(text, candidate) for candidate in others] for text, *others in inputs])

    def format_answer(self, answer: ChoiceResult) -> str:
        """Format the choice as one line: the index of the candidate and its probability."""
        return f"{answer.number}\t{answer.probabilities[answer.number]:.4f}\n"
