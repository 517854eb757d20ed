"""The objective of extractive question answering: predict where an answer starts and ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np
from jaxtyping import Int
from torch import nn
from torch.nn import functional

from heedful.data.corpus import Corpus
from heedful.data.questions import ExtractiveQuestion
from heedful.metrics.spans import compute_answer_metrics, find_best_threshold
from heedful.models.heads import TokenClassifier
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices
from heedful.tasks.spans.data import WindowBatch, collate_windows
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor, compute_span_logits

_METRIC_NAMES: Final[Mapping[str, str]] = {"exact_match": "exact_match", "f1": "answer_f1"}
"""What is measured in training, and its name in an exam."""


@dataclass(eq=False)
class SpanObjective(CorpusObjective[WindowBatch]):
    """Learn p(start | question, window) and p(end | question, window); without an answer both are the first token.

    Examples are windows. Validation measures the likelihood of windows, and answers the questions that they belong to.

    Attributes:
        questions: the questions of the `validation` windows.
        make_predictor: builds the predictor, given a model and a `threshold`.
        threshold: the `no_answer_margin` from which the last evaluation predicts no answer; None if every question had
            an answer, so that something is always answered.
    """

    _: KW_ONLY
    questions: Sequence[ExtractiveQuestion]
    make_predictor: Callable[..., QuestionAnsweringPredictor]
    threshold: float | None = field(default=None, init=False)
    metric_names = frozenset({"loss", *_METRIC_NAMES})

    def collate(self, corpus: Corpus, rows: RowIndices) -> WindowBatch:
        """Collate windows."""
        return collate_windows(corpus, rows)

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
        total, count = 0.0, 0
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
