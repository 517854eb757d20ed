"""Epochs of several texts: their shares, their turns, and what decides them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from heedful.data.batches import CorpusMixture


def mixture(counts: list[int], shares: list[float], *, seed: int = 7) -> CorpusMixture:
    tokens = np.random.default_rng(sum(counts)).integers(1, 60, size=sum(counts))
    return CorpusMixture(tokens, counts, amounts(tokens, counts, shares), seed)


def amounts(tokens: np.ndarray, counts: list[int], shares: list[float]) -> list[float]:
    """Of the first text all there is, and of each other one a share of the whole."""
    first = int(tokens[: counts[0]].sum())
    return [first, *(first / (1 - sum(shares)) * share for share in shares)]


def of_texts(made: CorpusMixture, rows: np.ndarray) -> list[np.ndarray]:
    bounds = np.cumsum([0, *made.counts])
    return [rows[(rows >= low) & (rows < high)] for low, high in pairwise(bounds)]


@pytest.mark.parametrize(
    ("counts", "shares"),
    [
        ([400, 900], [0.5]),
        ([400, 900], [0.05]),
        ([400, 60], [0.8]),
        ([50, 7], [0.99]),
        ([300, 500, 200], [0.3, 0.2]),
        ([300, 40, 2000, 9], [0.1, 0.6, 0.2]),
    ],
)
def test_an_epoch_has_the_first_text_once_and_of_the_others_their_shares(
    counts: list[int], shares: list[float]
) -> None:
    made = mixture(counts, shares)
    sums = np.zeros(len(counts))
    for epoch in range(40):
        parts = of_texts(made, made.sample_epoch(epoch))
        assert sorted(parts[0]) == list(range(counts[0]))
        sums += [made.tokens[rows].sum() for rows in parts]
    # over many epochs the lengths that were drawn are those of the text; one example more or less remains
    found = sums / sums.sum()
    assert found[1:] == pytest.approx(shares, rel=0.05)


@pytest.mark.parametrize(("first", "other", "share"), [(100, 37, 0.3), (100, 1000, 0.3), (30, 7, 0.9), (5, 5, 0.5)])
def test_no_example_comes_again_before_all_have_come(first: int, other: int, share: float) -> None:
    made = mixture([first, other], [share])
    _, take = made.examples_per_epoch
    seen: Counter[int] = Counter()
    for epoch in range(max(4, 3 * other // take)):
        rows = of_texts(made, made.sample_epoch(epoch))[1]
        assert len(rows) == take
        for each in rows:
            seen[int(each)] += 1
            assert max(seen.values()) - min(seen[row] for row in range(first, first + other)) <= 1


def test_passes_have_orders_of_their_own() -> None:
    made = mixture([40, 40], [0.5])
    _, take = made.examples_per_epoch
    drawn = np.concatenate([made.sample_epoch(epoch)[40:] for epoch in range(12)])[: 40 * (12 * take // 40)]
    orders = drawn.reshape(-1, 40)
    assert len(orders) > 3
    assert len({tuple(order) for order in orders}) == len(orders)
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(40, 80))}


def test_seed_and_epoch_decide_and_texts_differ() -> None:
    made, other = mixture([60, 200, 200], [0.2, 0.2]), mixture([60, 200, 200], [0.2, 0.2], seed=8)
    assert np.array_equal(made.sample_epoch(5), mixture([60, 200, 200], [0.2, 0.2]).sample_epoch(5))
    assert not np.array_equal(made.sample_epoch(5), made.sample_epoch(6))
    assert not np.array_equal(made.sample_epoch(5), other.sample_epoch(5))
    alike = CorpusMixture(np.full(460, 5), [60, 200, 200], [300, 100, 100], seed=7)
    _, one, two = of_texts(alike, alike.sample_epoch(0))
    assert len(one) == len(two) == 20
    assert set(one - 60) != set(two - 260)


def test_a_tiny_share_still_has_an_example() -> None:
    assert mixture([3, 500], [1e-6]).examples_per_epoch == (3, 1)
