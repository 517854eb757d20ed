"""The question answering task: settings, evaluator, vocabularies, model, objective and predictor of a recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Int
from pydantic import BaseModel
from torch import nn
from torch.nn import functional

from heedful.architectures.build_classifiers import build_span_classifier
from heedful.atomic_io import read_checked_json
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.questions import ExtractiveQuestion
from heedful.errors import DataError
from heedful.metrics.spans import compute_answer_metrics, find_best_threshold
from heedful.models.heads import TokenClassifier
from heedful.models.interface import Encoder
from heedful.tasks.auto_settings import ComputeBudget, LearningSpeed, Settings, TrainingAmount
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices, TrainingObjective, UnitNames
from heedful.tasks.portable_model import InferenceSettings, OutputHead
from heedful.tasks.spans.data import (
    NO_ANSWER,
    LabelledWindow,
    WindowBatch,
    WindowSettings,
    build_window_encoding,
    collate_windows,
    label_windows,
)
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor, compute_span_logits
from heedful.tasks.spans.recipe import SpansRecipe
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, read_examples
from heedful.tensors import Tokens

_METRIC_NAMES: Final[Mapping[str, str]] = {"exact_match": "exact_match", "f1": "answer_f1"}
"""Names of the metrics in training, and in evaluation."""


@dataclass(eq=False)
class SpanObjective(CorpusObjective[WindowBatch]):
    """Learn p(start | question, window) and p(end | question, window); without an answer both are the first token.

    Examples are windows. Validation measures the likelihood of windows, and answers the questions that they belong to.

    Attributes:
        questions: the questions of the `validation` windows.
        make_predictor: builds the predictor, given a model and a `threshold`.
        in_one_segment: whether question and context are in the same segment.
        threshold: the `no_answer_margin` from which the last evaluation predicts no answer; None if every question had
            an answer, so that something is always answered.
    """

    _: KW_ONLY
    questions: Sequence[ExtractiveQuestion]
    make_predictor: Callable[..., QuestionAnsweringPredictor]
    in_one_segment: bool = False
    threshold: float | None = field(default=None, init=False)
    metric_names = frozenset({"loss", *_METRIC_NAMES})

    def collate(self, corpus: Corpus, rows: RowIndices) -> WindowBatch:
        """Collate windows."""
        return collate_windows(corpus, rows, in_one_segment=self.in_one_segment)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the lengths of windows."""
        lengths = corpus["tokens"].lengths
        return np.stack([lengths, lengths], 1)

    def loss(self, model: TokenClassifier, batch: WindowBatch) -> Loss:
        """Compute the mean of the start and end negative log-likelihoods of a batch (Devlin et al. 2019, 4.2)."""
        start_logits, end_logits = compute_span_logits(model, batch).unbind(-1)
        total = functional.cross_entropy(start_logits, batch.answer_starts, reduction="sum")
        total = (total + functional.cross_entropy(end_logits, batch.answer_ends, reduction="sum")) / 2
        return Loss(total, len(batch.answer_starts))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per window), and exact match and F1 of answers at the threshold with the best F1."""
        assert isinstance(model, TokenClassifier)
        total, count = 0.0, 0.0
        for batch in self.validation_batches():
            loss = self.loss(model, batch)
            total += float(loss.total)
            count += loss.count
        predictions = self.make_predictor(model, threshold=None).answer_all(
            [(each.question, each.context) for each in self.questions]
        )
        golds = [[answer.text for answer in each.answers] for each in self.questions]
        # these are the answers if the model has to give one
        answers = [each.spans[0].text if each.spans else "" for each in predictions]
        self.threshold = None
        if not all(golds):
            silence = [each.no_answer_margin for each in predictions]
            threshold = _center_threshold(
                find_best_threshold(answers, golds, no_answer_scores=silence).threshold, silence
            )
            answers = ["" if margin >= threshold else answer for answer, margin in zip(answers, silence, strict=True)]
            self.threshold = threshold if math.isfinite(threshold) else None
        metrics = compute_answer_metrics(answers, golds)
        return {"loss": total / count} | {name: metrics[key].value for name, key in _METRIC_NAMES.items()}


def _center_threshold(threshold: float, silence: Sequence[float]) -> float:
    """Return a threshold that gives the same answers, midway between the margins (`silence`) of two questions, so that
    rounding changes no answer.
    """
    next_lower = max((margin for margin in silence if margin < threshold), default=threshold - 2)
    return (threshold + next_lower) / 2


PASSES: Final = 8
"""Over all questions, from scratch."""
_TOKENS_PER_WORD: Final = 1.35
"""Tokens of a word."""


def count_windows(questions: Iterable[ExtractiveQuestion], *, window: int) -> TrainingAmount:
    """Estimate the number of windows of `window` tokens, which overlap by half, and of their tokens.

    Raises:
        DataError: there are no questions.
    """
    windows, tokens = 0, 0.0
    for question in questions:
        question_tokens, context_tokens = (
            _TOKENS_PER_WORD * len(text.split()) for text in (question.question, question.context)
        )
        context_room = max(1.0, window - question_tokens - 3)
        count = max(1, round(2 * context_tokens / context_room) - 1)
        windows += count
        tokens += count * min(window, question_tokens + context_tokens + 3)
    if not windows:
        raise DataError("there are no questions to learn from; check the training files")
    return TrainingAmount(windows, tokens, batch_examples=16)


def build_question_evaluator(questions: Sequence[ExtractiveQuestion], *, total: int) -> LabelEvaluator:
    """Build the evaluator of questions about contexts; answers are texts, empty for no answer. `total` is the number of
    training questions.

    It measures exact match and F1; if some questions have no answer, also the F1 of those that have one, and how often
    the others were left unanswered.

    Args:
        questions: the questions to answer.
        total: number of training questions.

    Raises:
        DataError: there are no questions.
    """
    if not questions:
        raise DataError("there are no questions; check the file")
    pairs = [(each.question, each.context) for each in questions]
    golds = [tuple(answer.text for answer in each.answers) for each in questions]

    def answer_questions(predictor: QuestionAnsweringPredictor) -> list[str]:
        return [answer.text for answer in predictor.answer_all(pairs)]

    return LabelEvaluator(
        pairs,
        golds,
        predict_labels=answer_questions,
        measure=lambda answers: compute_answer_metrics(answers, golds),
        size=len(questions),
        num_train_examples=total,
        constant_answer="",
        baseline_answers=[""] * len(questions),
        main_metric="answer_f1",
    )


TEXT_FILE: Final = "tokenizer/text"
THRESHOLD_FILE: Final = "silence.json"
SpansRun: TypeAlias = Run[SpansRecipe, TokenClassifier]


class NoAnswerThreshold(BaseModel, extra="forbid", allow_inf_nan=False):
    """The stored `no_answer_margin` from which a finished model gives no answer; always answer if None."""

    format: Literal[1] = 1
    threshold: float | None


@final
class SpansTask(FineTuningTask[SpansRecipe, TokenClassifier]):
    """Extractive question answering."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="windows", labels="windows", corpus_examples="windows")
    default_example_command: ClassVar = 'answer RUN --question "..." --context "..."'

    def choose_settings(self, recipe: SpansRecipe, budget: ComputeBudget) -> Settings:
        """Choose training settings for the number of questions and the compute budget."""
        train_size, validation_size = (
            count_windows(read_examples(recipe, part), window=recipe.data.max_length)
            for part in ("train", "validation")
        )
        monitor_settings: dict[str, Any] = {"recipe": recipe, "monitor": "f1", "validation_amount": validation_size}
        if recipe.init is None:
            return train_size.choose_settings(
                budget, epochs=PASSES, speed=LearningSpeed.from_architecture(recipe.model), **monitor_settings
            )
        settings = train_size.choose_tuning_settings(budget, model=recipe.model, rate=2e-4, **monitor_settings)
        return {**settings, "training.layer_decay": 0.9}

    def iter_texts(self, recipe: SpansRecipe) -> Iterator[str]:
        """Yield each question, and each context once where consecutive questions share it."""
        context = None
        for question in read_examples(recipe, "train"):
            yield question.question
            if question.context != context:
                context = question.context
                yield context

    def prepare_examples(self, run: SpansRun, examples: Iterable[ExtractiveQuestion]) -> Iterable[LabelledWindow]:
        """Split the questions into labelled windows."""
        return label_windows(run.tokenizer, examples, settings=_get_window_settings(run))

    def build_encoding(self, run: SpansRun) -> ExampleEncoder[LabelledWindow]:
        """Return the encoding of windows and answer positions."""
        return build_window_encoding(run.tokenizer, max_length=run.recipe.data.max_length)

    def data_warnings(self, run: SpansRun, corpus: Corpus) -> Sequence[str]:
        """Return a message that says how many windows of a corpus contain an answer."""
        num_answered = int((corpus["first"].stream != NO_ANSWER).sum())
        return (f"{len(corpus):,} windows, {num_answered:,} with an answer",)

    def build_encoder_with_head(
        self, recipe: SpansRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> TokenClassifier:
        """Build the given encoder, or a new one, with two logits per token; `sizes` has the vocabulary size."""
        longest = recipe.data.max_length
        return build_span_classifier(recipe.model, vocabulary=sizes[TEXT_FILE], longest=longest, encoder=encoder)

    def build_objective(
        self, run: SpansRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> SpanObjective:
        """Build the objective of answer start and end positions on a training and a validation corpus."""
        return SpanObjective(
            train,
            validation,
            questions=list(run.read_examples("validation")),
            make_predictor=_bind_predictor(run),
            in_one_segment=run.tokenizer.special.doubles_separator,
            batch_tokens=run.recipe.training.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def result_files(self, run: SpansRun, objective: TrainingObjective[Any]) -> Mapping[str, BaseModel]:
        """Return the no-answer threshold of the final model, as a file of the run folder."""
        assert isinstance(objective, SpanObjective)
        return {THRESHOLD_FILE: NoAnswerThreshold(threshold=objective.threshold)}

    def build_part_evaluator(self, recipe: SpansRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the questions of the data `part`."""
        total = sum(1 for _ in recipe.data.reader("train"))
        return build_question_evaluator(list(recipe.data.reader(part)), total=total)

    def primary_metric(self, run: SpansRun) -> str:
        """Return "f1", the F1 of words."""
        return "f1"

    def output_head(self, run: SpansRun) -> OutputHead:
        """Return the head that predicts answer start and end."""
        data, path = run.recipe.data, run.folder / THRESHOLD_FILE
        reading = InferenceSettings(
            max_length=data.max_length,
            max_question=data.max_question,
            stride=data.stride,
            max_answer=data.max_answer,
            threshold=read_checked_json(path, NoAnswerThreshold).threshold if path.exists() else 0.0,
        )
        return OutputHead("ends", settings=reading)

    def build_predictor(
        self, run: SpansRun, model: TokenClassifier, *, step: int | None = None
    ) -> QuestionAnsweringPredictor:
        """Build the predictor with the run's threshold for giving no answer. Unfinished models, and checkpoints with a
        `step`, give no answer where that is more probable.
        """
        path = run.folder / THRESHOLD_FILE
        finished = step is None and path.exists()
        return _bind_predictor(run)(
            model, threshold=read_checked_json(path, NoAnswerThreshold).threshold if finished else 0.0
        )


TASK: Final = SpansTask()


def _get_window_settings(run: SpansRun) -> WindowSettings:
    """Return how a run cuts contexts into windows."""
    data = run.recipe.data
    return WindowSettings(data.max_length, data.stride, data.max_question)


def _bind_predictor(run: SpansRun) -> Callable[..., QuestionAnsweringPredictor]:
    """Return the predictor class with all arguments bound except the model and the threshold."""
    return partial(
        QuestionAnsweringPredictor,
        tokenizer=run.tokenizer,
        settings=_get_window_settings(run),
        max_answer=run.recipe.data.max_answer,
    )
