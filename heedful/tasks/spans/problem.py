"""Finding answers as a task: where in a text a question's answer begins and ends."""

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
from heedful.data.questions import Question
from heedful.metrics.answers import answer_metrics, best_threshold
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.spans.face import Answerer, span_logits
from heedful.tasks.spans.windows import WindowBatch, collate_windows
from heedful.tasks.task import CorpusTask, Loss, Rows

_METRICS: Final[Mapping[str, str]] = {"exact_match": "exact_match", "f1": "answer_f1"}
"""What is measured in training, and its name in an exam."""


@dataclass(eq=False)
class Spans(CorpusTask[WindowBatch]):
    """Learning p(begin | question, window) and p(end | question, window); without an answer both are the first token.

    The examples are windows; of those to be measured on the likelihood is told, and their questions are answered.

    Attributes:
        questions: those that the windows of `validation` belong to.
        answerer: the model as its users see it, given a `threshold`.
        threshold: what the last evaluation found best: the `silence` from which on there is no answer; None where
            every question had one, so that something is always answered.
    """

    _: KW_ONLY
    questions: Sequence[Question]
    answerer: Callable[..., Answerer]
    threshold: float | None = field(default=None, init=False)
    metrics = frozenset({"loss", *_METRICS})

    def collate(self, corpus: Corpus, rows: Rows) -> WindowBatch:
        """Windows."""
        return collate_windows(corpus, rows)

    def lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Those of windows."""
        lengths = corpus["tokens"].lengths
        return np.stack([lengths, lengths], 1)

    def loss(self, model: TokenClassifier, batch: WindowBatch) -> Loss:
        """The mean of both negative log-likelihoods (Devlin et al. 2019, 4.2)."""
        begin, end = span_logits(model, batch).unbind(-1)
        total = functional.cross_entropy(begin, batch.first, reduction="sum")
        total = (total + functional.cross_entropy(end, batch.last, reduction="sum")) / 2
        return Loss(total, len(batch.first))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per window), and exact match and F1 of answers with the threshold that is best for F1 here."""
        assert isinstance(model, TokenClassifier)
        total, count = 0.0, 0
        for batch in self.measured():
            loss = self.loss(model, batch)
            total += float(loss.total)
            count += loss.count
        answered = self.answerer(model, threshold=None).answer_all(
            [(each.question, each.context) for each in self.questions]
        )
        golds = [[answer.text for answer in each.answers] for each in self.questions]
        # whatever silence would be worth, these are the answers that would be given
        answers = [each.spans[0].text if each.spans else "" for each in answered]
        self.threshold = None
        if not all(golds):
            silence = [each.silence for each in answered]
            found = _between(best_threshold(answers, golds, silence=silence).threshold, silence)
            answers = ["" if quiet >= found else answer for answer, quiet in zip(answers, silence, strict=True)]
            self.threshold = found if math.isfinite(found) else None
        metrics = answer_metrics(answers, golds)
        return {"loss": total / count} | {name: metrics[key].value for name, key in _METRICS.items()}


def _between(threshold: float, silence: Sequence[float]) -> float:
    """A threshold with the same answers, in the middle between two questions, so that rounding turns none."""
    below = max((each for each in silence if each < threshold), default=threshold - 2)
    return (threshold + below) / 2
