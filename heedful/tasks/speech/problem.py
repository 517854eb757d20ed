"""What is minimised where speech is recognised, besides the likelihood of what a decoder writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from heedful.data.batches import PairBatch
from heedful.data.corpus import Corpus
from heedful.generation.ctc import ctc_loss
from heedful.models.recogniser import Hybrid, SlotLabeller
from heedful.tasks.criteria import Criterion, Likelihood
from heedful.tasks.speech.data import collate_spoken
from heedful.tasks.task import CorpusTask, Loss, Part, Rows
from heedful.tasks.writing import Score
from heedful.values import Vectors


@final
class Joint(Criterion):
    """(1 - weight) L + weight CTC, where L is the likelihood of what a decoder writes (Watanabe et al. 2017, eq. 9).

    Args:
        likelihood: of the targets.
        weight: of connectionist temporal classification, above 0 and below 1.
        ends: the token that ends a text, which slots do not say.
        blank: what a slot says that says nothing.
    """

    parts = frozenset({"nll", "ctc"})

    def __init__(self, likelihood: Likelihood, *, weight: float, ends: int, blank: int) -> None:
        self.likelihood = likelihood
        self.weight = weight
        self.ends = ends
        self.blank = blank

    def loss(self, model: Any, batch: PairBatch[Any]) -> Loss:
        """The sum of both."""
        assert isinstance(model, Hybrid)
        memory = model.encoder(batch.source)
        hidden, _ = model.decoder(batch.target, model.decoder.begin(memory))
        written = self.likelihood.judge(hidden, batch, output=model.output)
        labels = spoken(batch.labels, ends=self.ends)
        log_probabilities, slots = model.labels(memory)
        said = ctc_loss(log_probabilities, slots, labels, blank=self.blank).sum()
        total = (1 - self.weight) * written.total + self.weight * said
        return Loss(total, written.count, {**written.parts, "ctc": Part(said.detach(), written.count)})


@final
@dataclass(eq=False)
class Labelling(CorpusTask[PairBatch[Vectors]]):
    """Learning p(text | sound) by connectionist temporal classification alone.

    Attributes:
        begins, ends: the tokens around a text; slots say neither, and the first stands for nothing.
        score: what is measured besides the loss (nats per token).
    """

    _: KW_ONLY
    begins: int
    ends: int
    score: Score | None = None
    parts = frozenset({"nll"})

    def __post_init__(self) -> None:
        self.metrics = frozenset({"loss"} | (self.score.names if self.score else set()))

    def collate(self, corpus: Corpus, rows: Rows) -> PairBatch[Vectors]:
        """Utterances."""
        return collate_spoken(corpus, rows, bos=self.begins)

    def loss(self, model: SlotLabeller, batch: PairBatch[Vectors]) -> Loss:
        """Of all texts, counted by their tokens."""
        labels = spoken(batch.labels, ends=self.ends)
        log_probabilities, slots = model(batch.source)
        total = ctc_loss(log_probabilities, slots, labels, blank=self.begins).sum()
        count = int((labels >= 0).sum())
        return Loss(total, count, {"nll": Part(total.detach(), count)})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """On the validation part."""
        assert isinstance(model, SlotLabeller)
        losses = [self.loss(model, batch) for batch in self.measured()]
        mean = sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)
        return {"loss": mean, **(self.score.measure(model) if self.score is not None else {})}


def spoken(labels: Int[Tensor, "B T"], *, ends: int) -> Int[Tensor, "B T"]:
    """What slots should say: the labels without their ends."""
    return torch.where(labels == ends, -1, labels)
