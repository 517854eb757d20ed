"""Everything that is written from a source as a task: likelihood, perplexity, and what searching finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from jaxtyping import Int
from torch import Tensor, nn

from heedful.data.batches import PairBatch
from heedful.data.corpus import Corpus
from heedful.models.conditional import ConditionalModel
from heedful.tasks.criteria import Criterion, LikelihoodCriterion, select_labelled
from heedful.tasks.likelihood import score_labels
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices


@dataclass(frozen=True)
class GenerationMetrics:
    """Metrics that need what a model writes.

    Attributes:
        names: of the metrics.
        measure: all of them, of a model in evaluation mode.
    """

    names: frozenset[str]
    measure: Callable[[nn.Module], Mapping[str, float]]


@final
@dataclass(eq=False)
class GenerationObjective(CorpusObjective[PairBatch[Any]]):
    """Learning p(target | source), whatever the source is.

    Attributes:
        collate_fn: some examples of a corpus as a batch.
        criterion: what is minimised.
        generation_metrics: what is measured besides the loss (nats per label, not smoothed), its perplexity, and accuracy: how many
            labels are the most probable one behind those before them.
    """

    _: KW_ONLY
    collate_fn: Callable[[Corpus, RowIndices], PairBatch[Any]]
    criterion: Criterion = field(default_factory=LikelihoodCriterion)
    generation_metrics: GenerationMetrics | None = None

    def __post_init__(self) -> None:
        self.metric_names = frozenset(
            {"loss", "perplexity", "accuracy"} | (self.generation_metrics.names if self.generation_metrics else set())
        )
        self.part_names = self.criterion.part_names

    def collate(self, corpus: Corpus, rows: RowIndices) -> PairBatch[Any]:
        """See `collate_fn`."""
        return self.collate_fn(corpus, rows)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Of what is read and what is written; what is known beside them takes no place in a batch."""
        return corpus.lengths[:, :2]

    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """The criterion's."""
        return self.criterion.loss(model, batch)

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Passed on to the criterion."""
        self.criterion.on_update(nll)

    def state_dict(self) -> Mapping[str, Tensor]:
        """The criterion's."""
        return self.criterion.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Passed on to the criterion."""
        self.criterion.load_state_dict(tensors)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """On the validation part."""
        assert isinstance(model, ConditionalModel)
        total, right, count = 0.0, 0, 0
        for batch in self.validation_batches():
            hidden, labels = select_labelled(model(batch.source, batch.target), batch)
            nll, hits = score_labels(hidden, labels, output=model.output)
            total, right, count = total + float(nll), right + int(hits), count + len(labels)
        scores = self.generation_metrics.measure(model) if self.generation_metrics is not None else {}
        loss = total / count
        return {"loss": loss, "perplexity": _compute_perplexity(loss), "accuracy": right / count, **scores}


def _compute_perplexity(nll: float) -> float:
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
