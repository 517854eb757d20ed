"""Choose the examples of an epoch, plan batches of similar lengths, and collate their rows into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from heedful.data.corpus import Corpus
from heedful.data.factors import FACTORS_SIDE, EncodedText
from heedful.data.random_numbers import SeededRandom
from heedful.data.sentence_weights import WEIGHTS_SIDE
from heedful.errors import RecipeError
from heedful.tensors import Tokens

_MIXING_STREAM: Final = 0x6D697865
"""Separates these random numbers from other streams of the same seed."""


@final
@dataclass(frozen=True, eq=False)
class CorpusMixture:
    """A mixture of several texts whose examples are stored one text after the other.

    An epoch has the wanted number of tokens of each text, up to rounding and to the lengths of the drawn examples. The
    examples of a text are used in passes, each pass in a new random order, and an epoch continues where the last one
    stopped; so no example is repeated before all have been used once. A text that is used completely in every epoch is
    included whole.

    Attributes:
        tokens: number of tokens of each example.
        counts: number of examples of each text.
        token_budgets: number of tokens of each text in an epoch, above 0.
        seed: seed of the random orders.
    """

    tokens: Integer[np.ndarray, " N"]
    counts: Sequence[int]
    token_budgets: Sequence[float]
    seed: int

    def __post_init__(self) -> None:
        assert len(self.counts) == len(self.token_budgets), "of each text there is some amount"
        assert sum(self.counts) == len(self.tokens), "each example is of one text"

    def sample_epoch(self, epoch: int) -> Int[np.ndarray, " rows"]:
        """Return the examples of an epoch, which depend on the seed and the epoch alone; an example may occur
        several times.
        """
        starts = [0, *accumulate(self.counts)][:-1]
        return np.concatenate([self._select_examples(text, epoch) + start for text, start in enumerate(starts)])

    @cached_property
    def examples_per_epoch(self) -> tuple[int, ...]:
        """Number of examples of each text in an epoch, at least one."""
        sums = sum_tokens_by_text(self.tokens, self.counts)
        return tuple(
            max(1, round(budget * count / tokens))
            for budget, count, tokens in zip(self.token_budgets, self.counts, sums, strict=True)
        )

    @property
    def _row_dtype(self) -> np.dtype[Any]:
        """Type of the numbers of examples: 32 bits where they suffice, for less memory."""
        return np.dtype(np.int32 if len(self.tokens) < 2**31 else np.int64)

    def _select_examples(self, text: int, epoch: int) -> Int[np.ndarray, " taken"]:
        """Return the examples of the text with index `text` in an epoch, counted from 0 within the text."""
        count, num_selected = self.counts[text], self.examples_per_epoch[text]
        if num_selected == count:
            return np.arange(count, dtype=self._row_dtype)
        first, last = epoch * num_selected, (epoch + 1) * num_selected
        passes = [self._shuffle_pass(text, pass_number) for pass_number in range(first // count, -(-last // count))]
        offset = first // count * count
        return np.concatenate(passes)[first - offset : last - offset]

    def _shuffle_pass(self, text: int, pass_number: int) -> Int[np.ndarray, " count"]:
        """Return the indices of all examples of a text in the random order of one pass over it."""
        numbers = SeededRandom(self.seed, _MIXING_STREAM, text, pass_number).uniform(self.counts[text])
        return np.argsort(numbers, kind="stable").astype(self._row_dtype)


def sum_tokens_by_text(tokens: Integer[np.ndarray, " N"], counts: Sequence[int]) -> list[int]:
    """Return the number of tokens of each text, from the number of tokens of each example and the number of examples of
    each text (`counts`).
    """
    return [int(text_tokens.sum()) for text_tokens in np.split(tokens, list(accumulate(counts))[:-1])]


_BATCHES_PER_POOL = 100


def batch_by_size(
    lengths: Integer[np.ndarray, "N 2"], *, max_tokens: int, seed: int, epoch: int, pad_to: int = 1
) -> list[Integer[np.ndarray, " B"]]:
    """Return the batches of one training epoch, with similar lengths together; the result depends on the arguments
    alone. `max_tokens` limits the rows of a batch times its longest target, after lengths are rounded up to a multiple
    of `pad_to`.

    Sentences are shuffled, sorted by length within pools of about a hundred batches (sentences of equal lengths
    stay shuffled), cut where the token budget is full, and the batches are shuffled. Every sentence occurs once.

    Args:
        lengths: source and target ids of each pair.
        max_tokens: budget for rows times target length *with padding*; rows times source length may be twice
            that. A sentence that exceeds the budget alone is a batch of its own.
        seed: seed of the run, not negative.
        epoch: number of the epoch, not negative.
        pad_to: lengths are rounded up to a multiple of this number.

    Returns:
        The rows of each batch, sorted by target length.
    """
    _require_positive(tokens=max_tokens, pad_to=pad_to)
    if not len(lengths):
        return []
    generator = _create_generator(seed, epoch)
    order = _shuffle_indices(len(lengths), generator)
    mean_target = _sum_padded(lengths[:, 1], pad_to) / len(lengths)
    per_pool = max(1, int(_BATCHES_PER_POOL * max_tokens / max(1.0, mean_target)))
    batches: list[Integer[np.ndarray, " B"]] = []
    for start in range(0, len(order), per_pool):  # so that little is held beside the lengths and the order
        pool = order[start : start + per_pool]
        padded = _pad_lengths(lengths[pool], pad_to)
        source, target = padded.T
        # Sources are sorted up and down in turn, so that a batch across two target lengths has similar source lengths.
        rising = np.where(target // pad_to % 2, source, -source)
        sorting = np.lexsort((rising, target))
        pool[:] = pool[sorting]
        batches += _split_at_budget(pool, padded[sorting], max_tokens=max_tokens)
    return [batches[i] for i in _shuffle_indices(len(batches), generator)]


def batch_randomly(count: int, *, max_rows: int, seed: int, epoch: int) -> list[Integer[np.ndarray, " B"]]:
    """Return the batches of one training epoch of `count` examples without regard to lengths: shuffle all examples and
    split them into equal parts of at most `max_rows`.

    The result depends on the arguments alone. Every example occurs once; the sizes of the batches differ by one at
    most.
    """
    _require_positive(rows=max_rows)
    return (
        np.array_split(_shuffle_indices(count, _create_generator(seed, epoch)), -(-count // max_rows)) if count else []
    )


def batch_by_length(
    lengths: Integer[np.ndarray, " N"], *, max_tokens: int, max_rows: int
) -> list[Integer[np.ndarray, " B"]]:
    """Return batches for inference of at most `max_rows` sentences and `max_tokens` ids with padding, longest sentences
    first, so that the most memory is needed at the start.

    A batch has at most `max_rows` sentences and, unless it is one sentence, at most `max_tokens` ids with padding.
    Every sentence occurs once: `np.argsort(np.concatenate(batches))` restores the original order of the results.
    """
    _require_positive(tokens=max_tokens, rows=max_rows)
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + min(max_rows, max(1, max_tokens // longest))
        batches.append(order[start:stop])
        start = stop
    return batches


_SUMMED_AT_ONCE = 2**20


def _sum_padded(lengths: Integer[np.ndarray, " N"], pad_to: int) -> int:
    """Return the sum of lengths after they are rounded up to a multiple of `pad_to`."""
    starts = range(0, len(lengths), _SUMMED_AT_ONCE)
    return sum(int(_pad_lengths(lengths[start : start + _SUMMED_AT_ONCE], pad_to).sum()) for start in starts)


def _pad_lengths(lengths: Integer[np.ndarray, "*N"], pad_to: int) -> Int[np.ndarray, "*N"]:
    """Round lengths up to a multiple of `pad_to`."""
    return -(-lengths.astype(np.int64) // pad_to) * pad_to


def _split_at_budget(
    order: Integer[np.ndarray, " N"], padded: Integer[np.ndarray, "N 2"], *, max_tokens: int
) -> list[Integer[np.ndarray, " B"]]:
    """Split the rows of a pool in `order`, sorted by target length, into batches that fit the token budget; `padded`
    has the padded source and target length of each.
    """
    source, target = np.maximum(padded, 1).T
    batches, start = [], 0
    while start < len(order):
        max_rows = max(1, max_tokens // int(target[start]))  # more cannot fit, since targets only grow
        row_counts = np.arange(1, len(target[start : start + max_rows]) + 1)
        longest = np.maximum.accumulate(source[start : start + max_rows])
        fits = (row_counts * target[start : start + max_rows] <= max_tokens) & (row_counts * longest <= 2 * max_tokens)
        count = max(1, len(row_counts) if fits.all() else int(fits.argmin()))
        batches.append(order[start : start + count])
        start += count
    return batches


def _create_generator(seed: int, epoch: int) -> np.random.Philox:
    """Create the random generator of one epoch of a run."""
    return np.random.Philox(np.random.SeedSequence([seed, epoch]))


def _shuffle_indices(count: int, generator: np.random.Philox) -> Integer[np.ndarray, " N"]:
    """Return the numbers below `count` in random order, drawn from `generator`.

    Sorts raw random bits, because numpy guarantees these across versions but not the result of `shuffle`. Numbers of 32
    bits take half of the memory where they suffice.
    """
    order = np.argsort(generator.random_raw(count), kind="stable")
    return order.astype(np.int32) if count < 2**31 else order


def _require_positive(**numbers: int) -> None:
    """Raise `RecipeError` if one of the named numbers is below 1."""
    for name, number in numbers.items():
        if number < 1:
            raise RecipeError(f"{name} is {number}; it must be at least 1")


Source = TypeVar("Source")


@dataclass(frozen=True)
class PairBatch(Generic[Source]):
    """A batch of sources with decoder inputs and labels.

    Attributes:
        source: the encoder input; for text, each sentence followed by its end id.
        target: the decoder input: the begin id, then the sentence.
        labels: the sentence, then its end id, so that `labels[:, t]` follows `target.ids[:, t]`; -1 means no label.
        weights: weight of each pair in the loss; None if all count the same.
    """

    source: Source
    target: Tokens
    labels: Int[Tensor, "B T"]
    _: KW_ONLY
    weights: Float[Tensor, " B"] | None = None


def collate_pairs(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int, pad_to: int = 1) -> PairBatch[Tokens]:
    """Collate the pairs of a corpus in `rows` into a batch, padded on the right to a multiple of `pad_to`; decoder
    inputs begin with the id `bos`. No rows give empty tensors.
    """
    source = to_tokens(corpus["source"].collate_ids(rows, pad_to=pad_to))
    if FACTORS_SIDE in corpus.sides:
        factors, _ = corpus[FACTORS_SIDE].collate_arrays(rows, pad_to=pad_to)
        source = replace(source, factors=torch.from_numpy(factors.astype(np.int64)))
    batch = build_pair_batch(source, corpus["target"].collate_ids(rows, pad_to=pad_to), bos=bos)
    if WEIGHTS_SIDE not in corpus.sides:
        return batch
    weights, _ = corpus[WEIGHTS_SIDE].collate_arrays(rows)
    return replace(batch, weights=torch.from_numpy(weights.astype(np.float32)[:, 0]))


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
    """Collate sentences as `Tokenizer.encode` returns them into padded tokens, each with the end id `eos` appended."""
    return to_tokens(pad_rows([[*ids, eos] for ids in sentences], min_width=1))


def collate_encoded_sources(sentences: Sequence[EncodedText], *, eos: int) -> Tokens:
    """Collate sentences as `SourceEncoder.encode` returns them, with their factors, into padded tokens; the end id
    `eos` is appended to each and has factor 0.

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
