"""Calibration of quality estimation: learns the expected chrF from a model's own probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import itemgetter
from typing import Final

import numpy as np

from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.inspection.page import PageTable
from heedful.metrics.classification import CorrelationMetric
from heedful.metrics.judge import fit_isotonic
from heedful.tasks.translation.evaluation import run_by_tags, translate_pairs
from heedful.tasks.translation.quality_estimation import ConfidenceCurve, attention_entropy, get_certainty
from heedful.tasks.translation.translations import Translation
from heedful.tasks.translation.translator import Translator

MIN_SENTENCES: Final = 50
"""Minimum number of sentences for calibration."""
_FOLDS: Final = 5
_BINS: Final = 5
_SIGN_SHARE: Final = 0.01
"""Share of the translations that get a warning sign."""


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration and measures of its reliability.

    Attributes:
        confidence: learned from all sentences.
        expected: expected chrF of each sentence, by a curve that was learned from the others (five folds).
        actual: its chrF, from 0 to 1.
        mismatched: share of translations, read with the sources of others, whose attention is more scattered than
            `ConfidenceCurve.widest`; None if the model has no attention.
    """

    confidence: ConfidenceCurve
    expected: Sequence[float]
    actual: Sequence[float]
    mismatched: float | None = None

    @property
    def correlation(self) -> float:
        """Pearson's r between expected and actual chrF."""
        return CorrelationMetric(self.expected, self.actual).value

    def to_table(self) -> PageTable:
        """Build a table of expected and actual chrF, by fifths of the sentences."""
        order = np.argsort(self.expected, kind="stable")
        expected, actual = np.asarray(self.expected)[order], np.asarray(self.actual)[order]
        size = ceil(len(order) / _BINS)
        rows = []
        for start in range(0, len(order), size):
            bin_slice = slice(start, start + size)
            low, high = expected[bin_slice][0], expected[bin_slice][-1]
            numbers = (len(expected[bin_slice]), expected[bin_slice].mean(), actual[bin_slice].mean())
            rows.append([f"{low:.2f} to {high:.2f}", f"{numbers[0]:,}", f"{numbers[1]:.3f}", f"{numbers[2]:.3f}"])
        error = np.abs(expected - actual).mean()
        baseline_error = np.abs(actual.mean() - actual).mean()
        notes = [
            f"correlation {self.correlation:.3f}; mean error {error:.3f}, and {baseline_error:.3f} where all are "
            "expected to be like the mean"
        ]
        if self.confidence.widest is not None and self.mismatched is not None:
            notes.append(
                f"attention more scattered than {self.confidence.widest:.3f} is a sign: that of 1 in 100 translations, "
                f"and of {100 * self.mismatched:.0f} in 100 that are read with the source of another one"
            )
        return PageTable("", ["confidence", "sentences", "expected chrF", "actual chrF"], rows, notes)


def calibrate(
    translator: Translator, pairs: Sequence[SentencePair], *, weights: str, batch_tokens: int = 4096
) -> CalibrationResult:
    """Translate sentences with known references and learn the expected chrF from the model's certainty. `weights` is
    the digest of the model's file.

    Args:
        translator: of one run.
        pairs: sentences and their translations.
        weights: digest of the model's file.
        batch_tokens: padded source tokens of a batch.

    Raises:
        DataError: there are too few sentences.
    """
    from sacrebleu.metrics.chrf import CHRF

    if len(pairs) < MIN_SENTENCES:
        raise DataError(f"{len(pairs)} sentences are too few for calibration; give at least {MIN_SENTENCES}")
    translations = translate_pairs(translator, pairs, batch_tokens=batch_tokens)
    metric = CHRF()
    certainties = [get_certainty(item.candidates[0]) for item in translations]
    qualities = [
        metric.sentence_score(item.text, [pair.target]).score / 100
        for item, pair in zip(translations, pairs, strict=True)
    ]
    scatters = run_by_tags(
        translator,
        list(zip(pairs, translations, strict=True)),
        tags=lambda item: item[0].tags,
        run_group=_compute_scatter,
    )
    own_scatter, other_scatter = (
        [value for item in scatters for value in side(item)] for side in (itemgetter(0), itemgetter(1))
    )
    part_certainties = [get_certainty(part.candidates[0]) for item in translations for part in item.read_parts]
    widest = float(np.quantile(own_scatter, 1 - _SIGN_SHARE)) if own_scatter else None
    expected = [0.0] * len(certainties)
    for fold in range(_FOLDS):
        training_indices = [index for index in range(len(certainties)) if index % _FOLDS != fold]
        curve = fit_isotonic(
            [certainties[index] for index in training_indices], [qualities[index] for index in training_indices]
        )
        for index in range(fold, len(certainties), _FOLDS):
            expected[index] = curve(certainties[index])
    confidence = ConfidenceCurve(
        weights=weights,
        points=fit_isotonic(certainties, qualities).points,
        least=float(np.quantile(part_certainties, _SIGN_SHARE)),
        widest=widest,
    )
    return CalibrationResult(
        confidence, expected, qualities, None if widest is None else float((np.array(other_scatter) > widest).mean())
    )


def _compute_scatter(
    translator: Translator, rows: Sequence[tuple[SentencePair, Translation]]
) -> list[tuple[list[float], list[float]]]:
    """Return for each pair the attention entropy of its parts, once with their own translations and once with that of
    the part before (of the last part for the first); both lists are empty if the model has no attention.
    """
    parts = [(part, number) for number, (_, translation) in enumerate(rows) for part in translation.read_parts]
    scatters: list[tuple[list[float], list[float]]] = [([], []) for _ in rows]
    if translator.has_attention:
        for column, shift in enumerate((0, 1)):
            pairs = [(part.source, parts[index - shift][0].candidates[0]) for index, (part, _) in enumerate(parts)]
            for (_, number), alignment in zip(parts, translator.align_all(pairs), strict=True):
                scatters[number][column].append(attention_entropy(alignment.best_weights))
    return scatters
