"""Means over seeds, and tests whose p-values count both the seeds and the examples as chance."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from heedful.errors import DataError
from heedful.metrics.metric import BootstrapOptions, Metric, build_mean_metric, run_paired_tests
from heedful.metrics.seeds import run_seed_tests, summarize_seeds

OPTIONS = BootstrapOptions(samples=400, seed=7)


def draw_system(
    dice: np.random.Generator, *, level: float, seeds: int, spread: float, examples: np.ndarray
) -> list[dict[str, Metric]]:
    """Runs of a system: each has a level of its own, and errors of its own on each example."""
    runs: list[dict[str, Metric]] = []
    for _ in range(seeds):
        values = level + dice.normal(scale=spread) + examples + dice.normal(scale=0.2, size=len(examples))
        runs.append({"score": build_mean_metric(values)})
    return runs


def test_mean_and_deviation_are_those_of_the_seeds() -> None:
    values = [0.4, 0.7, 0.55]
    runs = [{"score": build_mean_metric([value - 0.1, value + 0.1])} for value in values]
    scores = summarize_seeds(runs)["score"]
    assert scores.values == pytest.approx(values)
    assert scores.mean == pytest.approx(statistics.mean(values))
    assert scores.deviation == pytest.approx(statistics.stdev(values))
    assert summarize_seeds(runs[:1])["score"].deviation is None


@pytest.mark.parametrize(("spread", "seeds"), [(0.0, 3), (0.3, 2), (0.3, 3), (0.3, 5)])
def test_equal_systems_differ_as_rarely_as_p_says(spread: float, seeds: int) -> None:
    """Of equal systems one in twenty has p < 0.05: not more, where the seeds spread, and not never."""
    dice = np.random.default_rng(3)
    rejected = 0
    for number in range(400):
        examples = dice.normal(size=60)
        first, second = (draw_system(dice, level=0.0, seeds=seeds, spread=spread, examples=examples) for _ in range(2))
        options = BootstrapOptions(samples=200, seed=number)
        rejected += run_seed_tests(first, second, options)["score"].p_value < 0.05
    # 400 draws with a chance of 0.05 are between 7 and 33 with a probability of 0.998; where the seeds do not spread,
    # the spread that the test sees are the errors on the examples, which it then counts twice
    assert (0 if spread == 0 else 7) <= rejected <= 33


def test_seeds_that_spread_make_a_difference_doubtful() -> None:
    dice = np.random.default_rng(5)
    examples = dice.normal(size=200)
    steady = [draw_system(dice, level=level, seeds=3, spread=0.01, examples=examples) for level in (0.0, 0.3)]
    uneasy = [draw_system(dice, level=level, seeds=3, spread=1.0, examples=examples) for level in (0.0, 0.3)]
    certain, doubtful = (run_seed_tests(*systems, OPTIONS)["score"] for systems in (steady, uneasy))
    assert certain.p_value < 0.05 < doubtful.p_value
    assert certain.low < certain.difference < certain.high
    assert certain.high - certain.low < doubtful.high - doubtful.low
    assert certain.degrees_of_freedom == 4


def test_single_seeds_are_tested_over_examples_only() -> None:
    dice = np.random.default_rng(2)
    examples = dice.normal(size=100)
    first, second = (draw_system(dice, level=level, seeds=1, spread=0.1, examples=examples) for level in (0.0, 0.05))
    ours, paired = run_seed_tests(first, second, OPTIONS)["score"], run_paired_tests(first[0], second[0], OPTIONS)
    assert ours.degrees_of_freedom == 0
    assert ours.difference == pytest.approx(paired["score"].difference.value)
    assert ours.p_value == pytest.approx(paired["score"].p_value)


def test_the_same_options_give_the_same_numbers_and_no_runs_an_error() -> None:
    dice = np.random.default_rng(1)
    examples = dice.normal(size=50)
    first, second = (draw_system(dice, level=0.0, seeds=2, spread=0.1, examples=examples) for _ in range(2))
    assert run_seed_tests(first, second, OPTIONS) == run_seed_tests(first, second, OPTIONS)
    with pytest.raises(DataError, match="at least one run"):
        run_seed_tests(first, [], OPTIONS)
