"""Benchmark tasks by name: their files, how texts are made of fields, labels, head, metrics, and the majority baseline.

The tables are in `glue`, `superglue`, `swag` and `answering`; `table` has them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from heedful.data.labelled import Choice, Labelled
from heedful.data.questions import Question
from heedful.data.readers import Reader
from heedful.errors import DataError
from heedful.metrics.answers import answer_metrics, token_f1
from heedful.metrics.classes import Matthews, accuracy, exact_groups, f1, macro_f1, parity
from heedful.metrics.correlation import Correlation
from heedful.metrics.metric import Metric, Ratio, grouped, mean

Head = Literal["classes", "pair", "regression", "choice", "spans"]
"""What a model must answer: a class of one text or of two, a number, one of several candidates, a part of a text."""

Split = Literal["train", "dev", "test"]
MetricName = Literal[
    "accuracy",
    "f1",
    "macro_f1",
    "matthews",
    "pearson",
    "spearman",
    "exact_groups",
    "f1a",
    "parity",
    "exact_match",
    "answer_f1",
]
_OF_GROUPS: Final[frozenset[str]] = frozenset({"exact_groups", "f1a", "parity"})
Example = Labelled | Choice | Question
Prediction = str | float | int


@dataclass(frozen=True)
class Source:
    """A file of a task.

    Attributes:
        files: its name; several where it is published under more than one.
        fields: the columns or fields that are read.
        read: the reader of a file.
    """

    files: tuple[str, ...]
    fields: str
    read: Callable[[Path], Reader[Example]]


@dataclass(frozen=True)
class Definition:
    """A task of a benchmark.

    Attributes:
        name: `benchmark/task`, in small letters.
        title: what it asks.
        head: what a model must answer.
        metrics: the official ones; where there are two, their mean is the task's score in its benchmark.
        folders: the name of its folder; several where it is published under more than one.
        sources: its files.
        texts: how the model's input is made of the fields.
        labels: the classes; none for regression, choice and spans. The last is the positive one where `f1` is a metric.
        trained_on: the task whose model is evaluated, where this one has no training data.
    """

    name: str
    title: str
    head: Head
    metrics: tuple[MetricName, ...]
    folders: tuple[str, ...]
    sources: Mapping[Split, Source]
    texts: str
    labels: tuple[str, ...] = ()
    trained_on: str | None = None

    def reader(self, folder: Path, split: Split) -> Reader[Example]:
        """The examples of a split: `Labelled`, `Choice` or `Question` as the head has it.

        Args:
            folder: the folder of the task, or of the benchmark with the task's folder in it; files may end with `.gz`.
            split: `test` has no labels in most tasks.

        Raises:
            DataError: the split does not exist, or its file is not there.
        """
        if split not in self.sources:
            more = f"; it is for models of {self.trained_on}" if self.trained_on else ""
            raise DataError(f"{self.name} has no {split} split, only {', '.join(self.sources)}{more}")
        source = self.sources[split]
        names = [f"{name}{suffix}" for name in source.files for suffix in ("", ".gz")]
        for place in (*(folder / inner for inner in self.folders), folder):
            for name in names:
                if (place / name).is_file():
                    return source.read(place / name)
        packed = [path.name for name in self.folders for path in sorted(folder.glob(f"{name}.*")) if path.is_file()]
        remedy = f"unpack {packed[0]}" if packed else "name the folder that holds it"
        raise DataError(
            f"{folder}: no {' or '.join(source.files)} of {self.name}, here or in {' or '.join(self.folders)}; {remedy}"
        )


@dataclass(frozen=True)
class Baseline:
    """What answers the same to every example, and what it reaches.

    Attributes:
        prediction: the most frequent label or number of a candidate in the training split, the mean of numbers, or no
            answer; None where each example has its own.
        scores: its metrics, 0 to 1.
        answers: what it says of each example that was evaluated.
    """

    prediction: Prediction | None
    scores: Mapping[str, float] = field(default_factory=dict)
    answers: Sequence[Prediction] = field(default=(), repr=False)


def metrics_of(
    definition: Definition, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, Metric]:
    """The task's metrics; where parts of a question are measured together, whole questions are weighed.

    Args:
        definition: which task.
        predictions: for each example the name of a class, a number, the number of a candidate, or the text of an
            answer (empty for none), as the head has it.
        examples: with labels.

    Raises:
        DataError: no examples, not as many predictions, or examples without labels.
    """
    if len(predictions) != len(examples):
        raise DataError(f"{len(predictions):,} predictions but {len(examples):,} examples: each needs its own")
    for example in examples:
        if (isinstance(example, Labelled) and example.label is None) or (
            isinstance(example, Choice) and example.right is None
        ):
            raise DataError(f"{example.place}: no label; only a split with labels can be measured")
    found: dict[str, Metric] = {name: _metric(name, definition, predictions, examples) for name in definition.metrics}
    if not _OF_GROUPS & found.keys():
        return found
    groups = _groups(examples)
    return {
        name: grouped(metric, groups) if name not in _OF_GROUPS and isinstance(metric, Ratio) else metric
        for name, metric in found.items()
    }


def measure(definition: Definition, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """The values of `metrics_of`."""
    return {name: metric.value for name, metric in metrics_of(definition, predictions, examples).items()}


def majority(definition: Definition, train: Iterable[Example], evaluated: Sequence[Example]) -> Baseline:
    """The baseline that knows labels but no texts: learned from `train`, measured on `evaluated`.

    It says the most frequent class (of equally frequent ones the first in the alphabet), the mean number, the most
    frequent number of a candidate, or that there is no answer. Where every example has candidates of its own, and those
    are names (ReCoRD, RuCoS), it takes the one that shares most words with the others.

    Raises:
        DataError: nothing to learn from, or the errors of `measure`.
    """
    seen = list(train)
    if not seen:
        raise DataError(f"{definition.name}: no training examples, so nothing is the most frequent label")
    if definition.head == "spans":
        return _always(definition, "", evaluated)
    if definition.head == "choice" and "answer_f1" in definition.metrics:
        chosen = [_typical(example.names) for example in evaluated if isinstance(example, Choice)]
        return Baseline(None, measure(definition, chosen, evaluated), chosen)
    labels = [label for example in seen for label in _golds(example)]
    if not labels:
        raise DataError(f"{definition.name}: no labels among the training examples; take the training split")
    prediction: Prediction
    if definition.head == "regression":
        prediction = fmean(float(label) for label in labels)
    else:
        counts = Counter(labels)
        prediction = min(counts, key=lambda label: (-counts[label], str(label)))
    return _always(definition, prediction, evaluated)


def _always(definition: Definition, prediction: Prediction, evaluated: Sequence[Example]) -> Baseline:
    answers = [prediction] * len(evaluated)
    return Baseline(prediction, measure(definition, answers, evaluated), answers)


def _golds(example: Example) -> Sequence[str | float | int]:
    if isinstance(example, Choice):
        return list(example.right or ())
    if isinstance(example, Question) or example.label is None:
        return []
    return [example.label] if isinstance(example.label, str) else [float(example.label)]


def _typical(names: Sequence[str]) -> int:
    """The candidate that shares most words with the others, the first of those."""
    shared = [sum(token_f1(name, [other]) for other in names if other is not name) for name in names]
    return shared.index(max(shared))


def _groups(examples: Sequence[Example]) -> list[str]:
    """What each belongs to."""
    groups = []
    for example in examples:
        if not isinstance(example, Labelled) or example.group is None:
            raise DataError(f"{example.place}: belongs to no group; its file lacks the field that names it")
        groups.append(example.group)
    return groups


def _metric(
    name: MetricName, definition: Definition, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> Metric:
    """One metric; none of the others is prepared, because not every metric suits every task."""
    if definition.head in ("choice", "spans"):
        right = [p in _golds(example) for p, example in zip(predictions, examples, strict=True)]
        return mean(right) if name == "accuracy" else _answered(predictions, examples)[name]
    golds, labels = [gold for example in examples for gold in _golds(example)], definition.labels
    made: dict[MetricName, Callable[[], Metric]] = {
        "accuracy": lambda: accuracy(predictions, golds),
        "f1": lambda: f1(predictions, golds, positive=labels[-1]),
        "macro_f1": lambda: macro_f1(predictions, golds, classes=labels),
        "matthews": lambda: Matthews(predictions, golds),
        "pearson": lambda: Correlation([float(p) for p in predictions], [float(g) for g in golds]),
        "spearman": lambda: Correlation([float(p) for p in predictions], [float(g) for g in golds], ranked=True),
        "exact_groups": lambda: exact_groups(
            [p == labels[-1] for p in predictions], [g == labels[-1] for g in golds], groups=_groups(examples)
        ),
        "f1a": lambda: grouped(f1(predictions, golds, positive=labels[-1]), _groups(examples)),
        "parity": lambda: parity(predictions, groups=_groups(examples)),
    }
    return made[name]()


def _answered(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, Metric]:
    """Exact match and F1; the number of a candidate is the answer that is its name."""
    answers, golds = [], []
    for prediction, example in zip(predictions, examples, strict=True):
        assert not isinstance(example, Labelled), "labels have no words to compare"
        if isinstance(example, Choice):
            answers.append(example.names[int(prediction)])
            golds.append(list(example.golds))
        else:
            answers.append(str(prediction))
            golds.append([answer.text for answer in example.answers])
    return answer_metrics(answers, golds)
