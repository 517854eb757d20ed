"""Tuning of noisy channel weights on translations with references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.page import PageTable
from heedful.metrics.translation import select_bleu_tokenizer
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF
from heedful.tasks.translation.noisy_channel import ChannelWeights, ScoredCandidate

MetricName = Literal["bleu", "chrf"]
_NAMES: Final = {"bleu": "BLEU", "chrf": "chrF2"}
_STARTS: Final = ((0.0, 0.0, 0.0), (0.5, 0.25, 0.5), (1.0, 1.0, 1.0))
_STEPS: Final = (0.2, 0.05, 0.01)
_SEARCH_RADIUS: Final = 10
"""Number of steps that are tried on both sides of a weight."""


@dataclass(frozen=True)
class TuningResult:
    """Tuned weights and their quality.

    Attributes:
        weights: tuned on all sentences.
        sentences: number of sentences.
        metric: display name of the metric.
        before: score of the first candidates, in percent.
        direct: score of the candidates that the translation model finds most probable.
        after: score of the candidates that the weights select.
        held_out: score with two-fold cross-validation.
    """

    weights: ChannelWeights
    sentences: int
    metric: str
    before: float
    direct: float
    after: float
    held_out: float

    def to_table(self) -> PageTable:
        """Build a table of the scores."""
        rows = [
            ["original order", self.before],
            ["most probable", self.direct],
            ["tuned", self.after],
            ["tuned on one half, measured on the other", self.held_out],
        ]
        notes = (f"{self.sentences:,} sentences; only the last line estimates the result on other text",)
        return PageTable("", ["chosen", self.metric], [[str(name), f"{value:.2f}"] for name, value in rows], notes)


class _CandidateLists:
    """Candidate lists as arrays, padded with candidates that are never selected.

    Args:
        candidates: scored candidates of each sentence, not empty.
        references: of each sentence.
        metric: by which candidates are scored.
    """

    def __init__(
        self, candidates: Sequence[Sequence[ScoredCandidate]], references: Sequence[str], metric: MetricName
    ) -> None:
        sizes = [len(sentence_candidates) for sentence_candidates in candidates]
        is_real = np.arange(max(sizes)) < np.array(sizes)[:, None]
        pairs = [
            (candidate.candidate.text, reference)
            for sentence_candidates, reference in zip(candidates, references, strict=True)
            for candidate in sentence_candidates
        ]
        pair_numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        texts, reference = zip(*pair_numbers, strict=True)
        self._metric = (
            CorpusBLEU(texts, reference, tokenize=select_bleu_tokenizer(references))
            if metric == "bleu"
            else CorpusChrF(texts, reference)
        )
        self._counts = np.zeros((*is_real.shape, self._metric.counts.shape[1]))
        self._counts[is_real] = self._metric.counts[[pair_numbers[pair] for pair in pairs]]
        self._log_probabilities = np.full(is_real.shape, -np.inf)
        self._log_probabilities[is_real] = [
            candidate.candidate.log_probability
            for sentence_candidates in candidates
            for candidate in sentence_candidates
        ]
        self._features = np.zeros((*is_real.shape, 3))
        self._features[is_real] = [
            candidate.features for sentence_candidates in candidates for candidate in sentence_candidates
        ]

    def score_first(self, mask: slice) -> float:
        """Return the score of the first candidates."""
        return float(self._metric.score_sums(self._counts[mask, 0].sum(0, keepdims=True))[0])

    def score_weights(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, " W"]:
        """Return the score of the candidates that each row of weights (W, 3) selects, in the sentences of a slice."""
        return self._metric.score_sums(self._sum_counts(weights, mask))

    def score_combined(self, parts: Sequence[tuple[slice, Float[np.ndarray, " 3"]]]) -> float:
        """Return the score of a corpus whose parts use different weights."""
        sums = sum(self._sum_counts(weights[None], mask) for mask, weights in parts)
        assert isinstance(sums, np.ndarray)
        return float(self._metric.score_sums(sums)[0])

    def _sum_counts(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, "W counts"]:
        """Return the summed metric counts (W, counts) of the candidates that each row of weights selects."""
        counts = self._counts[mask]
        scores = self._log_probabilities[mask] + np.tensordot(weights, self._features[mask], (1, 2))
        best_candidates, rows = scores.argmax(2), np.arange(len(counts))
        return np.stack([counts[rows, selected].sum(0) for selected in best_candidates])

    def optimize_weights(self, axes: Sequence[int], mask: slice) -> Float[np.ndarray, " 3"]:
        """Find the best weights by coordinate ascent from a few starts; axes that are not free stay 0."""
        optima = []
        for start in _STARTS:
            weights = np.array([number if axis in axes else 0.0 for axis, number in enumerate(start)])
            for step in _STEPS:
                weights = self._climb(weights, axes, mask, step=step)
            optima.append((float(self.score_weights(weights[None], mask)[0]), weights))
        return max(optima, key=lambda optimum: optimum[0])[1]

    def _climb(
        self, weights: Float[np.ndarray, " 3"], axes: Sequence[int], mask: slice, *, step: float
    ) -> Float[np.ndarray, " 3"]:
        """Ascend along one axis after the other until no step improves the score; among equal ones the nearest is
        taken.
        """
        value = float(self.score_weights(weights[None], mask)[0])
        while True:
            previous = value
            for axis in axes:
                candidates = np.repeat(weights[None], 2 * _SEARCH_RADIUS + 1, 0)
                candidates[:, axis] += step * np.array(sorted(range(-_SEARCH_RADIUS, _SEARCH_RADIUS + 1), key=abs))
                if axis < 2:  # probabilities never count against a text
                    candidates = candidates[candidates[:, axis] >= 0]
                scores = self.score_weights(candidates, mask)
                if scores.max() > value + 1e-9:
                    weights, value = candidates[scores.argmax()], float(scores.max())
            if value <= previous:
                return weights


def tune_weights(
    candidates: Sequence[Sequence[ScoredCandidate] | None], references: Sequence[str], *, metric: MetricName = "bleu"
) -> TuningResult:
    """Find the weights whose selected candidates are closest to the references, as a corpus.

    Coordinate ascent with decreasing steps from three starts; it is deterministic. A missing model gets the weight 0,
    and sentences without scores are left out.

    Raises:
        DataError: the numbers of references and sentences differ, or fewer than two sentences have scores.
    """
    if len(candidates) != len(references):
        raise DataError(f"{len(candidates):,} sentences, and {len(references):,} references; give one for each")
    pairs = [
        (sentence_candidates, reference)
        for sentence_candidates, reference in zip(candidates, references, strict=True)
        if sentence_candidates
    ]
    if len(pairs) < 2:
        raise DataError("fewer than two sentences have candidates; give more, some hundreds to tune by")
    lists = _CandidateLists(
        [sentence_candidates for sentence_candidates, _ in pairs], [reference for _, reference in pairs], metric
    )
    first_candidates = [sentence_candidates[0] for sentence_candidates, _ in pairs]
    free = [
        axis for axis, name in enumerate(("reverse", "language")) if getattr(first_candidates[0], name) is not None
    ] + [2]
    all_rows = slice(None)
    weights = lists.optimize_weights(free, all_rows)
    halves = slice(0, None, 2), slice(1, None, 2)
    shares = [(halves[1 - index], lists.optimize_weights(free, half)) for index, half in enumerate(halves)]
    reverse, language, length = (round(float(number), 4) for number in weights)
    return TuningResult(
        ChannelWeights(reverse=reverse, language=language, length=length),
        len(pairs),
        _NAMES[metric],
        before=lists.score_first(all_rows),
        direct=float(lists.score_weights(np.zeros((1, 3)), all_rows)[0]),
        after=float(lists.score_weights(weights[None], all_rows)[0]),
        held_out=lists.score_combined(shares),
    )
