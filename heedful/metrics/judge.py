"""Judging of translations: learned metrics, numbers that are kept, and calibrated scores."""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from heedful.errors import DataError
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.metrics.translation import References, list_references


@final
@dataclass(frozen=True)
class JudgeScores:
    """Scores of some translations by a learned metric.

    Attributes:
        scores: of each, on the model's own scale.
        num_truncated: number of pairs of a translation and a reference that were truncated.
    """

    scores: tuple[float, ...]
    num_truncated: int = 0

    @property
    def metric(self) -> Metric:
        """The mean score as a metric."""
        return build_mean_metric(self.scores)


class TranslationJudge(ABC):
    """Abstract base of learned metrics; better translations get higher scores.

    Attributes:
        name: of the model.
        signature: everything needed to get the same numbers again.
    """

    name: str
    signature: str

    @property
    @final
    def metric_name(self) -> str:
        """Name of the metric, which is unique."""
        return f"judge: {self.name}"

    @abstractmethod
    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        """Return the score of each candidate translation, and how many were truncated.

        Args:
            sources: the source sentences.
            candidates: a translation of each.
            references: a reference translation of each.

        Raises:
            RunError: the model returns a value that is not a number.
        """


def score_with_judge(
    judge: TranslationJudge,
    *,
    sources: Sequence[str],
    candidates: Sequence[str],
    references: References,
    lowercase: bool = False,
) -> JudgeScores:
    """Return the judge's score of each candidate, of several references with the one that gives the highest score.

    Learned metrics read one reference. The program of BERTScore takes the maximum, too.

    Args:
        judge: the learned metric.
        sources: the source sentences.
        candidates: a translation of each.
        references: one or several reference translations of each.
        lowercase: whether the judge reads lowercased text.

    Raises:
        RunError: the model returns a value that is not a number.
    """
    normalise = str.lower if lowercase else str
    rows = [(row, normalise(reference)) for row, texts in enumerate(list_references(references)) for reference in texts]
    flat = judge.score_translations(
        sources=[normalise(sources[row]) for row, _ in rows],
        candidates=[normalise(candidates[row]) for row, _ in rows],
        references=[reference for _, reference in rows],
    )
    best = [-math.inf] * len(candidates)
    for (row, _), score in zip(rows, flat.scores, strict=True):
        best[row] = max(best[row], score)
    return JudgeScores(tuple(best), flat.num_truncated)


_SPACES: Final = " \u00a0\u2009\u202f"
_NUMBER: Final = re.compile(
    rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}}(?!\d))+(?:[.,]\d+)?(?!\d)"  # thousands with spaces between them
    r"|\d+(?:[.,:'\u2019]\d+)*"
)
_POINTS: Final = (".", ",")

NumberReadings: TypeAlias = frozenset[tuple[str, ...]]


def count_kept_numbers(source: str, translation: str) -> tuple[int, int]:
    """Return how many numbers of the source occur in its translation, and how many there are; only digits count.

    Each occurrence counts. `1,000.5`, `1.000,5`, `1 000,5` and `1000.5` are one number, and so are `10:30` and `10.30`,
    and the digits of all scripts; `3.5` and `35` are two.
    """
    source_numbers, target_numbers = _find_numbers(source), _find_numbers(translation)
    num_kept = 0
    for number in source_numbers:
        match = next((candidate for candidate, other in enumerate(target_numbers) if number & other), None)
        if match is not None:
            del target_numbers[match]
            num_kept += 1
    return num_kept, len(source_numbers)


def _find_numbers(text: str) -> list[NumberReadings]:
    return [_list_readings(number) for number in _NUMBER.findall(text)]


def _list_readings(number: str) -> NumberReadings:
    """Return all readings of a number: with its separators, without thousands separators, and with a fraction. A
    reading is a tuple of the digits between separators.
    """
    runs = ["".join(str(unicodedata.decimal(digit)) for digit in run) for run in re.findall(r"\d+", number)]
    separators = re.findall(r"\D", number)
    readings = {tuple(runs)}
    if _are_thousands(runs, separators):
        readings.add(("".join(runs),))
    if (
        len(runs) > 2
        and separators[-1] in _POINTS
        and separators[-1] != separators[-2]
        and _are_thousands(runs[:-1], separators[:-1])
    ):
        readings.add(("".join(runs[:-1]), runs[-1]))
    return frozenset(readings)


def _are_thousands(runs: Sequence[str], separators: Sequence[str]) -> bool:
    """Return whether the runs of digits, with `separators` between them, may be one integer with thousands separators;
    Indian style has groups of two digits.
    """
    return (
        len(set(separators)) == 1
        and separators[0] != ":"
        and len(runs[0]) <= 3
        and not runs[0].startswith("0")
        and all(len(run) in (2, 3) for run in runs[1:-1])
        and len(runs[-1]) == 3
    )


@dataclass(frozen=True)
class MonotoneCurve:
    """Piecewise linear curve that never falls, constant before its first and after its last point.

    Attributes:
        points: (x, y), with increasing x.
    """

    points: tuple[tuple[float, float], ...]

    def __call__(self, x: float) -> float:
        """Return the value of the curve at x."""
        index = bisect_right(self.points, x, key=lambda point: point[0])
        if index in (0, len(self.points)):
            return self.points[min(index, len(self.points) - 1)][1]
        (left, low), (right, high) = self.points[index - 1 : index + 1]
        return low + (high - low) * (x - left) / (right - left)


def fit_isotonic(xs: Sequence[float], ys: Sequence[float]) -> MonotoneCurve:
    """Fit the non-decreasing curve with the least squared error (Ayer et al. 1955, pool adjacent violators).

    Adjacent points that fall are merged into one at their weighted mean, until none fall.

    Raises:
        DataError: there are no points, or `xs` and `ys` differ in length.
    """
    if not xs or len(xs) != len(ys):
        raise DataError(
            f"{len(xs)} scores and {len(ys)} values do not make a curve; give the same number of both, and at least one"
        )
    pools: list[tuple[float, float, int]] = []
    for x, y in sorted(zip(xs, ys, strict=True)):
        pools.append((x, y, 1))
        while len(pools) > 1 and (pools[-2][1] >= pools[-1][1] or pools[-2][0] == pools[-1][0]):
            pools[-2:] = [_merge_pools(*pools[-2:])]
    return MonotoneCurve(tuple((x, y) for x, y, _ in pools))


def _merge_pools(first: tuple[float, float, int], second: tuple[float, float, int]) -> tuple[float, float, int]:
    """Return the weighted mean of two pools, (x, y, weight) each, with the sum of their weights."""
    weight = first[2] + second[2]
    x, y = ((first[axis] * first[2] + second[axis] * second[2]) / weight for axis in (0, 1))
    return x, y, weight
