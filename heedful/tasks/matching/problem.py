"""Learning which texts belong together, from pairs of them: those of the other pairs of a batch do not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.batches import tokens_of
from heedful.data.bucketing import plan_at_random, plan_by_length
from heedful.data.corpus import Corpus, Side
from heedful.metrics.ranking import own_ranks
from heedful.models.text_matcher import TextMatcher
from heedful.tasks.task import Loss, Part, Rows, Task
from heedful.values import Tokens, move

SIDES = ("source", "target")


@dataclass(frozen=True)
class Texts:
    """Texts in pieces of like lengths, and the row in the pieces, one behind the other, where each text stands."""

    pieces: tuple[Tokens, ...]
    places: Int[Tensor, " B"]

    def vectors(self, model: TextMatcher) -> Float[Tensor, "B d_output"]:
        """What a model makes of each."""
        return torch.cat([model(piece) for piece in self.pieces]).index_select(0, self.places)


@dataclass(frozen=True)
class Pairs:
    """Texts that belong together, row by row.

    Attributes:
        source, target: their sides.
        alike: which pairs have a text in common, besides each with itself; they are not told from each other.
    """

    source: Texts
    target: Texts
    alike: Bool[Tensor, "B B"]


def contrast(
    source: Float[Tensor, "B d"],
    target: Float[Tensor, "B d"],
    alike: Bool[Tensor, "B B"],
    *,
    scale: Float[Tensor, ""],
    margin: float = 0.0,
) -> Float[Tensor, ""]:
    """The symmetric InfoNCE, summed over pairs, in nats (van den Oord et al. 2018, eq. 4; Radford et al. 2021, 2.3).

    -log(e^(s(c_ii - m)) / (e^(s(c_ii - m)) + sum_j e^(s c_ij))) over the sources j of other pairs, and over their
    targets, the mean of both; c are cosines, m the margin (Yang et al. 2019, eq. 5).

    Args:
        source, target: vectors of length 1.
        alike: see `Pairs`.
        scale: s, 1 / temperature.
        margin: m.
    """
    own = torch.eye(len(source), dtype=source.dtype, device=source.device)
    logits = (scale * (source @ target.T - margin * own)).masked_fill(alike, -torch.inf)
    right = torch.arange(len(source), device=source.device)
    both = functional.cross_entropy(logits, right, reduction="sum") + functional.cross_entropy(
        logits.T, right, reduction="sum"
    )
    return both / 2


def kinds(*sides: Sequence[Hashable]) -> Int[np.ndarray, "sides B"]:
    """On each side a number for each text, the same for the same text."""
    numbers = [{each: number for number, each in enumerate(dict.fromkeys(side))} for side in sides]
    return np.array([[known[each] for each in side] for known, side in zip(numbers, sides, strict=True)])


def in_common(kinds: Int[np.ndarray, "sides B"]) -> Bool[np.ndarray, "B B"]:
    """Which rows have the same text on some side, besides each with itself."""
    found: np.ndarray = (kinds[:, :, None] == kinds[:, None]).any(0)
    np.fill_diagonal(found, val=False)
    return found


@dataclass(eq=False)
class Matching(Task[Pairs]):
    """Pairs of texts, told from the others of their batch.

    Attributes:
        train: pairs to learn from.
        validation: pairs to be measured on.
        pairs: in a batch.
        batch_tokens: that are read at one time, with padding.
        margin: see `contrast`.
        seed: of the order of examples.
        device: where the model is.
    """

    train: Corpus
    validation: Corpus
    pairs: int
    batch_tokens: int
    margin: float
    seed: int
    device: torch.device
    metrics = frozenset({"loss", "recall"})
    parts = frozenset({"nll"})

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of pairs of any lengths, since a length must not tell what belongs together."""
        return plan_at_random(len(self.train), rows=self.pairs, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> Pairs:
        """These pairs of the training text."""
        return self._collated(self.train, rows)

    def loss(self, model: TextMatcher, batch: Pairs) -> Loss:
        """See `contrast`; its part `nll` is without the margin."""
        source, target = batch.source.vectors(model), batch.target.vectors(model)
        total = contrast(source, target, batch.alike, scale=model.scale, margin=self.margin)
        plain = total if not self.margin else contrast(source, target, batch.alike, scale=model.scale)
        return Loss(total, len(source), {"nll": Part(plain.detach(), len(source))})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss of each pair among those of a batch, and the share of texts whose closest one is theirs among all."""
        assert isinstance(model, TextMatcher)
        total = 0.0
        sources, targets = [], []
        parts = np.array_split(np.arange(len(self.validation)), -(-len(self.validation) // self.pairs))
        for rows in parts:
            batch = self._collated(self.validation, rows)
            source, target = batch.source.vectors(model), batch.target.vectors(model)
            total += float(contrast(source, target, batch.alike, scale=model.scale))
            sources.append(source.cpu().numpy())
            targets.append(target.cpu().numpy())
        texts = kinds(*(_texts(self.validation[side], np.concatenate(parts)) for side in SIDES))
        ranks = own_ranks(np.concatenate(sources), np.concatenate(targets), texts)
        return {"loss": total / len(self.validation), "recall": float((ranks == 1).mean())}

    def _collated(self, corpus: Corpus, rows: Rows) -> Pairs:
        source, target = (_read(corpus[side], rows, tokens=self.batch_tokens) for side in SIDES)
        alike = in_common(kinds(*(_texts(corpus[side], rows) for side in SIDES)))
        return move(Pairs(source, target, torch.from_numpy(alike)), self.device)


def _texts(side: Side, rows: Rows) -> list[bytes]:
    return [side[row].tobytes() for row in rows]


def _read(side: Side, rows: Rows, *, tokens: int) -> Texts:
    plan = plan_by_length(side.lengths[rows], tokens=tokens, rows=len(rows))
    pieces = tuple(tokens_of(side.padded(rows[piece])) for piece in plan)
    return Texts(pieces, torch.from_numpy(np.argsort(np.concatenate(plan))))
