"""Rows of a corpus as the tensors that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.corpus import Corpus
from heedful.data.tokenizers import BOS, EOS, PAD
from heedful.values import Tokens


@dataclass(frozen=True)
class PairBatch:
    """Sources, and targets twice: as the decoder reads them and as it should continue.

    Attributes:
        source: the sentence and `EOS`.
        target: `BOS` and the sentence.
        labels: the sentence and `EOS`, so that `labels[:, t]` follows `target.ids[:, t]`; `PAD` is no label.
    """

    source: Tokens
    target: Tokens
    labels: Int[Tensor, "B T"]


def collate(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1) -> PairBatch:
    """The pairs in `rows`, padded on the right to a multiple of `pad_to`; no rows give empty tensors."""
    labels = corpus["target"].padded(rows, pad_to=pad_to)
    target = np.empty_like(labels)
    target[:, 0] = BOS
    target[:, 1:] = labels[:, :-1]
    target[labels == PAD] = PAD
    return PairBatch(
        source=tokens_of(corpus["source"].padded(rows, pad_to=pad_to)),
        target=tokens_of(target),
        labels=torch.from_numpy(labels),
    )


def collate_sources(sentences: Sequence[Sequence[int]]) -> Tokens:
    """Sentences as `Tokenizer.encode` gives them, with the `EOS` that models are trained to read."""
    width = max(map(len, sentences), default=0) + 1
    block = np.full((len(sentences), width), PAD, dtype=np.int64)
    for row, ids in zip(block, sentences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return tokens_of(block)


def share(rows: Integer[np.ndarray, " B"], *, rank: int, world: int) -> Integer[np.ndarray, " share"]:
    """The rows of a global batch that process `rank` of `world` takes; none where there are too few rows."""
    return rows[rank::world]


def tokens_of(ids: Int[np.ndarray, "B T"]) -> Tokens:
    """Ids with `PAD` behind them, counted from 0 in each row."""
    positions = np.where(ids == PAD, -1, np.arange(ids.shape[1]))
    return Tokens(torch.from_numpy(ids), torch.from_numpy(positions))
