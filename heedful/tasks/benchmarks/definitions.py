"""Definitions of benchmark tasks: files, input texts, labels, head, metrics, and the majority baseline.

The definitions are in `table`, the readers of their files in `records` and `heedful.data`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.questions import ExtractiveQuestion
from heedful.data.readers import ExampleReader
from heedful.errors import DataError
from heedful.metrics.classification import (
    CorrelationMetric,
    MatthewsCorrelation,
    accuracy,
    f1_score,
    group_exact_match,
    group_parity,
    macro_f1_score,
)
from heedful.metrics.metric import Metric, RatioMetric, build_mean_metric, group_metric
from heedful.metrics.spans import compute_answer_metrics, token_f1

HeadType = Literal["classes", "pair", "regression", "choice", "spans"]
"""What a model must predict: a class of one text or of two, a number, one of several candidates, or a span of a
text."""

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
_GROUP_METRICS: Final[frozenset[str]] = frozenset({"exact_groups", "f1a", "parity"})
Example = LabelledExample | MultipleChoiceExample | ExtractiveQuestion
Prediction = str | float | int


@dataclass(frozen=True)
class BenchmarkFile:
    """A file of a benchmark task.

    Attributes:
        names: its name; several if it is published under more than one.
        fields: the columns or fields that are read.
        open_reader: opens a reader of the file.
    """

    names: tuple[str, ...]
    fields: str
    open_reader: Callable[[Path], ExampleReader[Example]]


@dataclass(frozen=True)
class BenchmarkDefinition:
    """A task of a benchmark.

    Attributes:
        name: `benchmark/task`, in lower case.
        title: the question of the task.
        head: what a model must predict.
        metrics: the official metrics; if there are two, their mean is the task's score in its benchmark.
        folders: name of its folder; several if it is published under more than one.
        files: file of each split.
        texts: how the model's input is made from the fields.
        labels: the classes; none for regression, choice and spans. The last is the positive one if `f1` is a metric.
        trained_on: the task whose model is evaluated, if this one has no training data.
    """

    name: str
    title: str
    head: HeadType
    metrics: tuple[MetricName, ...]
    folders: tuple[str, ...]
    files: Mapping[Split, BenchmarkFile]
    texts: str
    labels: tuple[str, ...] = ()
    trained_on: str | None = None

    def open_split(self, folder: Path, split: Split) -> ExampleReader[Example]:
        """Open a reader of the examples of a split.

        The head decides their class: `LabelledExample`, `MultipleChoiceExample` or `ExtractiveQuestion`.

        Args:
            folder: folder of the task, or of the benchmark with the task's folder in it; files may end with `.gz`.
            split: name of the split; `test` has no labels in most tasks.

        Raises:
            DataError: the split does not exist, or its file is missing.
        """
        if split not in self.files:
            hint = f"; it is for models of {self.trained_on}" if self.trained_on else ""
            raise DataError(f"{self.name} has no {split} split, only {', '.join(self.files)}{hint}")
        file = self.files[split]
        names = [f"{name}{suffix}" for name in file.names for suffix in ("", ".gz")]
        for candidate_folder in (*(folder / inner for inner in self.folders), folder):
            for name in names:
                if (candidate_folder / name).is_file():
                    return file.open_reader(candidate_folder / name)
        archives = [path.name for name in self.folders for path in sorted(folder.glob(f"{name}.*")) if path.is_file()]
        remedy = f"unpack {archives[0]}" if archives else "name the folder that contains it"
        raise DataError(
            f"{folder}: no {' or '.join(file.names)} of {self.name}, here or in {' or '.join(self.folders)}; {remedy}"
        )


@dataclass(frozen=True)
class MajorityBaseline:
    """The baseline that gives the same answer to every example, and its scores.

    Attributes:
        prediction: the most frequent label or candidate index of the training split, the mean of numbers, or no answer;
            None if each example has its own.
        scores: its metrics, 0 to 1.
        answers: its answer to each evaluated example.
    """

    prediction: Prediction | None
    scores: Mapping[str, float] = field(default_factory=dict)
    answers: Sequence[Prediction] = field(default=(), repr=False)


def compute_metrics(
    definition: BenchmarkDefinition, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, Metric]:
    """Compute the task's metrics; if the parts of a question are measured together, whole questions are weighted.

    Args:
        definition: the task.
        predictions: for each example the name of a class, a number, the index of a candidate, or the text of an answer
            (empty for none), by the head.
        examples: examples with labels.

    Raises:
        DataError: no examples, a different number of predictions, or examples without labels.
    """
    if len(predictions) != len(examples):
        raise DataError(f"{len(predictions):,} predictions but {len(examples):,} examples; give one for each example")
    for example in examples:
        if (isinstance(example, LabelledExample) and example.label is None) or (
            isinstance(example, MultipleChoiceExample) and example.correct_indices is None
        ):
            raise DataError(f"{example.location}: has no label; only a split with labels can be evaluated")
    metrics: dict[str, Metric] = {
        name: _compute_metric(name, definition, predictions, examples) for name in definition.metrics
    }
    if not _GROUP_METRICS & metrics.keys():
        return metrics
    groups = _group_keys(examples)
    return {
        name: group_metric(metric, groups) if name not in _GROUP_METRICS and isinstance(metric, RatioMetric) else metric
        for name, metric in metrics.items()
    }


def compute_metric_values(
    definition: BenchmarkDefinition, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, float]:
    """Compute the values of the task's metrics; see `compute_metrics`."""
    return {name: metric.value for name, metric in compute_metrics(definition, predictions, examples).items()}


def compute_majority_baseline(
    definition: BenchmarkDefinition, train: Iterable[Example], evaluated: Sequence[Example]
) -> MajorityBaseline:
    """Compute the baseline that knows only the labels of the examples in `train`, and measure it on the examples in
    `evaluated` with the metrics of the task `definition`.

    It gives the most frequent class (of equally frequent ones the first in the alphabet), the mean number, the most
    frequent candidate index, or no answer. If every example has candidates of its own that are names (ReCoRD, RuCoS),
    it chooses the one that shares most words with the others.

    Raises:
        DataError: no training examples, or the errors of `compute_metric_values`.
    """
    training_examples = list(train)
    if not training_examples:
        raise DataError(f"{definition.name}: has no training examples, so there is no most frequent label")
    if definition.head == "spans":
        return _constant_baseline(definition, "", evaluated)
    if definition.head == "choice" and "answer_f1" in definition.metrics:
        answers = [
            _choose_typical(example.names) for example in evaluated if isinstance(example, MultipleChoiceExample)
        ]
        return MajorityBaseline(None, compute_metric_values(definition, answers, evaluated), answers)
    labels = [label for example in training_examples for label in _references(example)]
    if not labels:
        raise DataError(f"{definition.name}: the training examples have no labels; use the training split")
    prediction: Prediction
    if definition.head == "regression":
        prediction = fmean(float(label) for label in labels)
    else:
        counts = Counter(labels)
        prediction = min(counts, key=lambda label: (-counts[label], str(label)))
    return _constant_baseline(definition, prediction, evaluated)


def _constant_baseline(
    definition: BenchmarkDefinition, prediction: Prediction, evaluated: Sequence[Example]
) -> MajorityBaseline:
    """Measure the baseline that gives one prediction to every example in `evaluated`, with the metrics of the task
    `definition`.
    """
    answers = [prediction] * len(evaluated)
    return MajorityBaseline(prediction, compute_metric_values(definition, answers, evaluated), answers)


def _references(example: Example) -> Sequence[str | float | int]:
    """Return the right answers to an example: candidate indices, or its class or number; empty without labels and for
    extractive questions.
    """
    if isinstance(example, MultipleChoiceExample):
        return list(example.correct_indices or ())
    if isinstance(example, ExtractiveQuestion) or example.label is None:
        return []
    return [example.label] if isinstance(example.label, str) else [float(example.label)]


def _choose_typical(names: Sequence[str]) -> int:
    """Return the index of the first candidate that shares most words with the others."""
    shared_words = [sum(token_f1(name, [other]) for other in names if other is not name) for name in names]
    return shared_words.index(max(shared_words))


def _group_keys(examples: Sequence[Example]) -> list[str]:
    """Return the group of each example; raise `DataError` if one has none."""
    groups = []
    for example in examples:
        if not isinstance(example, LabelledExample) or example.group is None:
            raise DataError(f"{example.location}: has no group; its file lacks the field that names the group")
        groups.append(example.group)
    return groups


def _compute_metric(
    name: MetricName, definition: BenchmarkDefinition, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> Metric:
    """Compare predictions with the labels of the examples in the same order by the metric `name` of the task
    `definition`. Other metrics are not prepared, because not every metric fits every task.
    """
    if definition.head in ("choice", "spans"):
        is_correct = [p in _references(example) for p, example in zip(predictions, examples, strict=True)]
        return (
            build_mean_metric(is_correct)
            if name == "accuracy"
            else _compute_answer_metrics(predictions, examples)[name]
        )
    references, labels = [gold for example in examples for gold in _references(example)], definition.labels
    metric_builders: dict[MetricName, Callable[[], Metric]] = {
        "accuracy": lambda: accuracy(predictions, references),
        "f1": lambda: f1_score(predictions, references, positive=labels[-1]),
        "macro_f1": lambda: macro_f1_score(predictions, references, classes=labels),
        "matthews": lambda: MatthewsCorrelation(predictions, references),
        "pearson": lambda: CorrelationMetric([float(p) for p in predictions], [float(g) for g in references]),
        "spearman": lambda: CorrelationMetric(
            [float(p) for p in predictions], [float(g) for g in references], use_ranks=True
        ),
        "exact_groups": lambda: group_exact_match(
            [p == labels[-1] for p in predictions], [g == labels[-1] for g in references], groups=_group_keys(examples)
        ),
        "f1a": lambda: group_metric(f1_score(predictions, references, positive=labels[-1]), _group_keys(examples)),
        "parity": lambda: group_parity(predictions, groups=_group_keys(examples)),
    }
    return metric_builders[name]()


def _compute_answer_metrics(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, Metric]:
    """Compute exact match and F1 of predicted answers to the examples in the same order, by metric name; a candidate
    index stands for the candidate's name.
    """
    answers, references = [], []
    for prediction, example in zip(predictions, examples, strict=True):
        assert not isinstance(example, LabelledExample), "labels have no words to compare"
        if isinstance(example, MultipleChoiceExample):
            answers.append(example.names[int(prediction)])
            references.append(list(example.gold_answers))
        else:
            answers.append(str(prediction))
            references.append([answer.text for answer in example.answers])
    return compute_answer_metrics(answers, references)
