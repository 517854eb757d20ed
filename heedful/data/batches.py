"""Collate rows of a corpus into the tensors that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.corpus import Corpus
from heedful.data.factors import FACTORS_SIDE, EncodedText
from heedful.tensors import Tokens

Source = TypeVar("Source")


@dataclass(frozen=True)
class PairBatch(Generic[Source]):
    """A batch of sources with decoder inputs and labels.

    Attributes:
        source: the encoder input; for text, each sentence followed by its end id.
        target: the decoder input: the begin id, then the sentence.
        labels: the sentence, then its end id, so that `labels[:, t]` follows `target.ids[:, t]`; -1 means no label.
    """

    source: Source
    target: Tokens
    labels: Int[Tensor, "B T"]


def collate_pairs(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int, pad_to: int = 1) -> PairBatch[Tokens]:
    """Collate the pairs in `rows`, padded on the right to a multiple of `pad_to`; no rows give empty tensors."""
    source = to_tokens(corpus["source"].collate_ids(rows, pad_to=pad_to))
    if FACTORS_SIDE in corpus.sides:
        factors, _ = corpus[FACTORS_SIDE].collate_arrays(rows, pad_to=pad_to)
        source = replace(source, factors=torch.from_numpy(factors.astype(np.int64)))
    return build_pair_batch(source, corpus["target"].collate_ids(rows, pad_to=pad_to), bos=bos)


def build_pair_batch(source: Source, labels: Int[np.ndarray, "B T"], *, bos: int) -> PairBatch[Source]:
    """Build a batch from encoded sources and target ids; shift the labels right after `bos` to get the decoder
    input.
    """
    target = np.empty_like(labels)
    target[:, 0] = bos
    target[:, 1:] = labels[:, :-1]
    target[labels < 0] = -1
    return PairBatch(source, to_tokens(target), torch.from_numpy(labels))


def collate_sources(sentences: Sequence[Sequence[int]], *, eos: int) -> Tokens:
    """Collate sentences as `Tokenizer.encode` returns them into padded tokens, each with the end id appended."""
    return to_tokens(pad_rows([[*ids, eos] for ids in sentences], min_width=1))


def collate_encoded_sources(sentences: Sequence[EncodedText], *, eos: int) -> Tokens:
    """Collate sentences as `SourceEncoder.encode` returns them, with their factors; the end id has factor 0.

    Either all sentences have factors or none has.
    """
    tokens = collate_sources([sentence.ids for sentence in sentences], eos=eos)
    factor_arrays = [sentence.factors for sentence in sentences if sentence.factors is not None]
    if not factor_arrays:
        return tokens
    block = np.zeros((*tokens.ids.shape, factor_arrays[0].shape[1]), dtype=np.int64)
    for row, numbers in zip(block, factor_arrays, strict=True):
        row[: len(numbers)] = numbers
    return replace(tokens, factors=torch.from_numpy(block))


def pad_rows(rows: Sequence[Sequence[int] | np.ndarray], *, min_width: int = 0) -> Int[np.ndarray, "B T"]:
    """Pad rows of ids with -1 on the right, to the longest row and at least `min_width`."""
    block = np.full((len(rows), max(min_width, *map(len, rows)) if rows else min_width), -1, dtype=np.int64)
    for row_ids, ids in zip(block, rows, strict=True):
        row_ids[: len(ids)] = ids
    return block


def to_tokens(ids: Int[np.ndarray, "B T"]) -> Tokens:
    """Convert an array of ids padded with -1 into `Tokens`, with positions counted from 0 in each row; padding gets
    id 0 and position -1.
    """
    positions = np.where(ids < 0, -1, np.arange(ids.shape[1]))
    return Tokens(torch.from_numpy(np.maximum(ids, 0)), torch.from_numpy(positions))


def to_segmented_tokens(rows: Sequence[Sequence[int] | np.ndarray], first_lengths: Sequence[int]) -> Tokens:
    """Convert rows of ids into `Tokens` with segment 0 for the first `first_lengths[i]` ids of row i and segment 1
    for the rest.
    """
    tokens = to_tokens(pad_rows(rows))
    columns = torch.arange(tokens.ids.size(1))
    segments = (columns >= torch.tensor(first_lengths, dtype=torch.long).unsqueeze(1)) & (tokens.positions >= 0)
    return Tokens(tokens.ids, tokens.positions, segments.long())
