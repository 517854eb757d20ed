"""Perplexity, and an interpolated modified Kneser-Ney language model as its baseline."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError, RecipeError
from heedful.metrics.metric import Metric, safe_divide


@final
@dataclass(frozen=True)
class Perplexity(Metric):
    """Perplexity exp(nats / count), both summed over examples; infinite on overflow."""

    nats: Float[np.ndarray, " N"]
    counts: Float[np.ndarray, " N"]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.nats)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the perplexity for each row of weights."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(safe_divide(weights @ self.nats, weights @ self.counts)))


def perplexity(log_probability_sum: float, count: int) -> float:
    """Return exp(-sum / count), the number of equally likely tokens the model chose between; infinite on overflow.

    Args:
        log_probability_sum: natural log-probabilities of all tokens, added up; at most 0.
        count: the number of tokens.

    Raises:
        DataError: no tokens, or a sum that no log-probabilities can have.
    """
    if count < 1:
        raise DataError(f"perplexity of {count} tokens: there must be at least one")
    if math.isnan(log_probability_sum) or log_probability_sum > 1e-4 * count:
        raise DataError(
            f"a sum of log-probabilities of {log_probability_sum}: it must be a number of at most 0 "
            "(a loss has the opposite sign)"
        )
    try:
        return math.exp(-log_probability_sum / count)
    except OverflowError:
        return math.inf


IdNGram: TypeAlias = tuple[int, ...]
Discounts: TypeAlias = tuple[float, float, float]

_DEFAULT_DISCOUNTS: Final[Discounts] = (0.5, 1.0, 1.5)
"""Discounts for texts too small for counts of counts, as in KenLM (Heafield et al. 2013)."""


@final
@dataclass(frozen=True)
class _ContextCounts:
    """Adjusted counts of the ids after one context, their sum, and the mass that the discounts free."""

    counts: dict[int, int]
    total: int
    freed_mass: float


@final
class KneserNeyModel:
    """Language model p(id | previous ids) for a vocabulary of `vocab_size` ids.

    The first id of a sequence is given, such as a begin of sentence; n-grams that begin with it have nothing before
    them, so their own counts are used.

    Args:
        sequences: of ids, to learn from.
        vocab_size: vocabulary size; unseen ids share the mass freed by the discounts of single ids.
        order: n, the longest n-gram.

    Raises:
        DataError: no sequence has a second id.
        RecipeError: the order is below 1.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], *, vocab_size: int, order: int = 5) -> None:
        if order < 1:
            raise RecipeError(f"order: {order}; n-grams have at least one word")
        self.vocab_size = vocab_size
        self.order = order
        counts = _count_adjusted(sequences, order=order)
        if not counts[0]:
            raise DataError("there are no n-grams to count; check the text")
        self.discounts = tuple(map(_estimate_discounts, counts))
        self._contexts = [
            _build_contexts(each, discounts) for each, discounts in zip(counts, self.discounts, strict=True)
        ]

    def get_probability(self, token_id: int, context_ids: Sequence[int]) -> float:
        """Return p(token_id | context_ids); only the last order - 1 ids of the context matter."""
        context = tuple(context_ids[max(0, len(context_ids) - self.order + 1) :])
        probability = 1.0 / self.vocab_size
        for length in range(len(context) + 1):
            counts_of_context = self._contexts[length].get(context[len(context) - length :])
            if counts_of_context is None:
                break  # then no longer one was seen either
            count = counts_of_context.counts.get(token_id, 0)
            discounted = count - _get_discount(count, self.discounts[length]) if count else 0.0
            probability = (discounted + counts_of_context.freed_mass * probability) / counts_of_context.total
        return probability

    def score_sequence(self, sequence: Sequence[int]) -> list[float]:
        """Return -log p of each id but the first, in nats."""
        return [
            -math.log(self.get_probability(sequence[index], sequence[max(0, index - self.order + 1) : index]))
            for index in range(1, len(sequence))
        ]


def _count_adjusted(sequences: Iterable[Sequence[int]], *, order: int) -> list[Counter[IdNGram]]:
    """Return the adjusted counts of all n-grams of the sequences, for n from 1 to `order`. The longest n-grams, and
    those at the beginning of a sequence, are counted as they are; for all others, the different ids before them are
    counted.
    """
    raw: list[Counter[IdNGram]] = [Counter() for _ in range(order)]
    initial_ngrams: list[set[IdNGram]] = [set() for _ in range(order)]
    for sequence in sequences:
        for n, counts in enumerate(raw, 1):
            counts.update(_iter_ngrams(sequence, n))
            initial_ngrams[n - 1].add(tuple(sequence[:n]))
    adjusted = [raw[-1]]
    for n in range(order - 1, 0, -1):
        num_predecessors = Counter(gram[1:] for gram in raw[n])
        initial_counts = Counter({gram: raw[n - 1][gram] for gram in initial_ngrams[n - 1] if n > 1})
        adjusted.append(num_predecessors | initial_counts)
    return adjusted[::-1]


def _iter_ngrams(sequence: Sequence[int], n: int) -> Iterator[IdNGram]:
    """Yield the n-grams that end with a predicted id, any but the first one of the sequence."""
    return (tuple(sequence[stop - n : stop]) for stop in range(max(2, n), len(sequence) + 1))


def _estimate_discounts(counts: Counter[IdNGram]) -> Discounts:
    """Estimate the discounts D1, D2 and D3+ from the counts of all n-grams of one order (Chen and Goodman 1999,
    equation 26); return default values if the counts are too few for that.
    """
    counts_of_counts = Counter(count for count in counts.values() if count <= 4)
    once, twice, thrice, four = (counts_of_counts[count] for count in range(1, 5))
    if not (once and twice and thrice and four):
        return _DEFAULT_DISCOUNTS
    y = once / (once + 2 * twice)
    discounts = (1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice)
    is_valid = all(0 < discount <= count for count, discount in enumerate(discounts, 1))
    return discounts if is_valid else _DEFAULT_DISCOUNTS


def _get_discount(count: int, discounts: Discounts) -> float:
    return discounts[min(count, 3) - 1]


def _build_contexts(counts: Counter[IdNGram], discounts: Discounts) -> dict[IdNGram, _ContextCounts]:
    """Group the counts of the n-grams of one order by context, which is the n-gram without its last id. `discounts` are
    those of the order; their sum in a context is its freed mass.
    """
    counts_by_context: defaultdict[IdNGram, dict[int, int]] = defaultdict(dict)
    for gram, count in counts.items():
        counts_by_context[gram[:-1]][gram[-1]] = count
    return {
        context: _ContextCounts(
            next_counts,
            sum(next_counts.values()),
            sum(_get_discount(count, discounts) for count in next_counts.values()),
        )
        for context, next_counts in counts_by_context.items()
    }
