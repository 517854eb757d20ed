"""How far a score can be trusted, and whether one system is better than another (Koehn 2004).

sacrebleu has a test too, but its seed is an environment variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.errors import DataError, RecipeError
from heedful.metrics.metric import Array, Metric

_BLOCK = 1 << 21
"""Weights that are held at a time."""


@dataclass(frozen=True)
class Interval:
    """A score, and where it lies in `confidence` of the sets of examples that could have been drawn instead."""

    name: str
    value: float
    mean: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class PairedTest:
    """Two systems under one metric, on the same draws.

    Attributes:
        name: the metric.
        first: the score of the first system.
        second: the score of the second system.
        difference: second minus first.
        p_value: how often chance alone makes a difference at least this large, in either direction.
        wins: the share of draws on which the second system has more.
        samples: the number of draws.
    """

    name: str
    first: Interval
    second: Interval
    difference: Interval
    p_value: float
    wins: float
    samples: int


@dataclass(frozen=True)
class Sampling:
    """How examples are drawn: with replacement, as many as there are, `samples` times, from `seed` on.

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


def intervals(metrics: Mapping[str, Metric], sampling: Sampling) -> dict[str, Interval]:
    """One for each metric; `DataError` where there are no examples."""
    (drawn,) = _resampled([metrics], sampling)
    return {name: _interval(name, scores, sampling) for name, scores in drawn.items()}


def paired_tests(
    first: Mapping[str, Metric], second: Mapping[str, Metric], sampling: Sampling
) -> dict[str, PairedTest]:
    """Whether two systems that answered the same examples differ under each metric by more than chance.

    The differences on draws are shifted to a mean of zero, as they would scatter if the systems were equally good;
    `p_value` is the share of them at least as far from zero as the real difference, itself included.

    Raises:
        DataError: no examples, or not the same number for both.
    """
    one, two = _resampled([first, second], sampling)
    return {name: _test(name, one[name], two[name], sampling) for name in first}


def _resampled(systems: Sequence[Mapping[str, Metric]], sampling: Sampling) -> list[dict[str, Array]]:
    """The scores of each system: of the examples themselves, then of draws that are alike for all."""
    parts: list[dict[str, list[Array]]] = [{name: [] for name in systems[0]} for _ in systems]
    for size, names in _by_size(systems).items():
        for weights in _draws(size, sampling):
            for found, system in zip(parts, systems, strict=True):
                for name in names:
                    found[name].append(system[name].scores(weights))
    return [{name: np.concatenate(blocks) for name, blocks in found.items()} for found in parts]


def _by_size(systems: Sequence[Mapping[str, Metric]]) -> dict[int, list[str]]:
    """The metrics that are of so many examples: several tasks of one model have their own."""
    found: dict[int, list[str]] = {}
    for name in systems[0]:
        sizes = {system[name].examples for system in systems}
        if len(sizes) != 1 or 0 in sizes:
            raise DataError(f"metrics of {sorted(sizes)} examples: they must be of the same ones, at least of one")
        found.setdefault(sizes.pop(), []).append(name)
    return found


def _draws(size: int, sampling: Sampling) -> Iterator[Array]:
    """Weights in blocks; the first row is all examples once."""
    rng = np.random.default_rng(sampling.seed)
    rows = max(1, _BLOCK // size)
    yield np.ones((1, size))
    for start in range(0, sampling.samples, rows):
        count = min(rows, sampling.samples - start)
        yield np.array(
            [np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(count)], dtype=np.float64
        )


def _interval(name: str, scores: Array, sampling: Sampling) -> Interval:
    """From the score of the examples and, behind it, those of the draws."""
    tail = (1 - sampling.confidence) / 2
    low, high = np.quantile(scores[1:], [tail, 1 - tail])
    return Interval(name, float(scores[0]), float(scores[1:].mean()), float(low), float(high), sampling.confidence)


def _test(name: str, first: Array, second: Array, sampling: Sampling) -> PairedTest:
    differences = second - first
    observed, drawn = differences[0], differences[1:]
    as_far = np.abs(drawn - drawn.mean()) >= abs(observed)
    return PairedTest(
        name,
        _interval(name, first, sampling),
        _interval(name, second, sampling),
        _interval(name, differences, sampling),
        p_value=float((as_far.sum() + 1) / (len(drawn) + 1)),
        wins=float((drawn > 0).mean()),
        samples=len(drawn),
    )
