"""How well classes are predicted: accuracy, F1, Matthews correlation, and decisions that belong together.

All values are fractions between 0 and 1, Matthews correlation between -1 and 1. What is undefined because nothing was
predicted, or nothing was there to be found, is 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.metric import Mean, Metric, Ratio, divided, grouped, mean


def hits(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Float[np.ndarray, " N"]:
    """1 where a prediction equals its gold value, else 0; `DataError` where there are none, or not as many."""
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} predictions but {len(gold):,} gold values: each needs its own")
    if not len(gold):
        raise DataError("nothing to score: predictions and gold values are empty")
    return np.array([p == g for p, g in zip(predicted, gold, strict=True)], dtype=np.float64)


def accuracy(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Ratio:
    """The share of predictions that equal their gold value; `DataError` as `hits`."""
    return mean(hits(predicted, gold))


def f1(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, positive: Hashable) -> Ratio:
    """F1 of one class: twice the hits over all that were predicted and all that are there; `DataError` as `hits`."""
    right = hits(predicted, gold)
    said, there = (np.array([label == positive for label in side], dtype=np.float64) for side in (predicted, gold))
    return Ratio(2 * right * said, said + there)


def macro_f1(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, classes: Sequence[Hashable]) -> Mean:
    """The mean of F1 over classes: what SuperGLUE reports for CB (Wang et al. 2019); `DataError` as `hits`."""
    return Mean(tuple(f1(predicted, gold, positive=name) for name in classes))


@final
class Matthews(Metric):
    """Matthews correlation of any number of classes (Gorodkin 2004, R_K); 0 where either side has one class only.

    For two classes it is (TP TN - FP FN) / sqrt((TP+FP) (TP+FN) (TN+FP) (TN+FN)) (Matthews 1975).

    Raises:
        DataError: no examples, or not as many predictions.
    """

    def __init__(self, predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> None:
        names = dict.fromkeys((*gold, *predicted))
        self._right = hits(predicted, gold)
        self._predicted, self._gold = (
            np.array([[label == name for name in names] for label in side], dtype=np.float64)
            for side in (predicted, gold)
        )

    @property
    def examples(self) -> int:
        """One for each answer."""
        return len(self._right)

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))."""
        total, right = weights.sum(1), weights @ self._right
        guesses, golds = weights @ self._predicted, weights @ self._gold
        above = right * total - (guesses * golds).sum(1)
        below = (total**2 - (guesses**2).sum(1)) * (total**2 - (golds**2).sum(1))
        return divided(above, np.sqrt(below))


def exact_groups(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, groups: Sequence[Hashable]) -> Ratio:
    """The share of groups without a single error, such as MultiRC's EM of questions (Khashabi et al. 2018).

    Raises:
        DataError: no examples, or not as many predictions or groups.
    """
    errors = grouped(mean(1 - hits(predicted, gold)), _of_each(groups, gold))
    return mean([count == 0 for count in errors.above])


def parity(predicted: Sequence[Hashable], *, groups: Sequence[Hashable]) -> Ratio:
    """The share of groups whose members are all given the same class.

    With Winogender's pairs, which differ in the gender of a pronoun only, it is SuperGLUE's gender parity score of AX-g
    (Rudinger et al. 2018): 1 minus it is the gap.

    Raises:
        DataError: no predictions, or not as many groups.
    """
    members: dict[Hashable, set[Hashable]] = {}
    for group, name in zip(_of_each(groups, predicted), predicted, strict=True):
        members.setdefault(group, set()).add(name)
    return mean([len(names) == 1 for names in members.values()])


def _of_each(groups: Sequence[Hashable], examples: Sequence[Hashable]) -> Sequence[Hashable]:
    if len(groups) != len(examples) or not len(groups):
        raise DataError(f"{len(groups):,} groups but {len(examples):,} examples: each needs its own, at least one")
    return groups
