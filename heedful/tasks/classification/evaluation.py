"""Evaluator of classifiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.tasks.benchmarks.definitions import (
    BenchmarkDefinition,
    HeadType,
    Prediction,
    compute_majority_baseline,
    compute_metrics,
)
from heedful.tasks.classification.objective import METRICS
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import AnswerType, ClassificationDataConfig
from heedful.tasks.label_evaluation import LabelEvaluator


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
