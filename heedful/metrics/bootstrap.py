"""How far a score can be trusted, and whether one system is better than another (Koehn 2004).

Scores of resampled corpora are functions of sums of counts per sentence, so sentences are counted once and a
thousand corpora are scored as one matrix. sacrebleu has a test too, but its seed is an environment variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from heedful.errors import RecipeError
from heedful.metrics.translation import bleu_metric, check_pairs

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A score, and where it lies in `confidence` of the corpora that could have been drawn instead."""

    name: str
    value: float
    mean: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Comparison:
    """Two systems under one metric, on the same resampled corpora.

    Attributes:
        name: the metric.
        first: the score of the first system.
        second: the score of the second system.
        difference: second minus first.
        p_value: how often chance alone makes a difference at least this large, in either direction.
        wins: the share of resampled corpora on which the second system is better.
        samples: the number of resampled corpora.
    """

    name: str
    first: Interval
    second: Interval
    difference: Interval
    p_value: float
    wins: float
    samples: int


class Counted(ABC):
    """A metric whose corpus score depends only on counts per sentence, added up."""

    name: str

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Float[np.ndarray, "N counts"]:
        """What each sentence adds to the sums."""

    @abstractmethod
    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """The scores of corpora with these sums, in percent."""


class CountedBLEU(Counted):
    """sacrebleu's BLEU, exponentially smoothed: lengths, matches and totals of 1- to 4-grams."""

    def __init__(self, *, lowercase: bool = False, tokenize: str = "13a") -> None:
        self.name = "BLEU"
        self._metric = bleu_metric(lowercase=lowercase, tokenize=tokenize)

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Float[np.ndarray, "N counts"]:
        """Lengths of hypothesis and reference, four counts of matches, four of n-grams."""
        scores = (self._metric.corpus_score([h], [[r]]) for h, r in zip(hypotheses, references, strict=True))
        return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores], dtype=np.float64)

    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """exp(min(0, 1 - r/c)) times the geometric mean; the k-th order without a match has 2^-k of one."""
        length, reference_length = sums[:, 0], sums[:, 1]
        matches, totals = sums[:, 2:6], sums[:, 6:10]
        smoothed = np.where(matches == 0, 0.5 ** np.cumsum(matches == 0, axis=1), matches)
        logs = np.log(smoothed / np.maximum(totals, 1)).mean(1)
        penalty = np.minimum(0, 1 - reference_length / np.maximum(length, 1))
        possible = (totals.min(1) > 0) & (matches.sum(1) > 0)
        return np.where(possible, 100 * np.exp(penalty + logs), 0.0)


class CountedChrF(Counted):
    """sacrebleu's chrF2: character n-grams of hypothesis, reference and both, of orders 1 to 6."""

    orders = 6
    beta = 2

    def __init__(self, *, lowercase: bool = False) -> None:
        self.name = "chrF2"
        self._lowercase = lowercase

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Float[np.ndarray, "N counts"]:
        """Three counts for each order; spaces do not count."""
        rows = [
            [count for n in range(1, self.orders + 1) for count in self._order(h, r, n)]
            for h, r in zip(map(self._bare, hypotheses), map(self._bare, references), strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def _bare(self, sentence: str) -> str:
        return "".join((sentence.lower() if self._lowercase else sentence).split())

    @staticmethod
    def _order(hypothesis: str, reference: str, n: int) -> tuple[int, int, int]:
        found, wanted = (Counter(s[i : i + n] for i in range(len(s) - n + 1)) for s in (hypothesis, reference))
        # sacrebleu does not count a hypothesis against a reference that is too short to have any
        return found.total() if wanted else 0, wanted.total(), (found & wanted).total()

    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """F2 of precision and recall averaged over the orders that both sides have."""
        found, wanted, matches = sums.reshape(len(sums), self.orders, 3).transpose(2, 0, 1)
        both = (found > 0) & (wanted > 0)
        orders = np.maximum(both.sum(1), 1)
        precision = np.where(both, matches / np.maximum(found, 1), 0).sum(1) / orders
        recall = np.where(both, matches / np.maximum(wanted, 1), 0).sum(1) / orders
        weight = self.beta**2
        divisor = weight * precision + recall
        scores: Array = 100 * (1 + weight) * precision * recall / np.where(divisor > 0, divisor, 1)
        return scores


def bootstrap(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metrics: Sequence[Counted] | None = None,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Interval, ...]:
    """One interval for each metric (by default BLEU and chrF), from corpora drawn with replacement.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
        RecipeError: fewer than 2 samples, or a confidence outside (0, 1).
    """
    check_pairs(hypotheses, references)
    check_options(samples, confidence)
    chosen = (CountedBLEU(), CountedChrF()) if metrics is None else metrics
    counts = [metric.count(hypotheses, references) for metric in chosen]
    return tuple(
        interval(metric.name, scores, confidence)
        for metric, (scores,) in zip(chosen, _resampled(chosen, [counts], samples, seed), strict=True)
    )


def paired_bootstrap(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    metrics: Sequence[Counted] | None = None,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Comparison, ...]:
    """Whether two systems differ under each metric (by default BLEU and chrF) by more than chance.

    The differences on resampled corpora are shifted to a mean of zero, as they would scatter if the systems
    were equally good; `p_value` is the share of them at least as far from zero as the real difference, itself
    included.

    Raises:
        DataError: no sentences, or not as many hypotheses of each system as references.
        RecipeError: fewer than 2 samples, or a confidence outside (0, 1).
    """
    check_pairs(first, references)
    check_pairs(second, references)
    check_options(samples, confidence)
    chosen = (CountedBLEU(), CountedChrF()) if metrics is None else metrics
    counts = [[metric.count(system, references) for metric in chosen] for system in (first, second)]
    return tuple(
        compare(metric.name, one, two, confidence)
        for metric, (one, two) in zip(chosen, _resampled(chosen, counts, samples, seed), strict=True)
    )


def check_options(samples: int, confidence: float) -> None:
    """`RecipeError` where there are too few samples, or the confidence is none."""
    if samples < 2:
        raise RecipeError(f"a bootstrap of {samples} samples: at least 2, better 1000")
    if not 0 < confidence < 1:
        raise RecipeError(f"a confidence of {confidence}: it must lie between 0 and 1, such as 0.95")


def _resampled(
    metrics: Sequence[Counted], counts: Sequence[Sequence[Array]], samples: int, seed: int
) -> list[list[Array]]:
    """Scores [metric][system][1 + samples]: of the corpus itself, then of corpora drawn alike for all."""
    everything = np.concatenate([array for system in counts for array in system], axis=1)
    size = len(everything)
    rng = np.random.default_rng(seed)
    sums = np.empty((1 + samples, everything.shape[1]))
    sums[0] = everything.sum(0)
    for row in sums[1:]:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size) @ everything
    ends = np.cumsum([array.shape[1] for system in counts for array in system])
    blocks = iter(np.split(sums, ends[:-1], axis=1))
    by_system = [[metric.score(next(blocks)) for metric in metrics] for _ in counts]
    return [list(systems) for systems in zip(*by_system, strict=True)]


def interval(name: str, scores: Array, confidence: float) -> Interval:
    """From the score of a corpus and, behind it, those of resampled ones."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(scores[1:], [tail, 1 - tail])
    return Interval(name, float(scores[0]), float(scores[1:].mean()), float(low), float(high), confidence)


def compare(name: str, first: Array, second: Array, confidence: float) -> Comparison:
    """From the scores of two systems on a corpus and, behind them, on the same resampled ones."""
    differences = second - first
    observed, drawn = differences[0], differences[1:]
    as_far = np.abs(drawn - drawn.mean()) >= abs(observed)
    return Comparison(
        name,
        interval(name, first, confidence),
        interval(name, second, confidence),
        interval(name, differences, confidence),
        p_value=float((as_far.sum() + 1) / (len(drawn) + 1)),
        wins=float((drawn > 0).mean()),
        samples=len(drawn),
    )
