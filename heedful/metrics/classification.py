"""Metrics of classification, regression and ranking: accuracy, F1, Matthews, Pearson and Spearman correlation,
recall at k.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import isfinite
from typing import Final, final

import numpy as np
from jaxtyping import Bool, Float, Int

from heedful.errors import DataError
from heedful.metrics.metric import MeanMetric, Metric, RatioMetric, build_mean_metric, group_metric, safe_divide


def match_labels(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Float[np.ndarray, " N"]:
    """Return for each example 1 if the predicted value equals the gold value, else 0.

    Raises:
        DataError: there are no examples, or the lists differ in length.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} predictions but {len(gold):,} gold values: each needs its own")
    if not len(gold):
        raise DataError("nothing to score: predictions and gold values are empty")
    return np.array([p == g for p, g in zip(predicted, gold, strict=True)], dtype=np.float64)


def accuracy(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> RatioMetric:
    """Return the share of predictions that equal their gold value; raises as `match_labels`."""
    return build_mean_metric(match_labels(predicted, gold))


def f1_score(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, positive: Hashable) -> RatioMetric:
    """Return F1 of the class `positive`, 2 * matches / (predicted + gold); raises as `match_labels`."""
    is_match = match_labels(predicted, gold)
    is_predicted, is_gold = (
        np.array([label == positive for label in labels], dtype=np.float64) for labels in (predicted, gold)
    )
    return RatioMetric(2 * is_match * is_predicted, is_predicted + is_gold)


def macro_f1_score(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, classes: Sequence[Hashable]
) -> MeanMetric:
    """Return the mean of F1 over classes, as SuperGLUE reports for CB (Wang et al. 2019); raises as `match_labels`."""
    return MeanMetric(tuple(f1_score(predicted, gold, positive=name) for name in classes))


@final
class MatthewsCorrelation(Metric):
    """Matthews correlation of any number of classes (Gorodkin 2004, R_K); 0 if either side has one class only.

    For two classes it is (TP TN - FP FN) / sqrt((TP+FP) (TP+FN) (TN+FP) (TN+FN)) (Matthews 1975).

    Raises:
        DataError: no examples, or lists of different length.
    """

    def __init__(self, predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> None:
        names = dict.fromkeys((*gold, *predicted))
        self._is_match = match_labels(predicted, gold)
        self._predicted, self._gold = (
            np.array([[label == name for name in names] for label in side], dtype=np.float64)
            for side in (predicted, gold)
        )

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self._is_match)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the correlation (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)) for each row of
        weights, with s examples, c matches, and p_k predicted and t_k gold ones of class k.
        """
        total, num_matches = weights.sum(1), weights @ self._is_match
        predicted_counts, gold_counts = weights @ self._predicted, weights @ self._gold
        numerator = num_matches * total - (predicted_counts * gold_counts).sum(1)
        denominator = (total**2 - (predicted_counts**2).sum(1)) * (total**2 - (gold_counts**2).sum(1))
        return safe_divide(numerator, np.sqrt(denominator))


def group_exact_match(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, groups: Sequence[Hashable]
) -> RatioMetric:
    """Return the share of groups without a wrong prediction, such as MultiRC's EM of questions (Khashabi et al. 2018).
    `groups` has the group of each example.

    Raises:
        DataError: no examples, or lists of different length.
    """
    errors = group_metric(build_mean_metric(1 - match_labels(predicted, gold)), _check_groups(groups, gold))
    return build_mean_metric([count == 0 for count in errors.numerators])


def group_parity(predicted: Sequence[Hashable], *, groups: Sequence[Hashable]) -> RatioMetric:
    """Return the share of groups in which all examples get the same predicted class. `groups` has the group of each
    example.

    With Winogender's pairs, which differ in the gender of a pronoun only, this is SuperGLUE's gender parity score of
    AX-g (Rudinger et al. 2018): 1 minus it is the gap.

    Raises:
        DataError: no predictions, or lists of different length.
    """
    classes_by_group: dict[Hashable, set[Hashable]] = {}
    for group, label in zip(_check_groups(groups, predicted), predicted, strict=True):
        classes_by_group.setdefault(group, set()).add(label)
    return build_mean_metric([len(labels) == 1 for labels in classes_by_group.values()])


def _check_groups(groups: Sequence[Hashable], examples: Sequence[Hashable]) -> Sequence[Hashable]:
    """Return the groups; raises `DataError` unless there is one for each example."""
    if len(groups) != len(examples) or not len(groups):
        raise DataError(f"{len(groups):,} groups but {len(examples):,} examples: each needs its own, at least one")
    return groups


@final
class CorrelationMetric(Metric):
    """Pearson's r, the covariance divided by both standard deviations; 0 if either side is constant.

    Args:
        predicted: a number for each example.
        gold: the gold numbers.
        use_ranks: compute Spearman's rho instead: r of the ranks, where equal numbers share their mean rank.

    Raises:
        DataError: fewer than two numbers, lists of different length, or numbers that are not finite.
    """

    def __init__(self, predicted: Sequence[float], gold: Sequence[float], *, use_ranks: bool = False) -> None:
        self._predicted, self._gold = _check_numbers(predicted, gold), _check_numbers(gold, predicted)
        self._use_ranks = use_ranks

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self._gold)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the correlation for each row of weights; 0 where a side is constant in the sample."""
        x, y = (self._transform_values(values, weights) for values in (self._predicted, self._gold))
        has_variation = _has_variation(x, weights) & _has_variation(y, weights)
        x, y = (side - ((weights * side).sum(1) / weights.sum(1))[:, None] for side in (x, y))
        denominator = np.sqrt((weights * x**2).sum(1) * (weights * y**2).sum(1))
        return np.asarray(
            np.clip(safe_divide((weights * x * y).sum(1), np.where(has_variation, denominator, 0)), -1, 1)
        )

    def _transform_values(
        self, values: Float[np.ndarray, " N"], weights: Float[np.ndarray, "samples N"]
    ) -> Float[np.ndarray, "samples N"]:
        """Return the values in each row: scaled to at most 1, or, for Spearman's rho, their ranks within each weighted
        sample.
        """
        if not self._use_ranks:
            # near 1, so that squares neither overflow nor vanish
            return np.broadcast_to(values / (np.abs(values).max() or 1), weights.shape)
        _, value_index = np.unique(values, return_inverse=True)
        order = np.argsort(value_index, kind="stable")
        group_starts = np.flatnonzero(np.diff(value_index[order], prepend=-1))
        counts = np.add.reduceat(weights[:, order], group_starts, axis=1)
        ranks: Float[np.ndarray, "samples N"] = (counts.cumsum(1) - (counts - 1) / 2)[:, value_index]
        return ranks


def _check_numbers(values: Sequence[float], others: Sequence[float]) -> Float[np.ndarray, " N"]:
    """Convert `values` to an array; raises `DataError` if they are fewer than two, not finite, or not as many as
    `others`.
    """
    if len(values) != len(others):
        raise DataError(f"{len(values):,} numbers against {len(others):,}: each needs its own")
    if len(values) < 2:
        raise DataError("a correlation needs at least two numbers on each side")
    for index, value in enumerate(values):
        if not isfinite(value):
            raise DataError(f"number {index + 1} is {value}; a correlation needs finite numbers")
    return np.asarray(values, dtype=np.float64)


def _has_variation(
    values: Float[np.ndarray, "samples N"], weights: Float[np.ndarray, "samples N"]
) -> Bool[np.ndarray, " samples"]:
    """Return for each sample whether the values that have a positive weight in it differ."""
    has_weight = weights > 0
    differs: Bool[np.ndarray, " samples"] = np.where(has_weight, values, -np.inf).max(1) > np.where(
        has_weight, values, np.inf
    ).min(1)
    return differs


_ROW_BATCH: Final = 1024
"""Number of texts whose cosines with all others are in memory at one time."""
_ROUNDING: Final = 1e-6
"""Rounding error of cosines in single precision, which may depend on the column."""


def recall_at_k(ranks: Sequence[Sequence[int | None]], k: int) -> float:
    """Return the share of the relevant passages among the first `k`, averaged over questions. `ranks` has the rank,
    from 1, of each relevant passage of each question.

    Args:
        ranks: for each question the rank, from 1, of each relevant passage; None if it was not found.
        k: number of passages that count.

    Raises:
        DataError: there is no question, or one without a relevant passage.
    """
    _check_ranks(ranks)
    recalls = [
        sum(rank is not None and rank <= k for rank in question_ranks) / len(question_ranks) for question_ranks in ranks
    ]
    return sum(recalls) / len(recalls)


def mean_reciprocal_rank(ranks: Sequence[Sequence[int | None]]) -> float:
    """Return 1 / rank of the first relevant passage, 0 if none was found, averaged over questions (Voorhees 1999).
    `ranks` has the rank, from 1, of each relevant passage of each question.

    Args:
        ranks: as for `recall_at_k`.

    Raises:
        DataError: there is no question, or one without a passage that answers it.
    """
    _check_ranks(ranks)
    reciprocal_ranks = [
        max((1 / rank for rank in question_ranks if rank is not None), default=0.0) for question_ranks in ranks
    ]
    return sum(reciprocal_ranks) / len(reciprocal_ranks)


def rank_paired_targets(
    sources: Float[np.ndarray, "N d"], targets: Float[np.ndarray, "N d"], group_ids: Int[np.ndarray, "ways N"]
) -> Int[np.ndarray, "2 N"]:
    """Return the rank, from 1, of each source's own target by cosine among all targets, and vice versa. Targets that
    share a number with it in any row of `group_ids` are not counted before it.

    Other targets with an equal cosine, up to rounding, rank before it, so that a constant model finds nothing.

    Args:
        sources, targets: vectors of length 1; row i of one belongs to row i of the other.
        group_ids: rows with an equal number in any grouping also belong together or are equal; they do not rank before.
    """
    ranks = []
    for query_vectors, candidate_vectors in ((sources, targets), (targets, sources)):
        for start in range(0, len(query_vectors), _ROW_BATCH):
            rows = np.arange(start, min(start + _ROW_BATCH, len(query_vectors)))
            cosines = query_vectors[rows] @ candidate_vectors.T
            is_other = (group_ids[:, rows, None] != group_ids[:, None]).all(0)
            ranks.append(1 + ((cosines >= cosines[:, rows].diagonal()[:, None] - _ROUNDING) & is_other).sum(1))
    return np.concatenate(ranks).reshape(2, -1)


def _check_ranks(ranks: Sequence[Sequence[int | None]]) -> None:
    """Raise `DataError` unless there are questions, each with a relevant passage."""
    if not ranks:
        raise DataError("there are no questions to evaluate with; name a file with questions")
    for number, question_ranks in enumerate(ranks, 1):
        if not question_ranks:
            raise DataError(f"question {number}: no passage answers it; leave it out")
