"""Classification as a task: a text has a class or a number, or one of several candidates is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.corpus import Corpus
from heedful.data.labels import Labels
from heedful.inspection.watch import watch
from heedful.metrics.classes import Matthews, accuracy, f1, macro_f1
from heedful.metrics.correlation import Correlation
from heedful.metrics.metric import Metric
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.benchmarks.definitions import MetricName
from heedful.tasks.classification.examples import ExampleBatch, collate_examples, example_lengths
from heedful.tasks.classification.recipe import Verdict
from heedful.tasks.decorrelation import decorrelation as penalty_of
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.task import CorpusTask, Loss, Part, Rows

METRICS: Mapping[Verdict, tuple[MetricName, ...]] = {
    "class": ("accuracy", "macro_f1", "matthews"),
    "number": ("pearson", "spearman"),
    "choice": ("accuracy",),
}
"""What is always measured of each kind of answer; `f1` is too where a class is the positive one."""


@dataclass(eq=False)
class Classification(CorpusTask[ExampleBatch]):
    """Learning p(class | text), the number of a text by its mean squared error, or p(candidate | all candidates).

    Attributes:
        answered: what is said of an example.
        labels: the classes; None where there are none.
        positive: the class that F1 is about; None where it is not measured.
        smoothing: of the labels, over all classes.
        decorrelation: weight of the penalty on hops of the model's summary that look at the same, for each text; with
            0 there is none.
    """

    _: KW_ONLY
    answered: Verdict
    labels: Labels | None = None
    positive: str | None = None
    smoothing: float = 0.0
    decorrelation: float = 0.0

    def __post_init__(self) -> None:
        self.metrics = frozenset(("loss", *METRICS[self.answered], *(() if self.positive is None else ("f1",))))
        self.parts = frozenset({"nll", "decorrelation"} if self.decorrelation else {"nll"})

    def collate(self, corpus: Corpus, rows: Rows) -> ExampleBatch:
        """Texts, or candidates."""
        return collate_examples(corpus, rows, answered=self.answered)

    def lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """With the padding of candidates to the longest of them."""
        return example_lengths(corpus)

    def loss(self, model: TextClassifier, batch: ExampleBatch) -> Loss:
        """Label-smoothed negative log-likelihood, or the sum of squared errors; and the penalty where there is one."""
        if not self.decorrelation:
            return self._plain_loss(model, batch)
        assert model.summary is not None, "hops are those of a summary"
        with watch(model.summary, detach=False) as weights:
            plain = self._plain_loss(model, batch)
        penalty = penalty_of(each for calls in weights.values() for each in calls)
        parts = {"nll": Part(plain.total.detach(), plain.count), **plain.parts}
        parts["decorrelation"] = Part(penalty.detach(), plain.count)
        return Loss(plain.total + self.decorrelation * penalty, plain.count, parts)

    def _plain_loss(self, model: TextClassifier, batch: ExampleBatch) -> Loss:
        summaries = model(batch.tokens)
        if self.answered == "class":
            smoothed, nll = cross_entropy(summaries, batch.labels, output=model.output, smoothing=self.smoothing)
            return Loss(smoothed, len(batch.labels), {"nll": Part(nll, len(batch.labels))})
        return Loss(self._losses(model.output(summaries).float(), batch), len(batch.counts))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats, or squared errors) per example, and what tells right answers from wrong ones."""
        assert isinstance(model, TextClassifier)
        total, count = 0.0, 0
        said: list[float] = []
        golds: list[float] = []
        for batch in self.measured():
            logits = model.output(model(batch.tokens)).float()
            total += float(self._losses(logits, batch))
            count += len(batch.counts)
            found, right = self._answers(logits, batch)
            said += found
            golds += right
        return {"loss": total / count} | self._measured(said, golds)

    def _losses(self, logits: Tensor, batch: ExampleBatch) -> Tensor:
        match self.answered:
            case "class":
                return functional.cross_entropy(logits, batch.labels, reduction="sum")
            case "number":
                return functional.mse_loss(logits.squeeze(1), batch.labels, reduction="sum")
            case "choice":
                return -choice_log_likelihoods(logits.squeeze(1), batch).sum()

    def _answers(self, logits: Tensor, batch: ExampleBatch) -> tuple[list[float], list[float]]:
        """What the model says of each example, and what is right; of choices, whether that is right, and 1."""
        match self.answered:
            case "class":
                return logits.argmax(-1).tolist(), batch.labels.tolist()
            case "number":
                return logits.squeeze(1).tolist(), batch.labels.tolist()
            case "choice":
                parts = zip(by_choice(logits.squeeze(1), batch), by_choice(batch.labels, batch), strict=True)
                return [float(right[scores.argmax()]) for scores, right in parts], [1.0] * len(batch.counts)

    def _measured(self, said: Sequence[float], golds: Sequence[float]) -> dict[str, float]:
        if self.answered == "number":
            found: dict[str, Metric] = {
                "pearson": Correlation(said, golds),
                "spearman": Correlation(said, golds, ranked=True),
            }
        else:
            found = {"accuracy": accuracy(said, golds)}
        if self.labels is not None:
            found["macro_f1"] = macro_f1(said, golds, classes=range(self.labels.size))
            found["matthews"] = Matthews(said, golds)
            if self.positive is not None:
                found["f1"] = f1(said, golds, positive=self.labels.id(self.positive))
        return {name: metric.value for name, metric in found.items()}


def by_choice(values: Tensor, batch: ExampleBatch) -> Sequence[Tensor]:
    """What belongs to the candidates of each choice."""
    return torch.split(values, batch.counts.tolist())


def choice_log_likelihoods(scores: Float[Tensor, " N"], batch: ExampleBatch) -> Float[Tensor, " B"]:
    """Of each choice the log of the probability that its right candidates have together."""
    return torch.stack(
        [
            torch.logsumexp(mine[right > 0], 0) - torch.logsumexp(mine, 0)
            for mine, right in zip(by_choice(scores, batch), by_choice(batch.labels, batch), strict=True)
        ]
    )
