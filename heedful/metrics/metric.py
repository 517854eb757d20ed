"""Metrics as functions of example weights, with confidence intervals and paired tests (Koehn 2004)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from heedful.errors import DataError, RecipeError

FloatArray: TypeAlias = NDArray[np.float64]


class Metric(ABC):
    """Abstract base of metrics that can be computed for any weights of the examples."""

    @property
    @abstractmethod
    def num_examples(self) -> int:
        """Number of examples."""

    @abstractmethod
    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of weights, which are non-negative integers with a positive sum."""

    @property
    @final
    def value(self) -> float:
        """The metric with each example counted once."""
        return float(self.compute_scores(np.ones((1, self.num_examples)))[0])


@final
@dataclass(frozen=True)
class RatioMetric(Metric):
    """One sum over examples divided by another, such as a mean, precision, recall or F1; 0 if the divisor is 0."""

    numerators: Float[np.ndarray, " N"]
    denominators: Float[np.ndarray, " N"]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.numerators)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the ratio for each row of weights."""
        return safe_divide(weights @ self.numerators, weights @ self.denominators)


@final
@dataclass(frozen=True)
class MeanMetric(Metric):
    """Mean of several metrics of the same examples, such as macro F1."""

    parts: tuple[Metric, ...]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self.parts[0].num_examples

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the mean for each row of weights."""
        return np.asarray(np.mean([part.compute_scores(weights) for part in self.parts], axis=0))


class SummedCountsMetric(Metric):
    """Abstract base of metrics computed from counts summed over examples, such as BLEU."""

    @cached_property
    @abstractmethod
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """What each example adds to the sums."""

    @abstractmethod
    def score_sums(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of `sums`, the counts summed over the examples of one sample."""

    @property
    @final
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.counts)

    @final
    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of weights."""
        return self.score_sums(weights @ self.counts)


def build_mean_metric(values: Sequence[float] | Float[np.ndarray, " N"]) -> RatioMetric:
    """Return the mean of one number per example as a metric."""
    return RatioMetric(np.asarray(values, dtype=np.float64), np.ones(len(values)))


def group_metric(metric: RatioMetric, groups: Sequence[Hashable]) -> RatioMetric:
    """Return the metric with each group as one example: the numerators and the denominators of its members are added.
    `groups` has the group of each example; groups are in the order of their first members.
    """
    group_numbers = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    group_of_example = np.array([group_numbers[group] for group in groups])
    numerators, denominators = (
        np.bincount(group_of_example, values, minlength=len(group_numbers))
        for values in (metric.numerators, metric.denominators)
    )
    return RatioMetric(numerators, denominators)


def safe_divide(numerators: Float[np.ndarray, ...], denominators: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """Divide elementwise; 0 where the divisor is not positive."""
    is_positive: Bool[np.ndarray, ...] = denominators > 0
    return np.where(is_positive, numerators / np.where(is_positive, denominators, 1), 0.0)


_BLOCK_SIZE = 1 << 21
"""Number of weights that are in memory at one time."""


@dataclass(frozen=True)
class ConfidenceInterval:
    """A score with its confidence interval over resampled sets of examples."""

    name: str
    value: float
    mean: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class PairedTest:
    """Comparison of two systems by one metric, on the same resampled examples.

    Attributes:
        name: the metric.
        first: the score of the first system.
        second: the score of the second system.
        difference: second minus first.
        p_value: probability of a difference at least this large by chance, in either direction.
        wins: share of the samples on which the second system is higher.
        samples: number of samples.
    """

    name: str
    first: ConfidenceInterval
    second: ConfidenceInterval
    difference: ConfidenceInterval
    p_value: float
    wins: float
    samples: int


@dataclass(frozen=True)
class BootstrapOptions:
    """Options of resampling: `samples` sets of examples, drawn with replacement from `seed` on.

    Raises:
        RecipeError: fewer than 2 samples, or a confidence outside (0, 1).
    """

    samples: int = 1000
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise RecipeError(f"a bootstrap of {self.samples} samples: at least 2, better 1000")
        if not 0 < self.confidence < 1:
            raise RecipeError(f"a confidence of {self.confidence}: it must lie between 0 and 1, such as 0.95")


def compute_intervals(metrics: Mapping[str, Metric], options: BootstrapOptions) -> dict[str, ConfidenceInterval]:
    """Compute the confidence interval of each metric by its name; raises `DataError` without examples."""
    (scores_by_metric,) = resample_scores([metrics], options)
    return {name: _build_interval(name, scores, options) for name, scores in scores_by_metric.items()}


def run_paired_tests(
    first: Mapping[str, Metric], second: Mapping[str, Metric], options: BootstrapOptions
) -> dict[str, PairedTest]:
    """Test for each metric whether two systems that answered the same examples differ by more than chance. `first` and
    `second` hold the metrics of each system by name.

    The differences on the samples are shifted to mean zero, as if the systems were equally good. `p_value` is the share
    of them at least as far from zero as the real difference, itself included.

    Raises:
        DataError: no examples, or not the same number for both.
    """
    first_scores, second_scores = resample_scores([first, second], options)
    return {name: _build_test(name, first_scores[name], second_scores[name], options) for name in first}


def resample_scores(systems: Sequence[Mapping[str, Metric]], options: BootstrapOptions) -> list[dict[str, FloatArray]]:
    """Return the scores of each system by name of the metric: that of the examples themselves, then those of the
    resampled sets, which are the same for all systems.
    """
    blocks_by_system: list[dict[str, list[FloatArray]]] = [{name: [] for name in systems[0]} for _ in systems]
    for size, names in _group_by_size(systems).items():
        for weights in _draw_weights(size, options):
            for system_blocks, system in zip(blocks_by_system, systems, strict=True):
                for name in names:
                    system_blocks[name].append(system[name].compute_scores(weights))
    return [
        {name: np.concatenate(blocks) for name, blocks in system_blocks.items()} for system_blocks in blocks_by_system
    ]


def _group_by_size(systems: Sequence[Mapping[str, Metric]]) -> dict[int, list[str]]:
    """Return the names of the metrics by their number of examples, which may differ between the tasks of a model. Raise
    `DataError` if it differs between systems, or is 0.
    """
    names_by_size: dict[int, list[str]] = {}
    for name in systems[0]:
        sizes = {system[name].num_examples for system in systems}
        if len(sizes) != 1 or 0 in sizes:
            raise DataError(f"metrics of {sorted(sizes)} examples: they must cover the same examples, at least one")
        names_by_size.setdefault(sizes.pop(), []).append(name)
    return names_by_size


def _draw_weights(size: int, options: BootstrapOptions) -> Iterator[FloatArray]:
    """Yield blocks of weights [sets, size]: how often each of `size` examples occurs in a set. The first block is one
    row of ones; the others are drawn with replacement, `options.samples` rows in all.
    """
    rng = np.random.default_rng(options.seed)
    rows = max(1, _BLOCK_SIZE // size)
    yield np.ones((1, size))
    for start in range(0, options.samples, rows):
        count = min(rows, options.samples - start)
        yield np.array(
            [np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(count)], dtype=np.float64
        )


def _build_interval(name: str, scores: FloatArray, options: BootstrapOptions) -> ConfidenceInterval:
    """Build the confidence interval of the metric `name`. The first of `scores` is that of the examples themselves, all
    others are those of resampled sets.
    """
    tail = (1 - options.confidence) / 2
    low, high = np.quantile(scores[1:], [tail, 1 - tail])
    return ConfidenceInterval(
        name, float(scores[0]), float(scores[1:].mean()), float(low), float(high), options.confidence
    )


def _build_test(name: str, first: FloatArray, second: FloatArray, options: BootstrapOptions) -> PairedTest:
    """Build the paired test of the metric `name` from the scores of both systems: first that of the examples
    themselves, then those of resampled sets.
    """
    differences = second - first
    observed, sample_differences = differences[0], differences[1:]
    is_as_large = np.abs(sample_differences - sample_differences.mean()) >= abs(observed)
    return PairedTest(
        name,
        _build_interval(name, first, options),
        _build_interval(name, second, options),
        _build_interval(name, differences, options),
        p_value=float((is_as_large.sum() + 1) / (len(sample_differences) + 1)),
        wins=float((sample_differences > 0).mean()),
        samples=len(sample_differences),
    )
