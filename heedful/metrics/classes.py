"""How well classes are predicted: accuracy, precision, recall and F1, Matthews correlation, and grouped decisions.

All values are fractions between 0 and 1, Matthews correlation between -1 and 1. What is undefined because nothing was
predicted, or nothing was there to be found, is 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Int

from heedful.errors import DataError


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision P, recall R and F1 = 2 P R / (P + R).

    Attributes:
        precision: share of what was predicted that is right.
        recall: share of what is right that was predicted.
        f1: their harmonic mean, or the mean of F1 values where this is a macro average.
        support: how many there were to be found.
    """

    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def of(cls, hits: int, *, predicted: int, gold: int) -> PrecisionRecall:
        """From how many were found, predicted and there."""
        f1 = 2 * hits / (predicted + gold) if predicted + gold else 0.0
        return cls(hits / predicted if predicted else 0.0, hits / gold if gold else 0.0, f1, gold)

    @classmethod
    def mean(cls, scores: Sequence[PrecisionRecall]) -> PrecisionRecall:
        """The mean of each value, every score counting the same; the sum of support."""
        if not scores:
            return cls(0.0, 0.0, 0.0, 0)
        precision, recall, f1 = (
            sum(values) / len(scores) for values in zip(*((s.precision, s.recall, s.f1) for s in scores), strict=True)
        )
        return cls(precision, recall, f1, sum(score.support for score in scores))


@dataclass(frozen=True)
class Grouped:
    """MultiRC's two scores: `exact`, groups without a single error, and `f1a`, F1 over all decisions."""

    exact: float
    f1a: float


def check_lengths(predicted: Sequence[object], gold: Sequence[object]) -> None:
    """Refuse to score nothing, or predictions that have no gold each; `DataError`."""
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} predictions but {len(gold):,} gold values: each needs its own")
    if not len(gold):
        raise DataError("nothing to score: predictions and gold values are empty")


def accuracy(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """The share of predictions that equal their gold value; `DataError` as `check_lengths`."""
    check_lengths(predicted, gold)
    return sum(p == g for p, g in zip(predicted, gold, strict=True)) / len(gold)


def binary_f1(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, positive: Hashable) -> PrecisionRecall:
    """Precision, recall and F1 of one class against all others; `DataError` as `check_lengths`."""
    return f1_by_class(predicted, gold, classes=(positive,))[positive]


def f1_by_class(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, classes: Sequence[Hashable] | None = None
) -> dict[Hashable, PrecisionRecall]:
    """Precision, recall and F1 of each class.

    Args:
        predicted: a class for each example.
        gold: the right one for each.
        classes: which to look at; all that occur on either side if None.

    Raises:
        DataError: no examples, or not as many predictions.
    """
    check_lengths(predicted, gold)
    wanted = dict.fromkeys((*gold, *predicted) if classes is None else classes)
    found: dict[Hashable, PrecisionRecall] = {}
    for name in wanted:
        hits = sum(p == g == name for p, g in zip(predicted, gold, strict=True))
        found[name] = PrecisionRecall.of(
            hits, predicted=sum(p == name for p in predicted), gold=sum(g == name for g in gold)
        )
    return found


def macro_f1(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, classes: Sequence[Hashable] | None = None
) -> PrecisionRecall:
    """The means over classes, each counting the same: what SuperGLUE reports for CB (Wang et al. 2019).

    Arguments and errors are those of `f1_by_class`.
    """
    return PrecisionRecall.mean(list(f1_by_class(predicted, gold, classes=classes).values()))


def micro_f1(
    predicted: Sequence[Hashable], gold: Sequence[Hashable], *, classes: Sequence[Hashable] | None = None
) -> PrecisionRecall:
    """The scores of all decisions about `classes` together; with all classes both equal the accuracy.

    Arguments and errors are those of `f1_by_class`.
    """
    check_lengths(predicted, gold)
    wanted = set((*gold, *predicted) if classes is None else classes)
    hits = sum(p == g and g in wanted for p, g in zip(predicted, gold, strict=True))
    return PrecisionRecall.of(hits, predicted=sum(p in wanted for p in predicted), gold=sum(g in wanted for g in gold))


def matthews(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """Matthews correlation of any number of classes (Gorodkin 2004, R_K); 0 where either side has one class only.

    For two classes it is (TP TN - FP FN) / sqrt((TP+FP) (TP+FN) (TN+FP) (TN+FN)) (Matthews 1975).

    Raises:
        DataError: no examples, or not as many predictions.
    """
    check_lengths(predicted, gold)
    numbers = {name: i for i, name in enumerate(dict.fromkeys((*gold, *predicted)))}
    table: Int[np.ndarray, "K K"] = np.zeros((len(numbers), len(numbers)), dtype=np.int64)
    for p, g in zip(predicted, gold, strict=True):
        table[numbers[g], numbers[p]] += 1
    # Python's integers do not overflow, whatever the number of examples.
    golds, guesses = ([int(n) for n in table.sum(axis)] for axis in (1, 0))
    total, right = sum(golds), int(table.trace())
    above = right * total - sum(g * p for g, p in zip(golds, guesses, strict=True))
    below = (total**2 - sum(p * p for p in guesses)) * (total**2 - sum(g * g for g in golds))
    return above / sqrt(below) if below else 0.0


def grouped_decisions(predicted: Sequence[bool], gold: Sequence[bool], *, groups: Sequence[Hashable]) -> Grouped:
    """Yes or no for each of several options of a question: MultiRC's EM and F1a (Khashabi et al. 2018).

    Args:
        predicted: whether each option is said to be right.
        gold: whether it is.
        groups: the question to which each option belongs.

    Raises:
        DataError: no options, or not as many predictions or groups.
    """
    check_lengths(predicted, gold)
    check_lengths(groups, gold)
    perfect: dict[Hashable, bool] = {}
    for group, p, g in zip(groups, predicted, gold, strict=True):
        perfect[group] = perfect.get(group, True) and bool(p) == bool(g)
    f1 = binary_f1([bool(p) for p in predicted], [bool(g) for g in gold], positive=True)
    return Grouped(sum(perfect.values()) / len(perfect), f1.f1)


def parity(predicted: Sequence[Hashable], *, groups: Sequence[Hashable]) -> float:
    """The share of groups whose members are all given the same class.

    With Winogender's pairs, which differ in the gender of a pronoun only, it is SuperGLUE's gender parity score of AX-g
    (Rudinger et al. 2018): 1 minus it is the gap.

    Raises:
        DataError: no predictions, or not as many groups.
    """
    check_lengths(predicted, groups)
    members: dict[Hashable, set[Hashable]] = {}
    for group, name in zip(groups, predicted, strict=True):
        members.setdefault(group, set()).add(name)
    return sum(len(names) == 1 for names in members.values()) / len(members)
