"""What classifiers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from heedful.data.labelled import Choice, Labelled
from heedful.tasks.benchmarks.definitions import Definition, Head, Prediction, majority, metrics_of
from heedful.tasks.classification.face import Classifier
from heedful.tasks.classification.problem import METRICS
from heedful.tasks.classification.recipe import ClassificationDataConfig, Verdict
from heedful.tasks.labelled import LabelledExam


def class_exam(
    definition: Definition, *, train: Iterable[Labelled | Choice], examples: Sequence[Labelled | Choice]
) -> LabelledExam:
    """Texts with classes or numbers, or candidates of which some are right, whose numbers are the answers.

    Args:
        definition: which metrics there are, from 0 to 1 (correlations from -1).
        train: labelled examples that tell what is most frequent.
        examples: what is asked.

    Raises:
        DataError: there are no examples, or some have no label.
    """
    seen = list(train)
    always = majority(definition, seen, examples)

    def ask(user: Classifier) -> Sequence[Prediction]:
        choices = [example.candidates for example in examples if isinstance(example, Choice)]
        if choices:
            return [chosen.number for chosen in user.choose(choices)]
        texts = [example.texts for example in examples if isinstance(example, Labelled)]
        return [found.label for found in user.classify(texts)]

    return LabelledExam(
        [each.candidates if isinstance(each, Choice) else each.texts for each in examples],
        [(each.right, each.golds) if isinstance(each, Choice) else each.label for each in examples],
        ask=ask,
        measure=lambda answers: metrics_of(definition, answers, examples),
        size=len(examples),
        total=len(seen),
        constant=always.prediction,
        baseline=always.answers,
        main=definition.metrics[0],
    )


_HEADS: Final[Mapping[Verdict, Head]] = {"class": "classes", "number": "regression", "choice": "choice"}


def own_definition(data: ClassificationDataConfig, labels: tuple[str, ...]) -> Definition:
    """What a task with files of its own would be called among the benchmarks, given its classes."""
    metrics, positive = METRICS[data.answered], data.positive_class
    if positive is not None:
        metrics = (*metrics, "f1")
        labels = (*(name for name in labels if name != positive), positive)
    return Definition(
        name="classification",
        title="",
        head=_HEADS[data.answered],
        metrics=metrics,
        folders=(),
        sources={},
        texts="",
        labels=labels,
    )
