"""Training objective of text matching: contrastive loss with in-batch negatives."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.batches import batch_by_length, batch_randomly, to_tokens
from heedful.data.corpus import Corpus, CorpusSide
from heedful.metrics.ranking import rank_paired_targets
from heedful.models.heads import TextMatcher
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective
from heedful.tensors import Tokens, move_to_device

SIDES = ("source", "target")


@dataclass(frozen=True)
class TextChunks:
    """Texts in chunks of similar length, and the row of each text in the concatenated chunks."""

    chunks: tuple[Tokens, ...]
    row_indices: Int[Tensor, " B"]

    def embed(self, model: TextMatcher) -> Float[Tensor, "B d_output"]:
        """Embed the texts with a model and return one row for each, in the order of `row_indices`."""
        return torch.cat([model(chunk) for chunk in self.chunks]).index_select(0, self.row_indices)


@dataclass(frozen=True)
class TextPairBatch:
    """A batch of text pairs.

    Attributes:
        source, target: the two sides.
        shares_text: which pairs have a text in common, besides each with itself; they are not negatives of each other.
    """

    source: TextChunks
    target: TextChunks
    shares_text: Bool[Tensor, "B B"]


def contrastive_loss(
    source: Float[Tensor, "B d"],
    target: Float[Tensor, "B d"],
    shares_text: Bool[Tensor, "B B"],
    *,
    scale: Float[Tensor, ""],
    margin: float = 0.0,
) -> Float[Tensor, ""]:
    """Compute the symmetric InfoNCE, summed over pairs of unit vectors, in nats (van den Oord et al. 2018, eq. 4;
    Radford et al. 2021, 2.3). Pairs that share a text are not compared.

    -log(e^(s(c_ii - m)) / (e^(s(c_ii - m)) + sum_j e^(s c_ij))) over the sources j of other pairs, and over their
    targets, the mean of both; c are cosines, m the margin (Yang et al. 2019, eq. 5).

    Args:
        source, target: vectors of length 1.
        shares_text: see `TextPairBatch`.
        scale: s, 1 / temperature.
        margin: m.
    """
    identity = torch.eye(len(source), dtype=source.dtype, device=source.device)
    logits = (scale * (source @ target.T - margin * identity)).masked_fill(shares_text, -torch.inf)
    labels = torch.arange(len(source), device=source.device)
    loss = functional.cross_entropy(logits, labels, reduction="sum") + functional.cross_entropy(
        logits.T, labels, reduction="sum"
    )
    return loss / 2


def number_texts(*sides: Sequence[Hashable]) -> Int[np.ndarray, "sides B"]:
    """Assign a number to each text of each side; equal texts of a side get the same number."""
    numbers = [{text: number for number, text in enumerate(dict.fromkeys(side))} for side in sides]
    return np.array(
        [[number_by_text[text] for text in side] for number_by_text, side in zip(numbers, sides, strict=True)]
    )


def find_shared_texts(text_numbers: Int[np.ndarray, "sides B"]) -> Bool[np.ndarray, "B B"]:
    """Return for each two rows whether they have an equal text on some side; a row does not share with itself."""
    shared: np.ndarray = (text_numbers[:, :, None] == text_numbers[:, None]).any(0)
    np.fill_diagonal(shared, val=False)
    return shared


@dataclass(eq=False)
class MatchingObjective(TrainingObjective[TextPairBatch]):
    """Training objective that distinguishes text pairs from the others of their batch.

    Attributes:
        train: training pairs.
        validation: validation pairs.
        batch_pairs: pairs in a batch.
        batch_tokens: padded tokens that are encoded at one time.
        margin: see `contrastive_loss`.
        seed: seed of the order of examples.
        device: the model's device.
    """

    train: Corpus
    validation: Corpus
    batch_pairs: int
    batch_tokens: int
    margin: float
    seed: int
    device: torch.device
    metric_names = frozenset({"loss", "recall"})
    part_names = frozenset({"nll"})

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return batches of pairs of any length, because lengths must not reveal which texts belong together."""
        return batch_randomly(len(self.train), max_rows=self.batch_pairs, seed=self.seed, epoch=epoch)

    def build_batch(self, rows: RowIndices) -> TextPairBatch:
        """Build the batch of the training pairs in `rows`."""
        return self._collate_on_device(self.train, rows)

    def loss(self, model: TextMatcher, batch: TextPairBatch) -> Loss:
        """Compute the contrastive loss of a batch; its part `nll` is without the margin."""
        source, target = batch.source.embed(model), batch.target.embed(model)
        total = contrastive_loss(source, target, batch.shares_text, scale=model.scale, margin=self.margin)
        plain_loss = (
            total if not self.margin else contrastive_loss(source, target, batch.shares_text, scale=model.scale)
        )
        return Loss(total, len(source), {"nll": LossPart(plain_loss.detach(), len(source))})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute `loss`, the contrastive loss per pair among the pairs of each batch, and `recall`, the share of texts
        whose closest text among all is their partner.
        """
        assert isinstance(model, TextMatcher)
        total = 0.0
        sources, targets = [], []
        batches = np.array_split(np.arange(len(self.validation)), -(-len(self.validation) // self.batch_pairs))
        for rows in batches:
            batch = self._collate_on_device(self.validation, rows)
            source, target = batch.source.embed(model), batch.target.embed(model)
            total += float(contrastive_loss(source, target, batch.shares_text, scale=model.scale))
            sources.append(source.cpu().numpy())
            targets.append(target.cpu().numpy())
        text_numbers = number_texts(*(_text_keys(self.validation[side], np.concatenate(batches)) for side in SIDES))
        ranks = rank_paired_targets(np.concatenate(sources), np.concatenate(targets), text_numbers)
        return {"loss": total / len(self.validation), "recall": float((ranks == 1).mean())}

    def _collate_on_device(self, corpus: Corpus, rows: RowIndices) -> TextPairBatch:
        source, target = (_chunk_texts(corpus[side], rows, tokens=self.batch_tokens) for side in SIDES)
        alike = find_shared_texts(number_texts(*(_text_keys(corpus[side], rows) for side in SIDES)))
        return move_to_device(TextPairBatch(source, target, torch.from_numpy(alike)), self.device)


def _text_keys(side: CorpusSide, rows: RowIndices) -> list[bytes]:
    """Return each text of a side as bytes."""
    return [side[row].tobytes() for row in rows]


def _chunk_texts(side: CorpusSide, rows: RowIndices, *, tokens: int) -> TextChunks:
    """Collate the texts of a side in these rows into chunks of similar length and about `tokens` tokens."""
    plan = batch_by_length(side.lengths[rows], max_tokens=tokens, max_rows=len(rows))
    chunks = tuple(to_tokens(side.collate_ids(rows[chunk])) for chunk in plan)
    return TextChunks(chunks, torch.from_numpy(np.argsort(np.concatenate(plan))))
