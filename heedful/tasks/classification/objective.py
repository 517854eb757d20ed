"""Training objective and evaluator of classification, regression and choice among candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.corpus import Corpus
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.labels import LabelVocabulary
from heedful.inspection.capture import watch_attention
from heedful.metrics.classification import CorrelationMetric, MatthewsCorrelation, accuracy, f1_score, macro_f1_score
from heedful.metrics.metric import Metric
from heedful.models.heads import TextClassifier
from heedful.models.predictions import SoftmaxPredictions, cross_entropy
from heedful.tasks.benchmarks.definitions import (
    BenchmarkDefinition,
    HeadType,
    MetricName,
    Prediction,
    compute_majority_baseline,
    compute_metrics,
)
from heedful.tasks.classification.data import ClassificationBatch, collate_examples, compute_lengths
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import AnswerType, ClassificationDataConfig
from heedful.tasks.generation_objective import decorrelation_penalty as penalty_of
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import CorpusObjective, Loss, LossPart, RowIndices

METRICS: Mapping[AnswerType, tuple[MetricName, ...]] = {
    "class": ("accuracy", "macro_f1", "matthews"),
    "number": ("pearson", "spearman"),
    "choice": ("accuracy",),
}
"""Metrics of each answer type; `f1` is added if there is a positive class."""


@dataclass(eq=False)
class ClassificationObjective(CorpusObjective[ClassificationBatch]):
    """Training objective of p(class | text), of the number of a text by mean squared error, or of p(candidate | all
    candidates).

    Attributes:
        answer_type: what is predicted.
        labels: the classes; None if there are none.
        positive: the class of the metric F1; None if it is not measured.
        smoothing: label smoothing over all classes.
        decorrelation: weight of the penalty on similar attention hops of the model's summary, per text; 0 disables it.
    """

    _: KW_ONLY
    answer_type: AnswerType
    labels: LabelVocabulary | None = None
    positive: str | None = None
    smoothing: float = 0.0
    decorrelation: float = 0.0

    def __post_init__(self) -> None:
        self.metric_names = frozenset(("loss", *METRICS[self.answer_type], *(() if self.positive is None else ("f1",))))
        self.part_names = frozenset({"nll", "decorrelation"} if self.decorrelation else {"nll"})
        self.has_predictions = self.answer_type == "class"

    def collate(self, corpus: Corpus, rows: RowIndices) -> ClassificationBatch:
        """Collate texts or candidates into a batch."""
        return collate_examples(corpus, rows, answer_type=self.answer_type)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the length of each example, with candidates padded to the longest of them."""
        return compute_lengths(corpus)

    def loss(self, model: TextClassifier, batch: ClassificationBatch) -> Loss:
        """Compute the label-smoothed negative log-likelihood of a batch, or the sum of squared errors, and add the
        decorrelation penalty if its weight is not 0.
        """
        if not self.decorrelation:
            return self._plain_loss(model, batch)
        assert model.summary is not None, "hops are those of a summary"
        with watch_attention(model.summary, detach=False) as weights:
            loss = self._plain_loss(model, batch)
        penalty = penalty_of(call_weights for calls in weights.values() for call_weights in calls)
        parts = {"nll": LossPart(loss.total.detach(), loss.count), **loss.parts}
        parts["decorrelation"] = LossPart(penalty.detach(), loss.count)
        return replace(loss, total=loss.total + self.decorrelation * penalty, parts=parts)

    def _plain_loss(self, model: TextClassifier, batch: ClassificationBatch) -> Loss:
        """Compute the loss of a batch without the decorrelation penalty."""
        summaries = model(batch.tokens)
        if self.answer_type == "class":
            smoothed, nll = cross_entropy(summaries, batch.labels, output=model.output, smoothing=self.smoothing)
            part, predictions = LossPart(nll, len(batch.labels)), SoftmaxPredictions(summaries, model.output)
            return Loss(smoothed, len(batch.labels), {"nll": part}, predictions)
        return Loss(self._sum_losses(model.output(summaries).float(), batch), len(batch.counts))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss per example (nats, or squared errors) and the metrics."""
        assert isinstance(model, TextClassifier)
        total, count = 0.0, 0
        predictions: list[float] = []
        references: list[float] = []
        for batch in self.validation_batches():
            logits = model.output(model(batch.tokens)).float()
            total += float(self._sum_losses(logits, batch))
            count += len(batch.counts)
            batch_predictions, batch_references = self._compare_answers(logits, batch)
            predictions += batch_predictions
            references += batch_references
        return {"loss": total / count} | self._compute_metrics(predictions, references)

    def _sum_losses(self, logits: Tensor, batch: ClassificationBatch) -> Tensor:
        """Sum the unsmoothed losses of a batch, given the model's outputs."""
        match self.answer_type:
            case "class":
                return functional.cross_entropy(logits, batch.labels, reduction="sum")
            case "number":
                return functional.mse_loss(logits.squeeze(1), batch.labels, reduction="sum")
            case "choice":
                return -choice_log_likelihoods(logits.squeeze(1), batch).sum()

    def _compare_answers(self, logits: Tensor, batch: ClassificationBatch) -> tuple[list[float], list[float]]:
        """Return the predictions, given the model's outputs, and the references of a batch; for choices, whether each
        prediction is right, and 1.
        """
        match self.answer_type:
            case "class":
                return logits.argmax(-1).tolist(), batch.labels.tolist()
            case "number":
                return logits.squeeze(1).tolist(), batch.labels.tolist()
            case "choice":
                parts = zip(
                    split_by_choice(logits.squeeze(1), batch), split_by_choice(batch.labels, batch), strict=True
                )
                return [float(right[scores.argmax()]) for scores, right in parts], [1.0] * len(batch.counts)

    def _compute_metrics(self, predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
        """Return the metrics by name: correlations for numbers, accuracy for choices, and also macro F1, Matthews
        correlation and F1 of the positive class for classes.
        """
        if self.answer_type == "number":
            metrics: dict[str, Metric] = {
                "pearson": CorrelationMetric(predictions, references),
                "spearman": CorrelationMetric(predictions, references, use_ranks=True),
            }
        else:
            metrics = {"accuracy": accuracy(predictions, references)}
        if self.labels is not None:
            metrics["macro_f1"] = macro_f1_score(predictions, references, classes=range(self.labels.size))
            metrics["matthews"] = MatthewsCorrelation(predictions, references)
            if self.positive is not None:
                metrics["f1"] = f1_score(predictions, references, positive=self.labels.get_id(self.positive))
        return {name: metric.value for name, metric in metrics.items()}


def split_by_choice(values: Tensor, batch: ClassificationBatch) -> Sequence[Tensor]:
    """Split the values of all candidates of a batch into one tensor for each choice."""
    return torch.split(values, batch.counts.tolist())


def choice_log_likelihoods(scores: Float[Tensor, " N"], batch: ClassificationBatch) -> Float[Tensor, " B"]:
    """Return for each choice of a batch the log of the total probability of its right candidates, given the scores of
    all candidates.
    """
    return torch.stack(
        [
            torch.logsumexp(choice_scores[right > 0], 0) - torch.logsumexp(choice_scores, 0)
            for choice_scores, right in zip(
                split_by_choice(scores, batch), split_by_choice(batch.labels, batch), strict=True
            )
        ]
    )


def build_classification_evaluator(
    definition: BenchmarkDefinition,
    *,
    train: Iterable[LabelledExample | MultipleChoiceExample],
    examples: Sequence[LabelledExample | MultipleChoiceExample],
) -> LabelEvaluator:
    """Build the evaluator of texts with classes or numbers, or of candidates, whose indices are the answers; the
    training examples `train` give the majority baseline.

    Args:
        definition: defines the metrics, from 0 to 1 (correlations from -1).
        train: labelled examples for the majority baseline.
        examples: the test examples.

    Raises:
        DataError: there are no examples, or some have no label.
    """
    training_examples = list(train)
    baseline = compute_majority_baseline(definition, training_examples, examples)

    def predict_labels(classifier: Classifier) -> Sequence[Prediction]:
        """Return the classifier's answer to each example."""
        choices = [example.candidates for example in examples if isinstance(example, MultipleChoiceExample)]
        if choices:
            return [choice.number for choice in classifier.choose(choices)]
        texts = [example.texts for example in examples if isinstance(example, LabelledExample)]
        return [prediction.label for prediction in classifier.classify(texts)]

    return LabelEvaluator(
        [each.candidates if isinstance(each, MultipleChoiceExample) else each.texts for each in examples],
        [
            (each.correct_indices, each.gold_answers) if isinstance(each, MultipleChoiceExample) else each.label
            for each in examples
        ],
        predict_labels=predict_labels,
        measure=lambda answers: compute_metrics(definition, answers, examples),
        size=len(examples),
        num_train_examples=len(training_examples),
        constant_answer=baseline.prediction,
        baseline_answers=baseline.answers,
        main_metric=definition.metrics[0],
    )


_HEAD_BY_ANSWER_TYPE: Final[Mapping[AnswerType, HeadType]] = {
    "class": "classes",
    "number": "regression",
    "choice": "choice",
}


def define_custom_task(data: ClassificationDataConfig, labels: tuple[str, ...]) -> BenchmarkDefinition:
    """Define a task with the user's own files like a benchmark task; `labels` are its classes, if it has any."""
    metrics, positive = METRICS[data.answer_type], data.positive_class
    if positive is not None:
        metrics = (*metrics, "f1")
        labels = (*(name for name in labels if name != positive), positive)
    return BenchmarkDefinition(
        name="classification",
        title="",
        head=_HEAD_BY_ANSWER_TYPE[data.answer_type],
        metrics=metrics,
        folders=(),
        files={},
        texts="",
        labels=labels,
    )
