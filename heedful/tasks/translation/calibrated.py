"""What a model's own probabilities say of how good its translations are, learned from some with references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from heedful.data.context import asked
from heedful.data.readers import Pair
from heedful.errors import DataError
from heedful.inspection.page import Table
from heedful.metrics.calibration import isotonic
from heedful.metrics.correlation import Correlation
from heedful.tasks.translation.confidence import Confidence, certainty
from heedful.tasks.translation.directions import by_tags
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.translations import Translation

FEWEST: Final = 50
"""Sentences that a curve is learned from, at least."""
_FOLDS: Final = 5
_BINS: Final = 5


@dataclass(frozen=True)
class Calibrated:
    """What was learned, and how far it can be trusted.

    Attributes:
        confidence: learned from all sentences.
        expected: of each sentence, by a curve that was learned from the others (five folds).
        actual: its chrF, from 0 to 1.
    """

    confidence: Confidence
    expected: Sequence[float]
    actual: Sequence[float]

    @property
    def correlation(self) -> float:
        """Pearson's r between both."""
        return Correlation(self.expected, self.actual).value

    def table(self) -> Table:
        """Sentences by what was expected of them, and what came; in fifths."""
        order = np.argsort(self.expected, kind="stable")
        expected, actual = np.asarray(self.expected)[order], np.asarray(self.actual)[order]
        size = ceil(len(order) / _BINS)
        rows = []
        for first in range(0, len(order), size):
            mine = slice(first, first + size)
            low, high = expected[mine][0], expected[mine][-1]
            numbers = (len(expected[mine]), expected[mine].mean(), actual[mine].mean())
            rows.append([f"{low:.2f} to {high:.2f}", f"{numbers[0]:,}", f"{numbers[1]:.3f}", f"{numbers[2]:.3f}"])
        error = np.abs(expected - actual).mean()
        plain = np.abs(actual.mean() - actual).mean()
        notes = (
            f"correlation {self.correlation:.3f}; mean error {error:.3f}, and {plain:.3f} where all are expected to be "
            "like the mean",
        )
        return Table("", ["confidence", "sentences", "expected chrF", "actual chrF"], rows, notes)


def calibrate(translator: Translator, pairs: Sequence[Pair], *, weights: str, batch_tokens: int = 4096) -> Calibrated:
    """Translates sentences whose translations are known, and learns from their chrF.

    Args:
        translator: of one run.
        pairs: sentences and their translations.
        weights: digest of the model's file.
        batch_tokens: padded source tokens that are translated at one time.

    Raises:
        DataError: there are too few.
    """
    from sacrebleu.metrics.chrf import CHRF

    if len(pairs) < FEWEST:
        raise DataError(f"{len(pairs)} sentences are too few to learn from; give at least {FEWEST}")

    def translate(user: Translator, some: Sequence[Pair]) -> Sequence[Translation]:
        return user.translate([asked(pair) for pair in some], batch_tokens=batch_tokens)

    found = by_tags(translator, pairs, tags=lambda pair: pair.tags, ask=translate)
    metric = CHRF()
    xs = [certainty(each.candidates[0]) for each in found]
    ys = [metric.sentence_score(each.text, [pair.target]).score / 100 for each, pair in zip(found, pairs, strict=True)]
    expected = [0.0] * len(xs)
    for fold in range(_FOLDS):
        others = [place for place in range(len(xs)) if place % _FOLDS != fold]
        curve = isotonic([xs[place] for place in others], [ys[place] for place in others])
        for place in range(fold, len(xs), _FOLDS):
            expected[place] = curve(xs[place])
    return Calibrated(Confidence(weights=weights, points=isotonic(xs, ys).points), expected, ys)
