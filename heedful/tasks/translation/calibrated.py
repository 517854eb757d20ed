"""What a model's own probabilities say of how good its translations are, learned from some with references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import itemgetter
from typing import Final

import numpy as np

from heedful.data.context import asked
from heedful.data.readers import Pair
from heedful.errors import DataError
from heedful.inspection.page import Table
from heedful.metrics.calibration import isotonic
from heedful.metrics.correlation import Correlation
from heedful.tasks.translation.confidence import Confidence, certainty
from heedful.tasks.translation.detachment import scatter
from heedful.tasks.translation.directions import by_tags
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.translations import Translation

FEWEST: Final = 50
"""Sentences that a curve is learned from, at least."""
_FOLDS: Final = 5
_BINS: Final = 5
_RARE: Final = 0.01
"""Share of the translations that signs stand at."""


@dataclass(frozen=True)
class Calibrated:
    """What was learned, and how far it can be trusted.

    Attributes:
        confidence: learned from all sentences.
        expected: of each sentence, by a curve that was learned from the others (five folds).
        actual: its chrF, from 0 to 1.
        strange: of translations that are read beside other sources, the share whose attention is more scattered than
            `Confidence.widest`; None where the model has no attention.
    """

    confidence: Confidence
    expected: Sequence[float]
    actual: Sequence[float]
    strange: float | None = None

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
        notes = [
            f"correlation {self.correlation:.3f}; mean error {error:.3f}, and {plain:.3f} where all are expected to be "
            "like the mean"
        ]
        if self.confidence.widest is not None and self.strange is not None:
            notes.append(
                f"attention more scattered than {self.confidence.widest:.3f} is a sign: that of 1 in 100 translations, "
                f"and of {100 * self.strange:.0f} in 100 that are read beside the source of another one"
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
    read = by_tags(translator, list(zip(pairs, found, strict=True)), tags=lambda each: each[0].tags, ask=_scattered)
    mine, strange = ([value for each in read for value in side(each)] for side in (itemgetter(0), itemgetter(1)))
    sure = [certainty(part.candidates[0]) for each in found for part in _parts(each)]
    widest = float(np.quantile(mine, 1 - _RARE)) if mine else None
    expected = [0.0] * len(xs)
    for fold in range(_FOLDS):
        others = [place for place in range(len(xs)) if place % _FOLDS != fold]
        curve = isotonic([xs[place] for place in others], [ys[place] for place in others])
        for place in range(fold, len(xs), _FOLDS):
            expected[place] = curve(xs[place])
    confidence = Confidence(
        weights=weights, points=isotonic(xs, ys).points, least=float(np.quantile(sure, _RARE)), widest=widest
    )
    return Calibrated(confidence, expected, ys, None if widest is None else float((np.array(strange) > widest).mean()))


def _parts(translation: Translation) -> list[Translation]:
    """What was read at one time."""
    return [part for part in translation.parts or (translation,) if part.source_tokens]


def _scattered(user: Translator, some: Sequence[tuple[Pair, Translation]]) -> list[tuple[list[float], list[float]]]:
    """Of each translation how scattered the attention of its parts is, and what that of the translation before it is
    beside its source.
    """
    read = [(part, number) for number, (_, each) in enumerate(some) for part in _parts(each)]
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in some]
    if user.attentive:
        for side, step in enumerate((0, 1)):
            pairs = [(part.source, read[at - step][0].candidates[0]) for at, (part, _) in enumerate(read)]
            for (_, number), alignment in zip(read, user.align_all(pairs), strict=True):
                found[number][side].append(scatter(alignment.telling))
    return found
