"""Which sentences of parallel text are most like given ones, by words that both have; the text may be of any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import Pair
from heedful.data.spelling import words

_LONGEST: Final = 3
"""Words of the longest n-gram that is compared."""
_K1: Final = 1.5
_B: Final = 0.75
_OFTEN: Final = 1000
"""Pairs between two times that somebody is told how many were read."""

Grams = Counter[tuple[str, ...]]
Tick = Callable[[int, int | None], None]
"""Told how many pairs have been read, and how many will be, None before that is known."""


@dataclass(frozen=True)
class Resembling:
    """A pair whose source is like a sentence, and how much: BM25 of n-grams of 1 to 3 words."""

    score: float
    pair: Pair


@dataclass(frozen=True)
class Resemblance:
    """What a text has of given sentences.

    Attributes:
        pairs: that the text has.
        nearest: of each sentence, best first; none where nothing of it stands in the text.
        counts: how often each word of the sentences, case folded, stands in sources of the text.
    """

    pairs: int
    nearest: Sequence[Sequence[Resembling]]
    counts: Counter[str]


def resemblance(
    sentences: Sequence[str],
    read: Callable[[], Iterable[Pair]],
    *,
    most: int = 3,
    tick: Tick = lambda _, __: None,
) -> Resemblance:
    """Reads a text twice: to learn how rare n-grams are, and to score each source by those that it shares.

    The score is BM25 as Lucene counts it (Kamphuis et al. 2020), k1 = 1.5 and b = 0.75, where terms are n-grams of 1 to
    3 words, so that words in the same order count more. Of pairs that are the same the first counts, and so does the
    first of those that have the same score.

    Args:
        sentences: to be compared with sources.
        read: the pairs of the text, from its start.
        most: how many are found for each sentence.
        tick: told now and then; each pair is read twice, and counts so.

    Raises:
        DataError: the text cannot be read.
    """
    wanted = [frozenset(_grams(words(sentence))) for sentence in sentences]
    rows = {gram: row for row, gram in enumerate(dict.fromkeys(gram for grams in wanted for gram in sorted(grams)))}
    shares, counts = np.zeros(len(rows)), Counter[str]()
    pairs = length = 0
    for pair in read():
        found = words(pair.source)
        grams = _grams(found)
        shares[[rows[gram] for gram in grams if gram in rows]] += 1
        counts.update(word for word in found if (word,) in rows)
        pairs, length = pairs + 1, length + len(found)
        if not pairs % _OFTEN:
            tick(pairs, None)
    weights = np.zeros((len(rows), len(sentences)))
    for column, mine in enumerate(wanted):
        places = [rows[gram] for gram in mine]
        weights[places, column] = [log(1 + (pairs - n + 0.5) / (n + 0.5)) for n in shares[places]]
    best = [_Best(most) for _ in sentences]
    for number, pair in enumerate(read()):
        if not number % _OFTEN:
            tick(pairs + number, 2 * pairs)
        found = words(pair.source)
        grams = _grams(found)
        shared = [(rows[gram], times) for gram, times in grams.items() if gram in rows]
        if shared:
            _note(best, pair, _scores(weights, shared, longer=len(found) * pairs / max(1, length)))
    return Resemblance(pairs, [each.found for each in best], counts)


@final
@dataclass
class _Best:
    """The few best of one sentence."""

    most: int
    found: list[Resembling] = field(default_factory=list)

    @property
    def least(self) -> float:
        """What a score must exceed."""
        return self.found[-1].score if len(self.found) == self.most else 0.0

    def add(self, new: Resembling) -> None:
        """Behind those with the same score; nothing that is there already."""
        if all(new.pair[:2] != each.pair[:2] for each in self.found):
            self.found = sorted([*self.found, new], key=lambda each: -each.score)[: self.most]


def _note(best: Sequence[_Best], pair: Pair, scores: Float[np.ndarray, " N"]) -> None:
    for row in np.flatnonzero(scores).tolist():
        if scores[row] > best[row].least:
            best[row].add(Resembling(float(scores[row]), pair))


def _scores(
    weights: Float[np.ndarray, "grams N"], shared: Sequence[tuple[int, int]], *, longer: float
) -> Float[np.ndarray, " N"]:
    """Of one source against all sentences; `longer` is how many times as long as the mean it is."""
    rows, times = np.array(shared).T
    found: np.ndarray = (times / (times + _K1 * (1 - _B + _B * longer))) @ weights[rows]
    return found.round(9)  # what is equal must not differ by how it was added up


def _grams(found: Sequence[str]) -> Grams:
    return Counter(
        tuple(found[at : at + size]) for size in range(1, _LONGEST + 1) for at in range(len(found) - size + 1)
    )
