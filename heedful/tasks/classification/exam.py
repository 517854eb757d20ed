"""What classifiers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, final

from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.benchmarks.definitions import (
    Definition,
    Example,
    Head,
    MetricName,
    Prediction,
    majority,
    metrics_of,
)
from heedful.tasks.classification.face import Classifier
from heedful.tasks.classification.recipe import ClassificationDataConfig, Verdict
from heedful.tasks.labelled import LabelledExam


@final
class ClassExam(LabelledExam):
    """Texts with classes or numbers, or candidates of which some are right.

    Args:
        definition: which metrics there are.
        train: labelled examples that tell what is most frequent.
        examples: what is asked.

    Raises:
        DataError: there are no examples, or some have no label.
    """

    def __init__(self, definition: Definition, *, train: Iterable[Example], examples: Sequence[Example]) -> None:
        seen = list(train)
        always = majority(definition, seen, examples)
        self.definition = definition
        self.examples = examples
        self.size = len(examples)
        self.total = len(seen)
        self.constant = always.prediction
        self.baseline = always.answers
        self.main = definition.metrics[0]

    @property
    def asked(self) -> Sequence[Hashable]:
        """The texts, or those of all candidates."""
        return [each.candidates if isinstance(each, Choice) else _texts(each) for each in self.examples]

    @property
    def right(self) -> Sequence[Hashable]:
        """Labels, or the right candidates and what counts as their names."""
        return [(each.right, each.golds) if isinstance(each, Choice) else _label(each) for each in self.examples]

    def answers(self, user: Classifier, recipe: Recipe) -> Sequence[Prediction]:
        """Classes, numbers, or the numbers of candidates."""
        choices = [example.candidates for example in self.examples if isinstance(example, Choice)]
        if choices:
            return [chosen.number for chosen in user.choose(choices)]
        return [found.label for found in user.classify([_texts(example) for example in self.examples])]

    def metrics(self, answers: Sequence[Prediction]) -> Mapping[str, Metric]:
        """Those of the definition, from 0 to 1 (correlations from -1)."""
        return metrics_of(self.definition, answers, self.examples)


def _texts(example: Example) -> tuple[str, ...]:
    assert isinstance(example, Labelled)
    return example.texts


def _label(example: Example) -> str | float | None:
    return example.label if isinstance(example, Labelled) else None


_OWN: Final[Mapping[Verdict, tuple[Head, tuple[MetricName, ...]]]] = {
    "class": ("classes", ("accuracy", "macro_f1", "matthews")),
    "number": ("regression", ("pearson", "spearman")),
    "choice": ("choice", ("accuracy",)),
}


def own_definition(data: ClassificationDataConfig, known: Labels | None) -> Definition:
    """What a task with files of its own would be called among the benchmarks, given its classes."""
    head, metrics = _OWN[data.answered]
    positive = data.positive_class
    labels = () if known is None else known.names
    if positive is not None:
        metrics = (*metrics, "f1")
        labels = (*(name for name in labels if name != positive), positive)
    return Definition(
        name="classification",
        title="",
        head=head,
        metrics=metrics,
        folders=(),
        sources={},
        texts="",
        labels=labels,
    )
