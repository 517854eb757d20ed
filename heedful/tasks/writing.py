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
from heedful.models.conditional import Conditional
from heedful.tasks.criteria import Criterion, Likelihood, labelled
from heedful.tasks.likelihood import judged
from heedful.tasks.task import CorpusTask, Loss, Rows


@dataclass(frozen=True)
class Score:
    """Metrics that need what a model writes.

    Attributes:
        names: of the metrics.
        measure: all of them, of a model in evaluation mode.
    """

    names: frozenset[str]
    measure: Callable[[nn.Module], Mapping[str, float]]


@final
@dataclass(eq=False)
class Writing(CorpusTask[PairBatch[Any]]):
    """Learning p(target | source), whatever the source is.

    Attributes:
        paired: some examples of a corpus as a batch.
        criterion: what is minimised.
        score: what is measured besides the loss (nats per label, not smoothed), its perplexity, and accuracy: how many
            labels are the most probable one behind those before them.
    """

    _: KW_ONLY
    paired: Callable[[Corpus, Rows], PairBatch[Any]]
    criterion: Criterion = field(default_factory=Likelihood)
    score: Score | None = None

    def __post_init__(self) -> None:
        self.metrics = frozenset({"loss", "perplexity", "accuracy"} | (self.score.names if self.score else set()))
        self.parts = self.criterion.parts

    def collate(self, corpus: Corpus, rows: Rows) -> PairBatch[Any]:
        """See `paired`."""
        return self.paired(corpus, rows)

    def lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Of what is read and what is written; what is known beside them takes no place in a batch."""
        return corpus.lengths[:, :2]

    def loss(self, model: Conditional[Any], batch: PairBatch[Any]) -> Loss:
        """The criterion's."""
        return self.criterion.loss(model, batch)

    def learned(self, nll: float, *, member: str = "") -> None:
        """Passed on to the criterion."""
        self.criterion.learned(nll)

    def tensors(self) -> Mapping[str, Tensor]:
        """The criterion's."""
        return self.criterion.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Passed on to the criterion."""
        self.criterion.restore(tensors)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """On the validation part."""
        assert isinstance(model, Conditional)
        total, right, count = 0.0, 0, 0
        for batch in self.measured():
            taught, labels = labelled(model(batch.source, batch.target), batch)
            nll, hits = judged(taught, labels, output=model.output)
            total, right, count = total + float(nll), right + int(hits), count + len(labels)
        scores = self.score.measure(model) if self.score is not None else {}
        loss = total / count
        return {"loss": loss, "perplexity": _perplexity(loss), "accuracy": right / count, **scores}


def _perplexity(nll: float) -> float:
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
