"""Rows of a corpus as the tensors that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.corpus import Corpus
from heedful.data.factors import FACTORS, Encoded
from heedful.values import Tokens

Source = TypeVar("Source")


@dataclass(frozen=True)
class PairBatch(Generic[Source]):
    """Sources, and targets twice: as the decoder reads them and as it should continue.

    Attributes:
        source: what is read; of text the sentence and its end.
        target: the begin and the sentence.
        labels: the sentence and its end, so that `labels[:, t]` follows `target.ids[:, t]`; -1 is no label.
    """

    source: Source
    target: Tokens
    labels: Int[Tensor, "B T"]


def collate(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int, pad_to: int = 1) -> PairBatch[Tokens]:
    """The pairs in `rows`, padded on the right to a multiple of `pad_to`; no rows give empty tensors."""
    source = tokens_of(corpus["source"].padded(rows, pad_to=pad_to))
    if FACTORS in corpus.sides:
        factors, _ = corpus[FACTORS].block(rows, pad_to=pad_to)
        source = replace(source, factors=torch.from_numpy(factors.astype(np.int64)))
    return pair_batch(source, corpus["target"].padded(rows, pad_to=pad_to), bos=bos)


def pair_batch(source: Source, labels: Int[np.ndarray, "B T"], *, bos: int) -> PairBatch[Source]:
    """What is read beside what is written: targets with their ends, and -1 behind them."""
    target = np.empty_like(labels)
    target[:, 0] = bos
    target[:, 1:] = labels[:, :-1]
    target[labels < 0] = -1
    return PairBatch(source, tokens_of(target), torch.from_numpy(labels))


def collate_sources(sentences: Sequence[Sequence[int]], *, eos: int) -> Tokens:
    """Sentences as `Tokenizer.encode` gives them, with the end that models are trained to read."""
    return tokens_of(padded([[*ids, eos] for ids in sentences], width=1))


def collate_encoded(sentences: Sequence[Encoded], *, eos: int) -> Tokens:
    """The same of sentences as `Reading.encode` gives them; all have factors, of which an end has none, or no one."""
    tokens = collate_sources([each.ids for each in sentences], eos=eos)
    known = [each.factors for each in sentences if each.factors is not None]
    if not known:
        return tokens
    block = np.zeros((*tokens.ids.shape, known[0].shape[1]), dtype=np.int64)
    for row, numbers in zip(block, known, strict=True):
        row[: len(numbers)] = numbers
    return replace(tokens, factors=torch.from_numpy(block))


def padded(rows: Sequence[Sequence[int] | np.ndarray], *, width: int = 0) -> Int[np.ndarray, "B T"]:
    """Rows of ids with -1 behind them, as wide as the longest and at least `width`."""
    block = np.full((len(rows), max(width, *map(len, rows)) if rows else width), -1, dtype=np.int64)
    for line, ids in zip(block, rows, strict=True):
        line[: len(ids)] = ids
    return block


def tokens_of(ids: Int[np.ndarray, "B T"]) -> Tokens:
    """Ids with -1 behind them, counted from 0 in each row; a model reads some id there, and nobody sees it."""
    positions = np.where(ids < 0, -1, np.arange(ids.shape[1]))
    return Tokens(torch.from_numpy(np.maximum(ids, 0)), torch.from_numpy(positions))


def paired_tokens(rows: Sequence[Sequence[int] | np.ndarray], firsts: Sequence[int]) -> Tokens:
    """Rows of ids of which the first ones, as many as `firsts` says, are the first part."""
    tokens = tokens_of(padded(rows))
    columns = torch.arange(tokens.ids.size(1))
    segments = (columns >= torch.tensor(firsts, dtype=torch.long).unsqueeze(1)) & (tokens.positions >= 0)
    return Tokens(tokens.ids, tokens.positions, segments.long())
