"""The question answering predictor: questions and contexts in, answer spans out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional

from heedful.argument_checks import require_text, to_pair_list
from heedful.data.encoder_inputs import ContextWindow
from heedful.data.readers import JsonRecord as Fields
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import RecipeError
from heedful.inspection.record import AnswerOption, InspectionRecord, ModelAnswer
from heedful.models.heads import TokenClassifier
from heedful.tasks.inspection_records import InspectionSelection, add_attribution, record_encoder, repeat_rows
from heedful.tasks.predictor import (
    OMIT_EMPTY,
    AnswerRecord,
    InspectRequest,
    LineFormat,
    Predictor,
    default_batch_tokens,
    run_batched,
)
from heedful.tasks.spans.data import (
    NO_ANSWER,
    WindowBatch,
    WindowSettings,
    batch_unlabelled_windows,
    split_into_windows,
)
from heedful.tensors import move_to_device

_MAX_SPANS = 20


@dataclass(frozen=True)
class AnswerSpan:
    """A part of the context that may be the answer."""

    text: str
    """as it stands in the context"""
    start: int
    """index of its first character"""
    stop: int
    """index of the character after it"""
    score: float
    """sum of start and end logit"""
    probability: float = 0.0
    """among the best spans and no answer"""


@keep_old_names(silence="no_answer_margin", none="no_answer_probability")
@dataclass(frozen=True)
class SpanAnswer:
    """The answer to a question, with the best spans.

    Attributes:
        text: the answer; empty if the context has none.
        spans: the best spans of the context, even if none of them is the answer; empty for an empty context.
        no_answer_margin: score of no answer minus the score of the best span.
        no_answer_probability: probability of no answer, among the best spans.
        cut: number of tokens at the end of the question that were not read; contexts are read completely, in windows.
    """

    text: str
    spans: tuple[AnswerSpan, ...]
    no_answer_margin: float
    no_answer_probability: float
    cut: int = 0


class SpanAnswerRecord(AnswerRecord):
    """The answer in a context, as `heedful answer --format jsonl` writes it."""

    answer: str
    """empty where the context has none"""
    none: float
    """probability that the context has no answer"""
    spans: list[AnswerSpan]
    cut: Annotated[int, OMIT_EMPTY] = 0


@keep_old_names(cutting="settings", logits="compute_logits")
@dataclass(frozen=True, eq=False, repr=False)
class QuestionAnsweringPredictor(Predictor):
    """An extractive question answering model with its tokenizer.

    Attributes:
        model: in evaluation mode; its two outputs are the start and end logits.
        tokenizer: of questions and contexts.
        settings: how contexts are cut into windows.
        max_answer: maximal number of tokens of an answer.
        threshold: the `no_answer_margin` from which there is no answer; None to answer always.
    """

    command = "answer"

    model: TokenClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    settings: WindowSettings
    max_answer: int
    threshold: float | None

    def answer(self, question: str, context: str, *, n_best: int = 1) -> SpanAnswer:
        """Answer one question from its context; see `answer_all`."""
        require_text(question, name="question")
        require_text(context, name="context")
        return self.answer_all([(question, context)], n_best=n_best)[0]

    def answer_all(
        self, questions: Sequence[tuple[str, str]], *, n_best: int = 1, batch_tokens: int | None = None, first: int = 1
    ) -> list[SpanAnswer]:
        """Answer questions, given as pairs of question and context; return an answer for each, with its `n_best` spans.

        Args:
            questions: pairs of question and context; a single pair is a list of one.
            n_best: spans to return.
            batch_tokens: padded tokens per batch; see `default_batch_tokens`.
            first: number of the first question, for messages.

        Raises:
            DataError: tokens of a context cannot be aligned with its text; the message names the question.
        """
        questions = to_pair_list(questions, name="questions", parts="a question and its context")
        windows_by_question = [
            split_into_windows(self.tokenizer, question, context, settings=self.settings, location=f"question {number}")
            for number, (question, context) in enumerate(questions, first)
        ]
        all_windows = [window for windows in windows_by_question for window in windows]
        logits = self.compute_logits(all_windows, batch_tokens=batch_tokens)
        results, offset = [], 0
        for (question, context), windows in zip(questions, windows_by_question, strict=True):
            best = self._choose_answer(windows, logits[offset : offset + len(windows)], context, n_best=n_best)
            question_length = len(self.tokenizer.encode(question))
            results.append(replace(best, cut=max(0, question_length - self.settings.max_question)))
            offset += len(windows)
        return results

    def _choose_answer(
        self, windows: Sequence[ContextWindow], logits: Sequence[Float[np.ndarray, "T 2"]], context: str, *, n_best: int
    ) -> SpanAnswer:
        """Choose the `n_best` spans of a context from the logits of its windows, with the predictor's threshold."""
        return choose_best_answer(
            windows, logits, context, max_answer=self.max_answer, threshold=self.threshold, n_best=n_best
        )

    def inspect(self, question: str, context: str, *, scope: InspectionSelection | None = None) -> InspectionRecord:
        """Record the attention of the model while it reads a question and a context, and the answer that it finds.

        Of a long context, the window with the best span is shown.

        Args:
            question: one question.
            context: the text that may answer it.
            scope: which layers, heads and details are recorded; all unless given.

        Raises:
            DataError: tokens of the context cannot be aligned with its text.
            RecipeError: there is no such layer or head.
        """
        require_text(question, name="question")
        require_text(context, name="context")
        scope = scope or InspectionSelection()
        windows = split_into_windows(self.tokenizer, question, context, settings=self.settings, location="the question")
        logits = self.compute_logits(windows)
        answer = self._choose_answer(windows, logits, context, n_best=scope.alternatives)
        best_scores = [
            max(
                (score for _, _, score in _find_best_spans(window, score_answers, max_answer=self.max_answer)),
                default=-math.inf,
            )
            for window, score_answers in zip(windows, logits, strict=True)
        ]
        shown_window = int(np.argmax(best_scores))
        batch = self._collate([windows[shown_window]])
        possible = functional.pad(batch.answer_mask, (0, scope.padding))
        record, end_logits = record_encoder(
            self.model,
            lambda tokens: compute_span_logits(self.model, replace(batch, tokens=tokens, answer_mask=possible))[0],
            batch.tokens,
            tokenizer=self.tokenizer,
            selection=scope,
            title=f"{question} / {context}",
        )
        notes = (f"The context was read in {len(windows)} parts that overlap; this is part {shown_window + 1}.",)
        span_answer = _build_span_answer(answer, windows[shown_window])
        record = replace(
            record,
            answers=(
                span_answer,
                *self._build_end_answers(end_logits, windows[shown_window], max_options=scope.alternatives),
            ),
            notes=(*record.notes, *(notes if len(windows) > 1 else ())),
        )
        best_span = next((span for span in answer.spans if span.text == span_answer.answer_text), None)
        token_range = (
            (NO_ANSWER, NO_ANSWER)
            if best_span is None
            else windows[shown_window].find_token_span(best_span.start, best_span.stop)
        )
        ends: list[int] = end_logits.argmax(0).tolist()

        def score_answers(rows: int) -> torch.Tensor:
            """Return the log-probabilities of the best span, start and end in `rows` copies of the input."""
            repeated_batch = replace(
                batch, tokens=repeat_rows(scope.pad_tokens(batch.tokens), rows), answer_mask=possible
            )
            start_scores, end_scores = compute_span_logits(self.model, repeated_batch).log_softmax(1).unbind(-1)
            span_scores = (
                [] if token_range is None else [start_scores[:, token_range[0]] + end_scores[:, token_range[1]]]
            )
            return torch.stack([*span_scores, start_scores[:, ends[0]], end_scores[:, ends[1]]], 1)

        attributed_rows = (1, 2) if token_range is None else (0, 1, 2)
        return add_attribution(
            record, self.model, score_answers, selection=scope, about="answers", indices=attributed_rows
        )

    def _build_end_answers(
        self, logits: Float[torch.Tensor, "T 2"], window: ContextWindow, *, max_options: int
    ) -> list[ModelAnswer]:
        """Return the most probable first and last tokens of the answer in one window, `max_options` of each, from its
        start and end logits.
        """
        names = ["no answer", *self.tokenizer.to_pieces(window.ids[1:])]
        answers = []
        for about, probabilities in zip(
            ("first token of the answer", "last token of the answer"), logits.softmax(0).T, strict=True
        ):
            best = probabilities.topk(min(max_options, int((probabilities > 0).sum())))
            options = [
                AnswerOption(names[index], probability, None if index == NO_ANSWER else index)
                for index, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
            answers.append(ModelAnswer(about, "", None, tuple(options)))
        return answers

    def compute_logits(
        self, windows: Sequence[ContextWindow], *, batch_tokens: int | None = None
    ) -> list[Float[np.ndarray, "T 2"]]:
        """Return the start and end logits of each token of each window; -inf where no answer can start or end."""
        tokens = batch_tokens or default_batch_tokens(self.model)
        return run_batched(
            windows, self._compute_batch_logits, size=lambda window: len(window.ids), batch_tokens=tokens
        )

    def _compute_batch_logits(self, batch: list[ContextWindow]) -> list[np.ndarray]:
        """Return the logits of a batch of windows without padding."""
        logits = compute_span_logits(self.model, self._collate(batch)).cpu().numpy()
        return [values[: len(window.ids)] for window, values in zip(batch, logits, strict=True)]

    def _collate(self, windows: Sequence[ContextWindow]) -> WindowBatch:
        """Collate windows on the model's device."""
        return move_to_device(batch_unlabelled_windows(windows), next(self.model.parameters()).device)

    def line_format(self) -> QuestionLineFormat:
        """Return the line format that reads questions with contexts as JSON."""
        return QuestionLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's question; its second text is the context."""
        context = request.require_no_generation().target
        if context is None:
            raise RecipeError("--pair: give the context that --text is a question about")
        return self.inspect(request.source, context, scope=request.selection)


@final
@dataclass(frozen=True)
class QuestionLineFormat(LineFormat[tuple[str, str], SpanAnswer]):
    """Reads a JSON object with `question` and `context` per line, skipping empty lines; writes one answer per line.

    Attributes:
        predictor: answers the questions.
        n_best: spans in the JSON output.
    """

    predictor: QuestionAnsweringPredictor
    n_best: int = 1
    chunk_size: ClassVar = 256

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[tuple[str, str]]:
        """Parse each line that is not empty into question and context; `source_name` is the file that error messages
        name.
        """
        for number, line in enumerate(lines, 1):
            if line.strip():
                record = Fields.from_line(line, location=f"{source_name}:{number}")
                yield record.get_text("question"), record.get_text("context")

    def answer_inputs(self, inputs: Sequence[tuple[str, str]], *, start: int) -> list[SpanAnswer]:
        """Answer the questions; `start` is the number of the first one."""
        return self.predictor.answer_all(inputs, n_best=self.n_best, first=start)

    def to_record(self, answer: SpanAnswer) -> SpanAnswerRecord:
        """Return the answer with span positions and probabilities."""
        return SpanAnswerRecord(
            answer=answer.text, none=answer.no_answer_probability, spans=list(answer.spans), cut=answer.cut
        )

    def format_answer(self, answer: SpanAnswer) -> str:
        """Format the answer as one line."""
        return " ".join(answer.text.split()) + "\n"


def _build_span_answer(answer: SpanAnswer, window: ContextWindow) -> ModelAnswer:
    """Return the best spans and "no answer" by probability, with token positions of spans inside the window."""
    options = [AnswerOption("no answer", answer.no_answer_probability)]
    for span in answer.spans:
        token_range = window.find_token_span(span.start, span.stop)
        options.append(AnswerOption(span.text, span.probability, None if token_range is None else token_range[0]))
    return ModelAnswer("answer", "", None, tuple(sorted(options, key=lambda option: -option.probability)))


def compute_span_logits(model: TokenClassifier, batch: WindowBatch) -> Float[torch.Tensor, "B T 2"]:
    """Return the start and end logits of each token of a batch, -inf where no answer can start or end."""
    logits = model.output(model(batch.tokens)).float()
    masked: torch.Tensor = logits.masked_fill(~batch.answer_mask.unsqueeze(-1), -math.inf)
    return masked


def choose_best_answer(
    windows: Sequence[ContextWindow],
    logits: Sequence[Float[np.ndarray, "T 2"]],
    context: str,
    *,
    max_answer: int,
    threshold: float | None,
    n_best: int = 1,
) -> SpanAnswer:
    """Choose the `n_best` spans of a context, of at most `max_answer` tokens, from the logits of all its windows
    (Devlin et al. 2019, 4.2 and 4.3). The answer is empty if the score of no answer exceeds that of the best span by
    `threshold`, never if it is None.

    The score of a span is the sum of its start and end logit; a span that starts where another window has more context
    is left to that window. The score of no answer is the smallest score of `NO_ANSWER` over the windows, because only
    one window needs to contain the answer.
    """
    no_answer_score = min(float(values[NO_ANSWER].sum()) for values in logits)
    best: dict[tuple[int, int], float] = {}
    for window, values in zip(windows, logits, strict=True):
        for first, last, score in _find_best_spans(window, values, max_answer=max_answer):
            characters = (
                window.offsets[first - window.context_start][0],
                window.offsets[last - window.context_start][1],
            )
            best[characters] = max(score, best.get(characters, -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[: max(n_best, _MAX_SPANS)]
    scores = np.array([no_answer_score, *(score for _, score in ranked)])
    probabilities = np.exp(scores - scores.max())
    probabilities = probabilities / probabilities.sum()
    spans = tuple(
        AnswerSpan(context[start:stop], start, stop, score, float(probability))
        for ((start, stop), score), probability in zip(ranked, probabilities[1:], strict=True)
    )
    silence = no_answer_score - spans[0].score if spans else math.inf
    has_no_answer = not spans or (threshold is not None and silence >= threshold)
    return SpanAnswer("" if has_no_answer else spans[0].text, spans[:n_best], silence, float(probabilities[0]))


def _find_best_spans(
    window: ContextWindow, values: Float[np.ndarray, "T 2"], *, max_answer: int
) -> list[tuple[int, int, float]]:
    """Return the best spans of a window as first index, last index and score, from the start and end logits `values`; a
    span has at most `max_answer` tokens.
    """
    count = len(window.offsets)
    if not count:
        return []
    context_logits = values[window.context_start : window.context_start + count]
    has_characters = np.array([stop > start for start, stop in window.offsets])
    start_scores = np.where(has_characters & np.array(window.is_most_central), context_logits[:, 0], -math.inf)
    end_scores = np.where(has_characters, context_logits[:, 1], -math.inf)
    width = min(max_answer, count)
    # row i, column j: from token i to token i + j
    shifted = np.concatenate((end_scores, np.full(width, -math.inf)))
    scores = start_scores[:, None] + np.lib.stride_tricks.sliding_window_view(shifted, width)[:count]
    flat = scores.ravel()
    chosen = np.argpartition(-flat, min(_MAX_SPANS, len(flat) - 1))[:_MAX_SPANS]
    return [
        (
            window.context_start + int(index) // width,
            window.context_start + int(index) // width + int(index) % width,
            float(flat[index]),
        )
        for index in chosen
        if flat[index] > -math.inf
    ]
