"""Everything that is written from a source as a task: likelihood, perplexity, and what searching finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from torch import Tensor, nn

from heedful.data.batches import PairBatch
from heedful.data.corpus import Corpus
from heedful.models.conditional import Conditional
from heedful.tasks.criteria import Criterion, Likelihood
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
        score: what is measured besides the loss (nats per label, not smoothed) and its perplexity.
    """

    _: KW_ONLY
    paired: Callable[[Corpus, Rows], PairBatch[Any]]
    criterion: Criterion = field(default_factory=Likelihood)
    score: Score | None = None

    def __post_init__(self) -> None:
        self.metrics = frozenset({"loss", "perplexity"} | (self.score.names if self.score else set()))
        self.parts = self.criterion.parts

    def collate(self, corpus: Corpus, rows: Rows) -> PairBatch[Any]:
        """See `paired`."""
        return self.paired(corpus, rows)

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
        total, count, plain = 0.0, 0, Likelihood()
        for batch in self.measured():
            loss = plain.loss(model, batch)
            total += float(loss.parts["nll"].total)
            count += loss.count
        scores = self.score.measure(model) if self.score is not None else {}
        return {"loss": total / count, "perplexity": _perplexity(total / count), **scores}


def _perplexity(nll: float) -> float:
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
