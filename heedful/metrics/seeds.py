"""Comparison of systems that were trained with several seeds: mean, deviation, and a test over seeds and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import BootstrapOptions, FloatArray, MeanMetric, Metric, resample_scores


@dataclass(frozen=True)
class SeedScores:
    """Values of one metric, one for each seed of a system.

    Attributes:
        name: the metric.
        values: its value for each seed.
        mean: mean of the values.
        deviation: sample standard deviation of the values; None for a single seed.
    """

    name: str
    values: tuple[float, ...]
    mean: float
    deviation: float | None


@dataclass(frozen=True)
class SeedTest:
    """Comparison of two systems by one metric, over seeds and examples.

    Attributes:
        name: the metric.
        difference: mean of the second system minus mean of the first.
        low: lower bound of the confidence interval of the difference.
        high: upper bound.
        confidence: confidence of this interval.
        p_value: probability of a difference at least this large by chance, in either direction.
        degrees_of_freedom: those of the deviation between seeds; 0 if both systems have one seed, so that the test is
            only over examples.
        samples: number of samples.
    """

    name: str
    difference: float
    low: float
    high: float
    confidence: float
    p_value: float
    degrees_of_freedom: int
    samples: int


def summarize_seeds(runs: Sequence[Mapping[str, Metric]]) -> dict[str, SeedScores]:
    """Summarize each metric over the runs of a system, which have different seeds; `runs` has the metrics of each run
    by name.
    """
    scores = {}
    for name in runs[0]:
        values = np.array([run[name].value for run in runs])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else None
        scores[name] = SeedScores(name, tuple(map(float, values)), float(values.mean()), deviation)
    return scores


def run_seed_tests(
    first: Sequence[Mapping[str, Metric]], second: Sequence[Mapping[str, Metric]], options: BootstrapOptions
) -> dict[str, SeedTest]:
    """Test for each metric whether two systems differ by more than chance, where chance chooses both the seeds of
    training and the examples. `first` and `second` hold the metrics of each run by name.

    The means over seeds are compared on resampled examples, the same for both systems (Koehn 2004). To each difference
    an error of the means over seeds is added. It is drawn from Student's t distribution, with the variance of the seeds
    pooled over both systems, so few seeds give wide intervals. `p_value` is the share of the sampled errors that are at
    least as far from zero as the real difference, itself included.

    Raises:
        DataError: no run, no examples, or not the same number for all.
    """
    if not first or not second:
        raise DataError("a system without runs cannot be compared: give at least one run of each")
    first_scores, second_scores = resample_scores([_average_runs(first), _average_runs(second)], options)
    return {
        name: _build_test(
            name,
            second_scores[name] - first_scores[name],
            [np.array([run[name].value for run in runs]) for runs in (first, second)],
            options,
        )
        for name in first_scores
    }


def _average_runs(runs: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Return the mean of each metric over runs."""
    return {name: MeanMetric(tuple(run[name] for run in runs)) for name in runs[0]}


def _build_test(
    name: str, differences: FloatArray, values: Sequence[FloatArray], options: BootstrapOptions
) -> SeedTest:
    """Build the test of the metric `name`. The first of `differences` is that of the examples themselves, all others
    are those of resampled sets; `values` are those of each system by seed.
    """
    observed, resampled = float(differences[0]), differences[1:]
    degrees = sum(len(seeds) - 1 for seeds in values)
    errors = resampled - resampled.mean() + _draw_seed_errors(values, degrees, options)
    tail = (1 - options.confidence) / 2
    low, high = np.quantile(errors, [tail, 1 - tail])
    return SeedTest(
        name,
        difference=observed,
        low=observed + float(low),
        high=observed + float(high),
        confidence=options.confidence,
        p_value=float(((np.abs(errors) >= abs(observed)).sum() + 1) / (len(errors) + 1)),
        degrees_of_freedom=degrees,
        samples=len(errors),
    )


def _draw_seed_errors(values: Sequence[FloatArray], degrees: int, options: BootstrapOptions) -> FloatArray:
    """Draw an error of the difference of the means over seeds for each sample; zeros without degrees of freedom."""
    if degrees == 0:
        return np.zeros(options.samples)
    pooled_variance = sum(((seeds - seeds.mean()) ** 2).sum() for seeds in values) / degrees
    standard_error = np.sqrt(pooled_variance * sum(1 / len(seeds) for seeds in values))
    generator = np.random.default_rng([options.seed, len(values)])  # not the one that draws the examples
    return np.asarray(standard_error * generator.standard_t(degrees, size=options.samples))
