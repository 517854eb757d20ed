"""Correlations against scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from heedful.errors import DataError
from heedful.metrics.classification import CorrelationMetric


def pearson(predicted: Sequence[float], gold: Sequence[float]) -> float:
    return CorrelationMetric(predicted, gold).value


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float:
    return CorrelationMetric(predicted, gold, use_ranks=True).value


@pytest.mark.parametrize("size", [2, 3, 50, 1000])
@pytest.mark.parametrize("levels", [3, 20, None])
def test_as_scipy(size: int, levels: int | None) -> None:
    for seed in range(10):
        random = np.random.default_rng([size, levels or 0, seed])
        gold = random.normal(size=size) if levels is None else random.integers(levels, size=size).astype(float)
        predicted = gold * 0.5 + random.normal(size=size) if seed % 2 else random.integers(4, size=size).astype(float)
        if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
            assert pearson(predicted, gold) == spearman(predicted, gold) == 0
            continue
        assert pearson(predicted, gold) == pytest.approx(stats.pearsonr(predicted, gold).statistic, abs=1e-12)
        assert spearman(predicted, gold) == pytest.approx(stats.spearmanr(predicted, gold).statistic, abs=1e-12)


def test_scale_and_place_change_nothing() -> None:
    x, y = [0.1, 0.4, -2.0, 0.3], [1.0, 2.0, 0.5, 3.0]
    wanted = pearson(x, y)
    assert pearson([1e200 * v for v in x], [1e-200 * v for v in y]) == pytest.approx(wanted)
    assert pearson([7 - v for v in x], y) == pytest.approx(-wanted)
    assert pearson([0.1] * 10, list(range(10))) == 0  # whose mean is not 0.1


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_what_has_no_correlation(correlation) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="at least two"):
        correlation([1.0], [2.0])
    with pytest.raises(DataError, match="3 numbers against 2"):
        correlation([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(DataError, match="number 2 is nan"):
        correlation([1.0, float("nan")], [1.0, 2.0])
