"""Interpolated modified Kneser-Ney smoothing: the language model without a network that perplexities are read beside.

Of n-grams below the highest order what counts is how many different words they follow, not how often they occur, since
they are asked for where the longer n-gram is unknown (Kneser and Ney 1995). Three discounts of each order, for n-grams
that were counted once, twice and more often, are read off the counts of counts (Chen and Goodman 1999, section 3).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from heedful.errors import DataError, RecipeError

Gram: TypeAlias = tuple[int, ...]
Discounts: TypeAlias = tuple[float, float, float]

_FALLBACK: Final[Discounts] = (0.5, 1.0, 1.5)
"""Where a text is too small for counts of counts, as KenLM has it (Heafield et al. 2013)."""


@final
@dataclass(frozen=True)
class _Follower:
    """What follows one context: the adjusted count of each id, their sum, and the mass that the discounts free."""

    counts: dict[int, int]
    total: int
    free: float


@final
class KneserNey:
    """p(id | ids before it), of a vocabulary of `size` ids.

    The first id of a sequence is given, as a begin of sentence is; n-grams that begin with it have nothing before them,
    so that their own counts count.

    Args:
        sequences: of ids, to learn from.
        size: ids there are; those that were never seen share what the discounts of single ids free.
        order: n, the longest n-gram.

    Raises:
        DataError: no sequence has a second id.
        RecipeError: the order is below 1.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], *, size: int, order: int = 5) -> None:
        if order < 1:
            raise RecipeError(f"order: {order}; n-grams have at least one word")
        self.size = size
        self.order = order
        counts = _adjusted(sequences, order=order)
        if not counts[0]:
            raise DataError("there is nothing to count n-grams of; check the text")
        self.discounts = tuple(map(_discounts, counts))
        self._followers = [_followers(each, found) for each, found in zip(counts, self.discounts, strict=True)]

    def probability(self, number: int, before: Sequence[int]) -> float:
        """p(number | before); of `before` the last order - 1 ids matter."""
        context = tuple(before[max(0, len(before) - self.order + 1) :])
        found = 1.0 / self.size
        for length in range(len(context) + 1):
            follower = self._followers[length].get(context[len(context) - length :])
            if follower is None:
                break  # nor was any longer one seen
            count = follower.counts.get(number, 0)
            own = count - _discount(count, self.discounts[length]) if count else 0.0
            found = (own + follower.free * found) / follower.total
        return found

    def nats(self, sequence: Sequence[int]) -> list[float]:
        """-log p of each id but the first."""
        return [
            -math.log(self.probability(sequence[place], sequence[max(0, place - self.order + 1) : place]))
            for place in range(1, len(sequence))
        ]


def _adjusted(sequences: Iterable[Sequence[int]], *, order: int) -> list[Counter[Gram]]:
    """Of each order the n-grams and their counts; of lower ones how many different ids stand before them."""
    raw: list[Counter[Gram]] = [Counter() for _ in range(order)]
    first: list[set[Gram]] = [set() for _ in range(order)]
    for sequence in sequences:
        for n, counts in enumerate(raw, 1):
            counts.update(_grams(sequence, n))
            first[n - 1].add(tuple(sequence[:n]))
    adjusted = [raw[-1]]
    for n in range(order - 1, 0, -1):
        kinds = Counter(gram[1:] for gram in raw[n])
        begun = Counter({gram: raw[n - 1][gram] for gram in first[n - 1] if n > 1})
        adjusted.append(kinds | begun)
    return adjusted[::-1]


def _grams(sequence: Sequence[int], n: int) -> Iterator[Gram]:
    """Those that end with an id that is predicted: all but the first one of the sequence."""
    return (tuple(sequence[stop - n : stop]) for stop in range(max(2, n), len(sequence) + 1))


def _discounts(counts: Counter[Gram]) -> Discounts:
    """D1, D2 and D3+ of an order (Chen and Goodman 1999, equation 26)."""
    sizes = Counter(count for count in counts.values() if count <= 4)
    once, twice, thrice, four = (sizes[count] for count in range(1, 5))
    if not (once and twice and thrice and four):
        return _FALLBACK
    y = once / (once + 2 * twice)
    found = (1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice)
    inside = all(0 < each <= count for count, each in enumerate(found, 1))
    return found if inside else _FALLBACK


def _discount(count: int, discounts: Discounts) -> float:
    return discounts[min(count, 3) - 1]


def _followers(counts: Counter[Gram], discounts: Discounts) -> dict[Gram, _Follower]:
    found: defaultdict[Gram, dict[int, int]] = defaultdict(dict)
    for gram, count in counts.items():
        found[gram[:-1]][gram[-1]] = count
    return {
        context: _Follower(each, sum(each.values()), sum(_discount(count, discounts) for count in each.values()))
        for context, each in found.items()
    }
