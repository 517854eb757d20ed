"""Perplexity: the number of equally likely choices."""

from __future__ import annotations

import math

import pytest

from heedful.errors import DataError
from heedful.metrics.likelihood import perplexity


@pytest.mark.parametrize("choices", [1, 2, 50, 37_000])
@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_equally_likely_tokens_give_their_number(choices: int, count: int) -> None:
    assert perplexity(-count * math.log(choices), count) == pytest.approx(choices)


def test_it_is_the_inverse_geometric_mean_of_the_probabilities() -> None:
    probabilities = [0.5, 0.1, 0.9, 0.02]
    expected = math.prod(probabilities) ** (-1 / 4)
    assert perplexity(sum(map(math.log, probabilities)), 4) == pytest.approx(expected)


def test_impossible_tokens_are_infinitely_surprising() -> None:
    assert perplexity(-math.inf, 3) == math.inf
    assert perplexity(-1e9, 3) == math.inf


def test_rounding_above_zero_is_forgiven() -> None:
    assert perplexity(1e-6, 10) == pytest.approx(1)


@pytest.mark.parametrize(("total", "count"), [(-1.0, 0), (-1.0, -3), (math.nan, 3), (12.0, 3), (math.inf, 3)])
def test_what_no_model_can_give_is_refused(total: float, count: int) -> None:
    with pytest.raises(DataError, match=r"perplexity of|sum of log-probabilities"):
        perplexity(total, count)
