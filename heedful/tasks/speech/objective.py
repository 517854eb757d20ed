"""Objectives of speech recognition with connectionist temporal classification (CTC)."""

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
from heedful.models.generative import CTCModel, HybridCTCAttention
from heedful.tasks.generation_objective import Criterion, GenerationMetrics, LikelihoodCriterion
from heedful.tasks.objective import CorpusObjective, Loss, LossPart, RowIndices
from heedful.tasks.speech.data import collate_speech
from heedful.tensors import FeatureBatch


@final
class JointCTCCriterion(Criterion):
    """(1 - weight) L + weight CTC, where L is the likelihood of the decoder's text (Watanabe et al. 2017, eq. 9).

    Args:
        likelihood: of the decoder's targets.
        weight: of CTC, above 0 and below 1.
        eos: the end token, which CTC does not emit.
        blank: the blank label.
    """

    part_names = frozenset({"nll", "ctc"})

    def __init__(self, likelihood: LikelihoodCriterion, *, weight: float, eos: int, blank: int) -> None:
        self.likelihood = likelihood
        self.weight = weight
        self.eos = eos
        self.blank = blank

    def loss(self, model: Any, batch: PairBatch[Any]) -> Loss:
        """Compute the weighted sum of the decoder's loss and the CTC loss of a batch."""
        assert isinstance(model, HybridCTCAttention)
        memory = model.encoder(batch.source)
        hidden, _ = model.decoder(batch.target, model.decoder.init_state(memory))
        decoder_loss = self.likelihood.loss_from_hidden(hidden, batch, output=model.output)
        labels = mask_eos(batch.labels, eos=self.eos)
        log_probabilities, slots = model.labels(memory)
        ctc_total = ctc_loss(log_probabilities, slots, labels, blank=self.blank).sum()
        total = (1 - self.weight) * decoder_loss.total + self.weight * ctc_total
        return Loss(
            total, decoder_loss.count, {**decoder_loss.parts, "ctc": LossPart(ctc_total.detach(), decoder_loss.count)}
        )


@final
@dataclass(eq=False)
class CTCObjective(CorpusObjective[PairBatch[FeatureBatch]]):
    """Learn p(text | sound) by CTC alone.

    Attributes:
        bos, eos: the tokens around a text, which slots do not emit; `bos` is the blank label.
        score: what is measured besides the loss (nats per token).
    """

    _: KW_ONLY
    bos: int
    eos: int
    generation_metrics: GenerationMetrics | None = None
    part_names = frozenset({"nll"})

    def __post_init__(self) -> None:
        self.metric_names = frozenset({"loss"} | (self.generation_metrics.names if self.generation_metrics else set()))

    def collate(self, corpus: Corpus, rows: RowIndices) -> PairBatch[FeatureBatch]:
        """Collate utterances."""
        return collate_speech(corpus, rows, bos=self.bos)

    def loss(self, model: CTCModel, batch: PairBatch[FeatureBatch]) -> Loss:
        """Compute the CTC loss of a batch; its count is the number of tokens without ends."""
        labels = mask_eos(batch.labels, eos=self.eos)
        log_probabilities, slots = model(batch.source)
        total = ctc_loss(log_probabilities, slots, labels, blank=self.bos).sum()
        count = int((labels >= 0).sum())
        return Loss(total, count, {"nll": LossPart(total.detach(), count)})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the mean loss per token on the validation part, and the metrics of transcribed texts if there are
        any.
        """
        assert isinstance(model, CTCModel)
        losses = [self.loss(model, batch) for batch in self.validation_batches()]
        mean = sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)
        return {"loss": mean, **(self.generation_metrics.measure(model) if self.generation_metrics is not None else {})}


def mask_eos(labels: Int[Tensor, "B T"], *, eos: int) -> Int[Tensor, "B T"]:
    """Replace end tokens in labels by -1, since slots do not emit them."""
    return torch.where(labels == eos, -1, labels)
