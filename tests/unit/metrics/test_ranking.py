"""Recall and mean reciprocal rank."""

from __future__ import annotations

import random

import pytest

from heedful import DataError
from heedful.metrics.classification import mean_reciprocal_rank, recall_at_k


def test_by_hand() -> None:
    ranks = [[1], [None], [3, None], [4, 2]]
    assert recall_at_k(ranks, 1) == pytest.approx(1 / 4)
    assert recall_at_k(ranks, 3) == pytest.approx((1 + 0 + 0.5 + 0.5) / 4)
    assert recall_at_k(ranks, 10) == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 + 0 + 1 / 3 + 1 / 2) / 4)


def test_recall_grows_and_one_gold_bounds_the_reciprocal_rank() -> None:
    dice = random.Random(1)
    ranks = [[dice.choice([None, dice.randint(1, 12)])] for _ in range(50)]
    grown = [recall_at_k(ranks, first) for first in range(1, 13)]
    assert grown == sorted(grown)
    assert grown[0] <= mean_reciprocal_rank(ranks) <= grown[-1]
    assert grown[-1] == sum(rank is not None for (rank,) in ranks) / 50


@pytest.mark.parametrize("measure", [mean_reciprocal_rank, lambda ranks: recall_at_k(ranks, 5)])
def test_without_anything_to_find_there_is_nothing_to_measure(measure) -> None:
    with pytest.raises(DataError, match="no questions"):
        measure([])
    with pytest.raises(DataError, match="question 2: no passage answers it"):
        measure([[1], []])
