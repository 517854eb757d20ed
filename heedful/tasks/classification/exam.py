"""What classifiers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.metrics.answers import exact_match, token_f1
from heedful.metrics.weighted import Correlation, Matthews, Mean, Ratio, Weighted, f1, grouped, hits, mean
from heedful.tasks.benchmarks.definitions import Definition, Example, Head, Metric, Prediction, majority, measure
from heedful.tasks.classification.examples import Answered
from heedful.tasks.classification.face import Classifier
from heedful.tasks.classification.recipe import ClassificationDataConfig
from heedful.tasks.exam import Exam

_OF_GROUPS: Final[frozenset[str]] = frozenset({"exact_groups", "f1a", "parity"})


@final
class ClassExam(Exam):
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

    def answers(self, user: object) -> Sequence[Prediction]:
        """Classes, numbers, or the numbers of candidates."""
        assert isinstance(user, Classifier)
        choices = [example.candidates for example in self.examples if isinstance(example, Choice)]
        if choices:
            return [chosen.number for chosen in user.choose(choices)]
        return [found.label for found in user.classify([_texts(example) for example in self.examples])]

    def measured(self, answers: Sequence[Prediction]) -> Mapping[str, float]:
        """The metrics of the definition."""
        return measure(self.definition, answers, self.examples)

    def weighted(self, answers: Sequence[Prediction]) -> Mapping[str, Weighted]:
        """The same for any weights."""
        found: dict[str, Weighted] = {name: self._weighted(name, answers) for name in self.definition.metrics}
        if not _OF_GROUPS & found.keys():
            return found
        groups = [each.group for each in self.examples if isinstance(each, Labelled)]
        return {
            name: grouped(metric, groups) if name not in _OF_GROUPS and isinstance(metric, Ratio) else metric
            for name, metric in found.items()
        }

    def _weighted(self, name: Metric, answers: Sequence[Prediction]) -> Weighted:
        """One metric; none of the others is prepared, because not every metric suits every task."""
        golds, classes = [_label(each) for each in self.examples], self.definition.labels
        pairs = list(zip(answers, self.examples, strict=True))
        made: dict[Metric, Callable[[], Weighted]] = {
            "accuracy": lambda: mean([_is_right(answer, each) for answer, each in pairs]),
            "f1": lambda: f1(answers, golds, positive=classes[-1]),
            "macro_f1": lambda: Mean(tuple(f1(answers, golds, positive=label) for label in classes)),
            "matthews": lambda: Matthews(answers, golds),
            "pearson": lambda: Correlation(_numbers(answers), _numbers(golds)),
            "spearman": lambda: Correlation(_numbers(answers), _numbers(golds), ranked=True),
            "exact_groups": lambda: self._of_groups(name, answers, golds),
            "f1a": lambda: self._of_groups(name, answers, golds),
            "parity": lambda: self._of_groups(name, answers, golds),
            "exact_match": lambda: mean([_of_names(exact_match, answer, each) for answer, each in pairs]),
            "answer_f1": lambda: mean([_of_names(token_f1, answer, each) for answer, each in pairs]),
        }
        return made[name]()

    def _of_groups(self, name: Metric, answers: Sequence[Prediction], golds: Sequence[Hashable]) -> Weighted:
        groups = [each.group for each in self.examples if isinstance(each, Labelled)]
        positive = self.definition.labels[-1]
        decided, there = [a == positive for a in answers], [g == positive for g in golds]
        if name == "f1a":
            return grouped(f1(decided, there, positive=True), groups)
        if name == "exact_groups":
            wrong = grouped(mean(1 - hits(decided, there)), groups)
            return mean([count == 0 for count in wrong.above])
        members: dict[Hashable, set[Hashable]] = {}
        for group, answer in zip(groups, answers, strict=True):
            members.setdefault(group, set()).add(answer)
        return mean([len(names) == 1 for names in members.values()])


def _texts(example: Example) -> tuple[str, ...]:
    assert isinstance(example, Labelled)
    return example.texts


def _label(example: Example) -> str | float | None:
    return example.label if isinstance(example, Labelled) else None


def _is_right(answer: Prediction, example: Example) -> bool:
    return answer in (example.right or ()) if isinstance(example, Choice) else answer == _label(example)


def _numbers(values: Sequence[Any]) -> Float[np.ndarray, " N"]:
    return np.array([float(value) for value in values])


def _of_names(score: Callable[[str, Sequence[str]], float], answer: Prediction, example: Example) -> float:
    """Of the name of a candidate."""
    assert isinstance(example, Choice)
    return score(example.names[int(answer)], example.golds)


_OWN: Final[dict[Answered, tuple[Head, tuple[Metric, ...]]]] = {
    "class": ("classes", ("accuracy", "macro_f1", "matthews")),
    "number": ("regression", ("pearson", "spearman")),
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
