"""Finding answers as a task: where in a text a question's answer begins and ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.data.questions import Question
from heedful.data.tokenizers import Tokenizer
from heedful.metrics.answers import answer_metrics, best_threshold
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.spans.face import Answerer, span_logits
from heedful.tasks.spans.windows import Cutting, WindowBatch, collate_windows
from heedful.tasks.task import Loss, Rows, Task
from heedful.values import move

_METRICS: Final[Mapping[str, str]] = {"exact_match": "exact_match", "f1": "answer_f1"}
"""What is measured in training, and its name in an exam."""


@dataclass(frozen=True)
class Reading:
    """How questions are read and answered.

    Attributes:
        tokenizer: of questions and contexts.
        cutting: how contexts are cut.
        max_answer: tokens of an answer at most.
    """

    tokenizer: Tokenizer
    cutting: Cutting
    max_answer: int

    def answerer(self, model: TokenClassifier, *, threshold: float | None) -> Answerer:
        """The model as its users see it."""
        return Answerer(
            model,
            tokenizer=self.tokenizer,
            cutting=self.cutting,
            max_answer=self.max_answer,
            threshold=threshold,
        )


class Spans(Task[WindowBatch]):
    """Learning p(begin | question, window) and p(end | question, window); without an answer both are the first token.

    Args:
        train: windows to learn from.
        validation: windows whose likelihood is measured.
        questions: those that the windows of `validation` belong to, to be answered.
        reading: how questions are read.
        batch_tokens: padded tokens in a batch.
        seed: of the order of windows.
        device: where the model is.

    Attributes:
        threshold: what the last evaluation found best: the `silence` from which on there is no answer; None where
            every question had one, so that something is always answered.
    """

    metrics = frozenset({"loss", *_METRICS})

    def __init__(
        self,
        train: Corpus,
        validation: Corpus,
        *,
        questions: Sequence[Question],
        reading: Reading,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = train
        self.validation = validation
        self.questions = questions
        self.reading = reading
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device
        self.threshold: float | None = None

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of windows of similar length."""
        return plan_batches(_lengths(self.train), tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> WindowBatch:
        """These windows of the training questions."""
        return move(collate_windows(self.train, rows), self.device)

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
        for rows in plan_batches(_lengths(self.validation), tokens=self.batch_tokens, seed=0, epoch=0):
            loss = self.loss(model, move(collate_windows(self.validation, rows), self.device))
            total += float(loss.total)
            count += loss.count
        answerer = self.reading.answerer(model, threshold=None)
        answered = answerer.answer_all([(each.question, each.context) for each in self.questions])
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


def _lengths(corpus: Corpus) -> np.ndarray:
    lengths = corpus["tokens"].lengths
    return np.stack([lengths, lengths], 1)
