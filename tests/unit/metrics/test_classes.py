"""Scores of predicted classes against scikit-learn and longhand."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from sklearn import metrics

from heedful.errors import DataError
from heedful.metrics.classification import (
    MatthewsCorrelation,
    accuracy,
    f1_score,
    group_exact_match,
    group_parity,
    macro_f1_score,
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
        assert accuracy(predicted, gold).value == pytest.approx(metrics.accuracy_score(gold, predicted))
        correlation = metrics.matthews_corrcoef(gold, predicted) if len({*gold, *predicted}) > 1 else 0.0
        assert MatthewsCorrelation(predicted, gold).value == pytest.approx(correlation)
        chosen = ["c1", "c0"]
        for average, ours in (
            ("macro", macro_f1_score(predicted, gold, classes=chosen).value),
            (None, [f1_score(predicted, gold, positive=name).value for name in chosen]),
        ):
            wanted = metrics.f1_score(gold, predicted, average=average, labels=chosen, zero_division=0)
            assert ours == pytest.approx(wanted)


def test_matthews_longhand() -> None:
    # TP 6, FN 2, FP 1, TN 3
    gold = [1] * 8 + [0] * 4
    predicted = [1] * 6 + [0] * 2 + [1] + [0] * 3
    assert MatthewsCorrelation(predicted, gold).value == pytest.approx((6 * 3 - 1 * 2) / sqrt(7 * 8 * 4 * 5))
    assert MatthewsCorrelation([1 - p for p in predicted], gold).value == pytest.approx(
        -MatthewsCorrelation(predicted, gold).value
    )
    assert MatthewsCorrelation([1] * 12, gold).value == 0
    assert MatthewsCorrelation(gold, gold).value == 1


def test_the_means_of_macro_f1_are_means_of_f1() -> None:
    # CB: a class that is never found counts as much as the others.
    gold, predicted = ["e", "e", "c", "n"], ["e", "e", "c", "c"]
    assert macro_f1_score(predicted, gold, classes="ecn").value == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_groups_without_an_error_as_multirc() -> None:
    # Question a is right, b has one option too many, c misses its only one.
    groups = ["a", "a", "b", "b", "b", "c", "c"]
    gold = [True, False, True, True, False, True, False]
    predicted = [True, False, True, True, True, False, False]
    assert group_exact_match(predicted, gold, groups=groups).value == pytest.approx(1 / 3)
    order = [6, 0, 3, 5, 1, 4, 2]
    shuffled = [[side[i] for i in order] for side in (predicted, gold, groups)]
    assert group_exact_match(shuffled[0], shuffled[1], groups=shuffled[2]).value == pytest.approx(1 / 3)


def test_parity_counts_pairs_that_agree() -> None:
    assert group_parity(["e", "e", "e", "n"], groups=[1, 2, 1, 2]).value == 0.5
    with pytest.raises(DataError, match="1 groups but 2 examples"):
        group_parity(["e", "e"], groups=[1])


@pytest.mark.parametrize("score", [accuracy, MatthewsCorrelation, lambda p, g: macro_f1_score(p, g, classes="a")])
def test_nothing_cannot_be_scored(score) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])
    with pytest.raises(DataError, match="2 predictions but 1 gold"):
        score([1, 2], [1])
