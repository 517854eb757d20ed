"""Classification metrics: accuracy, F1, Matthews correlation, and metrics of groups.

All values are fractions between 0 and 1, Matthews correlation between -1 and 1. Undefined values, with nothing
predicted or nothing to find, are 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.metric import MeanMetric, Metric, RatioMetric, build_mean_metric, group_metric, safe_divide


def match_labels(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Float[np.ndarray, " N"]:
    """Return 1 where a prediction equals its gold value, else 0.

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
    """Return F1 of one class, 2 * matches / (predicted + gold); raises as `match_labels`."""
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
        """Return (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))."""
        total, num_matches = weights.sum(1), weights @ self._is_match
        predicted_counts, gold_counts = weights @ self._predicted, weights @ self._gold
        numerator = num_matches * total - (predicted_counts * gold_counts).sum(1)
        denominator = (total**2 - (predicted_counts**2).sum(1)) * (total**2 - (gold_counts**2).sum(1))
        return safe_divide(numerator, np.sqrt(denominator))


def group_exact_match(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, groups: Sequence[Hashable]
) -> RatioMetric:
    """Return the share of groups without an error, such as MultiRC's EM of questions (Khashabi et al. 2018).

    Raises:
        DataError: no examples, or lists of different length.
    """
    errors = group_metric(build_mean_metric(1 - match_labels(predicted, gold)), _check_groups(groups, gold))
    return build_mean_metric([count == 0 for count in errors.numerators])


def group_parity(predicted: Sequence[Hashable], *, groups: Sequence[Hashable]) -> RatioMetric:
    """Return the share of groups whose members all get the same class.

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
