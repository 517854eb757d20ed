"""Scores of predicted classes against scikit-learn and longhand."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from sklearn import metrics

from heedful.errors import DataError
from heedful.metrics.classes import (
    accuracy,
    binary_f1,
    f1_by_class,
    grouped_decisions,
    macro_f1,
    matthews,
    micro_f1,
    parity,
)


def labels(classes: int, *, size: int, skew: float) -> tuple[list[str], list[str]]:
    """Predictions that are right about half of the time."""
    weights = [skew**i for i in range(classes)]
    gold = random.choices([f"c{i}" for i in range(classes)], weights, k=size)
    guess = random.choices([f"c{i}" for i in range(classes)], k=size)
    return [g if random.random() < 0.5 else p for g, p in zip(gold, guess, strict=True)], gold


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 5, 200])
@pytest.mark.parametrize("skew", [1.0, 0.2])
def test_as_scikit_learn(classes: int, size: int, skew: float) -> None:
    for _ in range(20):
        predicted, gold = labels(classes, size=size, skew=skew)
        assert accuracy(predicted, gold) == pytest.approx(metrics.accuracy_score(gold, predicted))
        correlation = metrics.matthews_corrcoef(gold, predicted) if len({*gold, *predicted}) > 1 else 0.0
        assert matthews(predicted, gold) == pytest.approx(correlation)
        for average, ours in (("macro", macro_f1), ("micro", micro_f1)):
            for chosen in (None, ["c1", "c0"]):
                wanted = metrics.precision_recall_fscore_support(
                    gold, predicted, average=average, labels=chosen, zero_division=0
                )
                got = ours(predicted, gold, classes=chosen)
                assert (got.precision, got.recall, got.f1) == pytest.approx(wanted[:3])
        each = f1_by_class(predicted, gold, classes=["c0", "c1"])
        wanted = metrics.precision_recall_fscore_support(gold, predicted, labels=["c0", "c1"], zero_division=0)
        for column, name in enumerate(("c0", "c1")):
            score = each[name]
            assert (score.precision, score.recall, score.f1, score.support) == pytest.approx(
                [row[column] for row in wanted]
            )
            assert binary_f1(predicted, gold, positive=name) == score


def test_matthews_longhand() -> None:
    # TP 6, FN 2, FP 1, TN 3
    gold = [1] * 8 + [0] * 4
    predicted = [1] * 6 + [0] * 2 + [1] + [0] * 3
    assert matthews(predicted, gold) == pytest.approx((6 * 3 - 1 * 2) / sqrt(7 * 8 * 4 * 5))
    assert matthews([1 - p for p in predicted], gold) == pytest.approx(-matthews(predicted, gold))
    assert matthews([1] * 12, gold) == 0
    assert matthews(gold, gold) == 1


def test_the_means_of_macro_f1_are_means_of_f1() -> None:
    # CB: a class that is never found counts as much as the others.
    gold, predicted = ["e", "e", "c", "n"], ["e", "e", "c", "c"]
    assert macro_f1(predicted, gold).f1 == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_grouped_decisions_as_multirc() -> None:
    # Question a is right, b has one option too many, c misses its only one.
    groups = ["a", "a", "b", "b", "b", "c", "c"]
    gold = [True, False, True, True, False, True, False]
    predicted = [True, False, True, True, True, False, False]
    score = grouped_decisions(predicted, gold, groups=groups)
    assert score.exact == pytest.approx(1 / 3)
    precision, recall = 3 / 4, 3 / 4
    assert score.f1a == pytest.approx(2 * precision * recall / (precision + recall))
    order = [6, 0, 3, 5, 1, 4, 2]
    shuffled = grouped_decisions(
        [predicted[i] for i in order], [gold[i] for i in order], groups=[groups[i] for i in order]
    )
    assert shuffled == score


def test_parity_counts_pairs_that_agree() -> None:
    assert parity(["e", "e", "e", "n"], groups=[1, 2, 1, 2]) == 0.5


@pytest.mark.parametrize("score", [accuracy, matthews, macro_f1, micro_f1])
def test_nothing_cannot_be_scored(score) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])
    with pytest.raises(DataError, match="2 predictions but 1 gold"):
        score([1, 2], [1])
